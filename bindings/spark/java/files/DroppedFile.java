package skipstone;

import java.util.HashSet;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;

/** A file that a scan leaves out, as it was when it was judged. */
class DroppedFile {
  final HashSet values = new HashSet(); // of the partitions that it belongs to, as text
  private final long length;
  private final long time;

  DroppedFile(FileStatusWithMetadata file) {
    length = file.getLen();
    time = file.getModificationTime();
  }

  /** Return true if a file that is listed now, with the values of its partition, is this one. */
  boolean is(FileStatusWithMetadata file, String partition) {
    return length == file.getLen() && time == file.getModificationTime()
      && values.contains(partition) && Listing.isCurrent(file);
  }
}
