package skipstone;

import java.math.BigInteger;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;

/** Writes a join and its sides as JSON. */
class JoinText {
  // Conditions that the optimiser adds by itself.
  private static final List ADDED = java.util.Arrays.asList(
    new Object[] {"IsNotNull", "DynamicPruningSubquery", "DynamicPruningExpression",
      "BloomFilterMightContain", "Literal"});

  static void write(JoinKeys keys, StringBuilder out) {
    out.append("{\"how\":");
    Json.quoted(Joins.how(keys.join), out);
    out.append(",\"all\":").append(keys.all).append(",\"keys\":[");
    for (int i = 0; i < keys.conjuncts.size(); i++) {
      out.append(i == 0 ? "" : ",").append("{\"left\":");
      Json.tree(keys.key(i, true), out);
      out.append(",\"right\":");
      Json.tree(keys.key(i, false), out);
      boolean nullSafe = ((Expression[]) keys.conjuncts.get(i))[0] instanceof EqualNullSafe;
      out.append(",\"null_safe\":").append(nullSafe).append("}");
    }
    out.append("],\"left\":");
    write(keys.side(true), keys.join.left(), out);
    out.append(",\"right\":");
    write(keys.side(false), keys.join.right(), out);
    out.append("}");
  }

  private static void write(JoinSide side, LogicalPlan plan, StringBuilder out) {
    out.append("{\"first\":").append(side.first).append(",\"last\":").append(side.last);
    out.append(",\"filtered\":").append(isFiltered(plan));
    out.append(",\"plain\":").append(isPlain(plan));
    out.append(",\"size\":").append(plan.stats().sizeInBytes().toString());
    out.append(",\"others\":").append(others(plan).toString());
    out.append(",\"scans\":[");
    for (int i = 0; i < side.scans.size(); i++) {
      Object[] one = (Object[]) side.scans.get(i);
      out.append(i == 0 ? "" : ",").append("{\"scan\":").append(one[0]).append(",\"ids\":");
      ids((long[]) one[1], out);
      out.append("}");
    }
    out.append("],\"above\":[");
    for (int i = 0; i < side.above.size(); i++) {
      PushedKeys pushed = (PushedKeys) side.above.get(i);
      out.append(i == 0 ? "" : ",").append("{\"join\":").append(pushed.keys.number);
      out.append(",\"left\":").append(pushed.left).append("}");
    }
    out.append("]}");
  }

  private static void ids(long[] ids, StringBuilder out) {
    out.append("[");
    for (int i = 0; i < ids.length; i++) out.append(i == 0 ? "" : ",").append(ids[i]);
    out.append("]");
  }

  // Return true if the user wrote a condition on the rows of a plan.
  private static boolean isFiltered(LogicalPlan plan) {
    if (plan instanceof Filter && isWritten(((Filter) plan).condition())) return true;
    for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
      if (isFiltered((LogicalPlan) i.next())) return true;
    }
    return false;
  }

  // Return true if the rows of a plan are those of one scan of files, under conditions.
  private static boolean isPlain(LogicalPlan plan) {
    if (plan.children().isEmpty()) return FileScan.is(plan);
    return (plan instanceof Filter || plan instanceof Project)
      && isPlain((LogicalPlan) plan.children().apply(0));
  }

  private static boolean isWritten(Expression e) {
    if (!(e instanceof And)) return !ADDED.contains(e.getClass().getSimpleName());
    return isWritten((Expression) e.children().apply(0))
      || isWritten((Expression) e.children().apply(1));
  }

  // Return the bytes of the leaves that are not file scans.
  private static BigInteger others(LogicalPlan plan) {
    BigInteger out = BigInteger.ZERO;
    if (FileScan.is(plan)) return out;
    if (plan.children().isEmpty()) return plan.stats().sizeInBytes().bigInteger();
    for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
      out = out.add(others((LogicalPlan) i.next()));
    }
    return out;
  }
}
