package skipstone;

import java.lang.reflect.Method;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BatchScan;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;

/**
 * The files that Iceberg selected for a scan, as text and as names in the same order.
 *
 * Iceberg's scan is not public, so its methods are found by their names. This class and
 * PrunedIcebergScan are compiled only where Iceberg's classes are.
 */
public class IcebergFiles implements ScanFiles {
  private final List files; // locations, each once
  private final StringBuilder text = new StringBuilder();
  private final String digest;

  public IcebergFiles(Object scan) throws Exception {
    Object read = call(scan, new String[] {"table"});
    Object selection = call(scan, new String[] {"scan"});
    if (!(read instanceof BaseTable)) {
      throw new IllegalArgumentException("it is a table of metadata");
    }
    BaseTable table = (BaseTable) read;
    if (!(selection instanceof BatchScan) || ((BatchScan) selection).snapshot() == null) {
      throw new IllegalArgumentException("it does not read one snapshot");
    }
    BatchScan selected = (BatchScan) selection;
    Schema schema = (Schema) call(scan, new String[] {"projection", "expectedSchema"});
    text.append(table.operations().current().metadataFileLocation()).append('\0');
    text.append(selected.snapshot().snapshotId()).append('\0');
    text.append(SchemaParser.toJson(schema)).append('\0');
    ArrayList once = new ArrayList();
    HashSet seen = new HashSet();
    for (Iterator i = tasks(scan).iterator(); i.hasNext(); ) {
      FileScanTask task = (FileScanTask) i.next();
      if (!seen.add(location(task))) continue;
      once.add(location(task));
      text.append(location(task)).append('\0');
      text.append(task.file().fileSizeInBytes()).append('\0');
    }
    files = once;
    java.security.MessageDigest sha = java.security.MessageDigest.getInstance("SHA-256");
    sha.update(text.toString().getBytes("UTF-8"));
    digest = new BigInteger(1, sha.digest()).toString(16);
  }

  static List tasks(Object scan) throws Exception {
    return (List) call(scan, new String[] {"tasks"});
  }

  static String location(FileScanTask task) {
    return task.file().location();
  }

  /** Call the first method without parameters that has one of some names. */
  static Object call(Object scan, String[] names) throws Exception {
    for (int n = 0; n < names.length; n++) {
      for (Class c = scan.getClass(); c != null; c = c.getSuperclass()) {
        Method[] methods = c.getDeclaredMethods();
        for (int i = 0; i < methods.length; i++) {
          boolean found = methods[i].getName().equals(names[n]);
          if (!found || methods[i].getParameterTypes().length > 0) continue;
          methods[i].setAccessible(true);
          return methods[i].invoke(scan, new Object[0]);
        }
      }
    }
    throw new NoSuchMethodException(scan.getClass().getName() + "." + names[0]);
  }

  public String digest() {
    return digest;
  }

  /**
   * The table's metadata file, the snapshot and the columns read, as JSON; then of each file the
   * location and the length in bytes. Each ends with a zero character, which no location holds.
   */
  public LongText text() {
    return new LongText(text);
  }

  /** Return a scan without the files whose bit is set, for as long as `validity` holds. */
  public Object without(Object whole, byte[] bits, Validity validity) throws Exception {
    HashSet dropped = new HashSet();
    for (int i = 0; i < files.size(); i++) {
      if ((bits[i >> 3] >> (i & 7) & 1) != 0) dropped.add(files.get(i));
    }
    return new PrunedIcebergScan(whole, dropped, validity);
  }
}
