package skipstone;

import org.apache.spark.sql.execution.datasources.FileIndex;

/** The files of a scan, in an order that Python knows them by. */
public interface ScanFiles {
  String digest();

  LongText text();

  FileIndex without(FileIndex whole, byte[] bits, Validity validity);
}
