package skipstone;

import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** A cheap check whether a plan may have scans that can be pruned. */
class Prunable {
  /** Return true if there is a scan of files below a condition or a join. */
  static boolean isIn(LogicalPlan plan) {
    return isIn(plan, false);
  }

  private static boolean isIn(LogicalPlan plan, boolean isBelow) {
    if (FileScan.is(plan)) return isBelow && !(FileScan.files(plan) instanceof Narrowed);
    boolean inner = isBelow || plan instanceof Filter || plan instanceof Join;
    scala.collection.Iterator children = plan.children().iterator();
    while (children.hasNext()) if (isIn((LogicalPlan) children.next(), inner)) return true;
    scala.collection.Iterator subqueries = plan.subqueries().iterator();
    while (subqueries.hasNext()) if (isIn((LogicalPlan) subqueries.next(), false)) return true;
    return false;
  }
}
