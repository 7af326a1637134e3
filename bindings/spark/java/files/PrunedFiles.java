package skipstone;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

/**
 * The files of another index without some of them.
 *
 * A file is skipped only while the other index lists it with the length, the time and the values of
 * its partition that it had when it was judged, and while the file still has them if it is on a
 * local disk. Files that are added or replaced are therefore read as soon as Spark itself sees
 * them.
 */
public class PrunedFiles implements FileIndex, Narrowed {
  private final FileIndex whole;
  private final Map dropped; // Path -> DroppedFile
  private final Validity validity;

  public PrunedFiles(FileIndex whole, Map dropped, Validity validity) {
    this.whole = whole;
    this.dropped = dropped;
    this.validity = validity;
  }

  public FileIndex whole() {
    return whole;
  }

  public scala.collection.immutable.Seq rootPaths() {
    return whole.rootPaths();
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters,
      scala.collection.immutable.Seq dataFilters) {
    if (!validity.holds()) return whole.listFiles(partitionFilters, dataFilters);
    ArrayList out = new ArrayList();
    scala.collection.Iterator folders = whole.listFiles(partitionFilters, dataFilters).iterator();
    while (folders.hasNext()) {
      PartitionDirectory folder = (PartitionDirectory) folders.next();
      ArrayList kept = new ArrayList();
      String values = valuesOf(folder);
      scala.collection.Iterator files = folder.files().iterator();
      while (files.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
        if (!isDropped(file, values)) kept.add(file);
      }
      if (!kept.isEmpty()) out.add(new PartitionDirectory(folder.values(), Seqs.of(kept)));
    }
    return Seqs.of(out);
  }

  // A catalog's partition may have got another location, or other values in another time zone.
  private String valuesOf(PartitionDirectory folder) {
    try {
      return Listing.values(folder, partitionSchema());
    } catch (Exception e) {
      return ""; // no partition has this text, so its files are read
    }
  }

  private boolean isDropped(FileStatusWithMetadata file, String values) {
    DroppedFile known = (DroppedFile) dropped.get(file.getPath());
    return known != null && known.is(file, values);
  }

  public String[] inputFiles() {
    if (!validity.holds()) return whole.inputFiles();
    // Decide as `listFiles` does.
    HashMap gone = new HashMap();
    HashMap read = new HashMap();
    scala.collection.immutable.Seq none = Seqs.of(new ArrayList());
    scala.collection.Iterator folders = whole.listFiles(none, none).iterator();
    while (folders.hasNext()) {
      PartitionDirectory folder = (PartitionDirectory) folders.next();
      String values = valuesOf(folder);
      scala.collection.Iterator files = folder.files().iterator();
      while (files.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
        String path = org.apache.spark.paths.SparkPath.fromPath(file.getPath()).urlEncoded();
        if (isDropped(file, values)) gone.put(path, "");
        else read.put(path, "");
      }
    }
    gone.keySet().removeAll(read.keySet());
    ArrayList kept = new ArrayList();
    String[] all = whole.inputFiles();
    for (int i = 0; i < all.length; i++) if (!gone.containsKey(all[i])) kept.add(all[i]);
    String[] out = new String[kept.size()];
    for (int i = 0; i < out.length; i++) out[i] = (String) kept.get(i);
    return out;
  }

  public void refresh() {
    whole.refresh();
  }

  // Spark broadcasts what it estimates to be small, and estimates by the compressed size: with the
  // size of the remaining files, TPC-DS's Q72 took 2.5 times as long, and others ran out of memory.
  public long sizeInBytes() {
    return whole.sizeInBytes();
  }

  public StructType partitionSchema() {
    return whole.partitionSchema();
  }

  public scala.Option metadataOpsTimeNs() {
    return whole.metadataOpsTimeNs();
  }

  public boolean isTimeTravel() {
    return false;
  }

  public String toString() {
    return "Skipstone[" + whole + " without " + dropped.size() + " files]";
  }

  // Spark reads equal scans once, so two indexes are equal only if they drop the same files. But
  // saveAsTable(mode="overwrite") first drops the table, and refuses to do so if the query reads an
  // equal relation, so for that test this index equals the whole one.
  public boolean equals(Object other) {
    if (!(other instanceof PrunedFiles)) return whole.equals(other) && isOverwriteTest();
    PrunedFiles o = (PrunedFiles) other;
    return whole.equals(o.whole) && validity.equals(o.validity)
      && dropped.keySet().equals(o.dropped.keySet());
  }

  // Return true if a writer itself compares relations: the command, or DataFrameWriter before 4.0.
  private static boolean isOverwriteTest() {
    StackTraceElement[] calls = new Throwable().getStackTrace();
    for (int i = 0; i < calls.length; i++) {
      String name = calls[i].getClassName();
      if (name.endsWith(".SaveAsV1TableCommand") || name.contains(".DataFrameWriter")) return true;
      boolean compares = name.startsWith("skipstone.") || name.startsWith("scala.")
        || name.startsWith("java.") || name.endsWith(".HadoopFsRelation");
      if (!compares) return false;
    }
    return false;
  }

  public int hashCode() {
    return whole.hashCode() * 31 + dropped.size();
  }
}
