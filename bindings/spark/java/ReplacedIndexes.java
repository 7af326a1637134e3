package skipstone;

import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/** Puts other file indexes into the scans of a plan; `to` maps ids of their columns to them. */
class ReplacedIndexes extends scala.runtime.AbstractPartialFunction {
  private final Map to;

  public ReplacedIndexes(Map to) {
    this.to = to;
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
    if (!(node instanceof LogicalRelation)) return null;
    LogicalRelation scan = (LogicalRelation) node;
    if (!(scan.relation() instanceof HadoopFsRelation)) return null;
    scala.collection.Iterator output = scan.output().iterator();
    while (output.hasNext()) {
      Object index = to.get(String.valueOf(((NamedExpression) output.next()).exprId().id()));
      if (index != null) return (FileIndex) index;
    }
    return null;
  }
}
