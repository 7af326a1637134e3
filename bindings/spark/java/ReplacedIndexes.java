package skipstone;

import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/** Puts other file indexes into scans of a plan. */
class ReplacedIndexes extends scala.runtime.AbstractPartialFunction {
  private final IdentityHashMap to = new IdentityHashMap(); // LogicalRelation -> FileIndex

  /** The scan at a position in `relations` gets the index that `to` has for the position. */
  public ReplacedIndexes(List relations, Map to) {
    for (Iterator each = to.entrySet().iterator(); each.hasNext(); ) {
      Map.Entry entry = (Map.Entry) each.next();
      this.to.put(relations.get(((Number) entry.getKey()).intValue()), entry.getValue());
    }
  }

  public boolean isDefinedAt(Object node) {
    return found(node) != null;
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    FileIndex index = found(node);
    if (index == null) return otherwise.apply(node);
    LogicalRelation scan = (LogicalRelation) node;
    HadoopFsRelation r = (HadoopFsRelation) scan.relation();
    Object[] parts = new Object[scan.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = scan.productElement(i);
    parts[0] = r.copy(index, r.partitionSchema(), r.dataSchema(), r.bucketSpec(), r.fileFormat(),
      r.options(), r.sparkSession());
    return scan.makeCopy(parts);
  }

  private FileIndex found(Object node) {
    return (FileIndex) to.get(node);
  }
}
