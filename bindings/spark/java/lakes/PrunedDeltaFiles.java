package skipstone;

import java.util.ArrayList;
import java.util.Set;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.stats.DeltaScan;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;

/**
 * The files that Delta selected for a scan without some of them.
 *
 * It is one of Delta's own indexes, so that Delta goes on to apply deletion vectors. Delta's files
 * never change, and a version's list of them is fixed.
 */
public class PrunedDeltaFiles extends PreparedDeltaFileIndex implements Narrowed {
  private final PreparedDeltaFileIndex whole;
  private final Set dropped; // of keys
  private final Validity validity;

  PrunedDeltaFiles(PreparedDeltaFileIndex whole, Set dropped, Validity validity) {
    super(whole.spark(), whole.deltaLog(), whole.path(), whole.catalogTableOpt(),
      without(whole.preparedScan(), dropped), whole.versionScanned());
    this.whole = whole;
    this.dropped = dropped;
    this.validity = validity;
  }

  // The sizes stay those of Delta's selection: Spark broadcasts what it estimates to be small.
  private static DeltaScan without(DeltaScan scan, Set dropped) {
    return new DeltaScan(scan.version(), kept(scan.files(), dropped), scan.total(),
      scan.partition(), scan.scanned(), scan.scannedSnapshot(), scan.partitionFilters(),
      scan.dataFilters(), scan.partitionLikeDataFilters(),
      scan.rewrittenPartitionLikeDataFilters(), scan.unusedFilters(), scan.scanDurationMs(),
      scan.dataSkippingType());
  }

  private static scala.collection.immutable.Seq kept(scala.collection.immutable.Seq files,
      Set dropped) {
    ArrayList out = new ArrayList();
    for (scala.collection.Iterator i = files.iterator(); i.hasNext(); ) {
      AddFile file = (AddFile) i.next();
      if (!dropped.contains(DeltaFiles.key(file))) out.add(file);
    }
    return Seqs.of(out);
  }

  // Delta selects files anew if the filters of the physical plan differ from those that it selected
  // by, as they do with deletion vectors. A new selection would include the dropped files.
  public scala.collection.immutable.Seq matchingFiles(
      scala.collection.immutable.Seq partitionFilters,
      scala.collection.immutable.Seq dataFilters) {
    if (!validity.holds()) return whole.matchingFiles(partitionFilters, dataFilters);
    return kept(super.matchingFiles(partitionFilters, dataFilters), dropped);
  }

  public String toString() {
    return "Skipstone[" + whole + " without " + dropped.size() + " files]";
  }

  // Spark reads equal scans once, so two indexes are equal only if they drop the same files.
  public boolean equals(Object other) {
    return other instanceof PrunedDeltaFiles && super.equals(other)
      && dropped.equals(((PrunedDeltaFiles) other).dropped)
      && validity.equals(((PrunedDeltaFiles) other).validity);
  }

  public int hashCode() {
    return super.hashCode();
  }
}
