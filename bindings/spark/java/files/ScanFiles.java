package skipstone;

/** The files of a scan, in the order in which Python numbers them. */
public interface ScanFiles {
  String digest();

  LongText text();

  /** Return a file index, or a scan of Iceberg's, without the files whose bit is set. */
  Object without(Object whole, byte[] bits, Validity validity) throws Exception;
}
