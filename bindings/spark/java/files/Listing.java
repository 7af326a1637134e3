package skipstone;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The files of an index by partition: as text, separated by zero characters, which no path holds,
 * and as objects in the same order.
 */
public class Listing implements ScanFiles {
  private final ArrayList files = new ArrayList();
  private final ArrayList values = new ArrayList(); // of each file's partition, as text
  private final StringBuilder text = new StringBuilder();
  private final StringBuilder partitions = new StringBuilder("[");
  private final String digest;

  public Listing(FileIndex index) throws Exception {
    scala.collection.immutable.Seq none = Seqs.of(new ArrayList());
    StructType schema = index.partitionSchema();
    scala.collection.Iterator folders = index.listFiles(none, none).iterator();
    for (int n = 0; folders.hasNext(); n++) {
      PartitionDirectory folder = (PartitionDirectory) folders.next();
      String own = values(folder, schema);
      partitions.append(n == 0 ? "" : ",").append(own);
      scala.collection.Iterator each = folder.files().iterator();
      while (each.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) each.next();
        files.add(file);
        values.add(own);
        text.append(file.getPath().toString()).append('\0').append(file.getLen()).append('\0');
        text.append(file.getModificationTime()).append('\0').append(n).append('\0');
      }
    }
    partitions.append("]");
    java.security.MessageDigest sha = java.security.MessageDigest.getInstance("SHA-256");
    sha.update(text.toString().getBytes("UTF-8"));
    sha.update(partitions.toString().getBytes("UTF-8"));
    digest = new BigInteger(1, sha.digest()).toString(16);
  }

  /** The values of a partition, as JSON. */
  static String values(PartitionDirectory folder, StructType schema) throws Exception {
    StringBuilder out = new StringBuilder("[");
    InternalRow row = folder.values();
    for (int i = 0; i < schema.size(); i++) {
      if (i > 0) out.append(",");
      DataType type = schema.apply(i).dataType();
      Json.tree(row.isNullAt(i) ? null : row.get(i, type), out);
    }
    return out.append("]").toString();
  }

  /** The SHA-256 of the listing and its partitions, which identifies it. */
  public String digest() {
    return digest;
  }

  public LongText text() {
    return new LongText(text);
  }

  public LongText partitions() {
    return new LongText(partitions);
  }

  /** Return true if the files are as they were listed; remote files are assumed to be. */
  boolean isCurrent() {
    for (Iterator i = files.iterator(); i.hasNext(); ) {
      if (!isCurrent((FileStatusWithMetadata) i.next())) return false;
    }
    return true;
  }

  // Spark may have listed files long ago. On a local disk, looking again costs microseconds.
  static boolean isCurrent(FileStatusWithMetadata file) {
    java.net.URI uri = file.getPath().toUri();
    if (!"file".equals(uri.getScheme())) return true;
    java.io.File now = new java.io.File(uri.getPath());
    return now.length() == file.getLen() && now.lastModified() == file.getModificationTime();
  }

  /** Return an index without the files whose bit is set, for as long as `validity` holds. */
  public Object without(Object whole, byte[] bits, Validity validity) {
    HashMap dropped = new HashMap();
    for (int i = 0; i < files.size(); i++) {
      FileStatusWithMetadata file = (FileStatusWithMetadata) files.get(i);
      if ((bits[i >> 3] >> (i & 7) & 1) == 0) continue;
      DroppedFile one = (DroppedFile) dropped.get(file.getPath());
      String own = (String) values.get(i);
      if (one == null) dropped.put(file.getPath(), new DroppedFile(file, own));
      else one.add(own);
    }
    return new PrunedFiles((FileIndex) whole, dropped, validity);
  }
}
