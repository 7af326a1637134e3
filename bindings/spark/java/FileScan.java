package skipstone;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** Leaves of plans that read files, and the objects that list these files. */
class FileScan {
  static final String ICEBERG = "org.apache.iceberg.spark.source.SparkBatchQueryScan";

  /** Return true if a plan is a scan of Spark's file sources (including Delta), or of Iceberg. */
  static boolean is(LogicalPlan plan) {
    if (plan instanceof LogicalRelation) {
      return ((LogicalRelation) plan).relation() instanceof HadoopFsRelation;
    }
    if (!(plan instanceof DataSourceV2ScanRelation)) return false;
    Object scan = ((DataSourceV2ScanRelation) plan).scan();
    return scan instanceof Narrowed || scan.getClass().getName().equals(ICEBERG);
  }

  /** Return a scan's file index, or Iceberg's own scan. */
  static Object files(LogicalPlan plan) {
    if (plan instanceof DataSourceV2ScanRelation) return ((DataSourceV2ScanRelation) plan).scan();
    return relation(plan).location();
  }

  /** Return a scan's relation; null for Iceberg's. */
  static HadoopFsRelation relation(LogicalPlan plan) {
    if (!(plan instanceof LogicalRelation)) return null;
    return (HadoopFsRelation) ((LogicalRelation) plan).relation();
  }

  /** Return a scan with other files. */
  static LogicalPlan with(LogicalPlan plan, Object files) {
    Object[] parts = new Object[plan.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = plan.productElement(i);
      if (plan instanceof DataSourceV2ScanRelation && parts[i] == files(plan)) parts[i] = files;
    }
    if (plan instanceof LogicalRelation) {
      HadoopFsRelation r = relation(plan);
      parts[0] = r.copy((FileIndex) files, r.partitionSchema(), r.dataSchema(), r.bucketSpec(),
        r.fileFormat(), r.options(), r.sparkSession());
    }
    return (LogicalPlan) plan.makeCopy(parts);
  }
}
