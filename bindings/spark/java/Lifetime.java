package skipstone;

import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.optimizer.SpecialDatetimeValues$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * How long a plan stays the same. Spark inserts the current time when it optimises a plan, again
 * for each action. With current_date(), a plan stays the same until the end of the day.
 */
class Lifetime {
  private static final scala.Enumeration.Value CURRENT =
    org.apache.spark.sql.catalyst.trees.TreePattern$.MODULE$.CURRENT_LIKE();

  /**
   * Return the time until which a plan stays the same, in ms since 1970; 0 if it may change at any
   * moment, because it depends on the current time, the user or the database.
   */
  static long until(LogicalPlan plan) {
    return SpecialDatetimeValues$.MODULE$.apply(plan) == plan ? untilOf(plan) : 0;
  }

  private static long untilOf(LogicalPlan plan) {
    long out = Long.MAX_VALUE;
    for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) {
      out = Math.min(out, untilOf((Expression) i.next()));
    }
    for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
      out = Math.min(out, untilOf((LogicalPlan) i.next()));
    }
    for (scala.collection.Iterator i = plan.subqueries().iterator(); i.hasNext(); ) {
      out = Math.min(out, untilOf((LogicalPlan) i.next()));
    }
    return out;
  }

  private static long untilOf(Expression e) {
    if (e instanceof CurrentDate) {
      java.time.ZoneId zone = ((CurrentDate) e).zoneId();
      java.time.LocalDate tomorrow = java.time.LocalDate.now(zone).plusDays(1);
      return tomorrow.atStartOfDay(zone).toInstant().toEpochMilli();
    }
    String name = e.getClass().getSimpleName();
    boolean leaf = e.children().isEmpty() && !(e instanceof PlanExpression);
    if (e.containsPattern(CURRENT) && (leaf || name.startsWith("Current"))) return 0;
    long out = Long.MAX_VALUE;
    for (scala.collection.Iterator i = e.children().iterator(); i.hasNext(); ) {
      out = Math.min(out, untilOf((Expression) i.next()));
    }
    return out;
  }
}
