package skipstone;

import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Puts other lists of files into scans of a plan. */
class ReplacedIndexes extends scala.runtime.AbstractPartialFunction {
  private final IdentityHashMap to = new IdentityHashMap(); // scan -> its new file index

  /** The scan at a position in `relations` gets the files that `to` has for the position. */
  public ReplacedIndexes(List relations, Map to) {
    for (Iterator each = to.entrySet().iterator(); each.hasNext(); ) {
      Map.Entry entry = (Map.Entry) each.next();
      this.to.put(relations.get(((Number) entry.getKey()).intValue()), entry.getValue());
    }
  }

  public boolean isDefinedAt(Object node) {
    return to.get(node) != null;
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    Object files = to.get(node);
    return files == null ? otherwise.apply(node) : FileScan.with((LogicalPlan) node, files);
  }
}
