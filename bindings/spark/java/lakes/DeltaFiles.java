package skipstone;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashSet;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;

/**
 * The files that Delta selected for a scan, as text and as objects in the same order.
 *
 * This class and PrunedDeltaFiles are compiled only where Delta's classes are.
 */
public class DeltaFiles implements ScanFiles {
  private final ArrayList files = new ArrayList();
  private final StringBuilder text = new StringBuilder();
  private final String digest;

  public DeltaFiles(FileIndex index) throws Exception {
    PreparedDeltaFileIndex scan = (PreparedDeltaFileIndex) index;
    text.append(scan.path().toString()).append('\0');
    text.append(scan.preparedScan().scannedSnapshot().version()).append('\0');
    text.append(scan.preparedScan().scannedSnapshot().metadata().id()).append('\0');
    for (scala.collection.Iterator i = scan.preparedScan().files().iterator(); i.hasNext(); ) {
      AddFile file = (AddFile) i.next();
      files.add(file);
      text.append(file.path()).append('\0').append(file.size()).append('\0');
      text.append(file.modificationTime()).append('\0').append(vector(file)).append('\0');
    }
    java.security.MessageDigest sha = java.security.MessageDigest.getInstance("SHA-256");
    sha.update(text.toString().getBytes("UTF-8"));
    digest = new BigInteger(1, sha.digest()).toString(16);
  }

  /** The SHA-256 of the version and the files, which identifies them. */
  public String digest() {
    return digest;
  }

  /**
   * The table's path, version and id; then of each file the path, the length in bytes, the time in
   * ms and the deletion vector. Each ends with a zero character, which no path holds.
   */
  public LongText text() {
    return new LongText(text);
  }

  private static String vector(AddFile file) {
    return file.deletionVector() == null ? "" : file.deletionVector().uniqueId();
  }

  static String key(AddFile file) {
    return file.path() + '\0' + vector(file);
  }

  /** Return an index without the files whose bit is set, for as long as `validity` holds. */
  public Object without(Object whole, byte[] bits, Validity validity) {
    HashSet dropped = new HashSet();
    for (int i = 0; i < files.size(); i++) {
      if ((bits[i >> 3] >> (i & 7) & 1) != 0) dropped.add(key((AddFile) files.get(i)));
    }
    return new PrunedDeltaFiles((PreparedDeltaFileIndex) whole, dropped, validity);
  }
}
