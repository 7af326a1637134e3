package skipstone;

import java.util.HashSet;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;

/** A file that a scan leaves out, as it was when it was judged. */
class DroppedFile {
  private final long length;
  private final long time;
  private final String first; // the values of a partition that it belongs to
  private HashSet others; // those of further partitions; nearly always null, as there are none

  DroppedFile(FileStatusWithMetadata file, String partition) {
    length = file.getLen();
    time = file.getModificationTime();
    first = partition;
  }

  void add(String partition) {
    if (partition.equals(first)) return;
    if (others == null) others = new HashSet();
    others.add(partition);
  }

  /** Return true if a file in the current listing, with its partition's values, is this one. */
  boolean is(FileStatusWithMetadata file, String partition) {
    return length == file.getLen() && time == file.getModificationTime()
      && (first.equals(partition) || (others != null && others.contains(partition)))
      && Listing.isCurrent(file);
  }
}
