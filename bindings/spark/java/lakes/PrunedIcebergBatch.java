package skipstone;

import java.util.Set;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * Iceberg's batch over fewer files. Spark reads equal batches once, and Iceberg's own are equal if
 * their filters are, so this one also compares the files.
 */
public class PrunedIcebergBatch implements Batch {
  private final Batch part;
  private final Set dropped; // locations

  PrunedIcebergBatch(Batch part, Set dropped) {
    this.part = part;
    this.dropped = dropped;
  }

  public InputPartition[] planInputPartitions() {
    return part.planInputPartitions();
  }

  public PartitionReaderFactory createReaderFactory() {
    return part.createReaderFactory();
  }

  public boolean equals(Object other) {
    if (!(other instanceof PrunedIcebergBatch)) return false;
    PrunedIcebergBatch o = (PrunedIcebergBatch) other;
    return part.equals(o.part) && dropped.equals(o.dropped);
  }

  public int hashCode() {
    return part.hashCode() * 31 + dropped.hashCode();
  }
}
