package skipstone;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;

/**
 * The joins of a plan that compare keys for equality, from the top down: the keys, and the scans
 * that their columns come from.
 *
 * Scans are identified by their position in the plan, as `Scans` numbers them, since one relation
 * may occur in a plan twice.
 */
public class Joins {
  private static final List THROUGH = java.util.Arrays.asList(
    new Object[] {"Filter", "SubqueryAlias", "View", "Sort", "ResolvedHint", "Repartition",
      "RepartitionByExpression", "Distinct"});

  private final ArrayList relations;
  private final ArrayList joins = new ArrayList(); // of JoinKeys
  private int scans = 0;

  public Joins(LogicalPlan plan, Scans scans) {
    relations = scans.relations;
    walk(plan, new ArrayList());
  }

  /** Return the joins as JSON. */
  public LongText text() {
    StringBuilder out = new StringBuilder("[");
    for (int i = 0; i < joins.size(); i++) {
      if (i > 0) out.append(",");
      JoinText.write((JoinKeys) joins.get(i), out);
    }
    return new LongText(out.append("]"));
  }

  /**
   * Return the rows of keys on one side of a join, without rows that the joins in `above` do not
   * need. `above` holds the number of each such join and the side on which this join is, as in
   * "3 left,5 right". Each is used once, where it is met first.
   */
  public LogicalPlan of(int join, boolean left, String above) {
    List outer = new ArrayList(java.util.Arrays.asList((Object[]) above.split(",")));
    return ((JoinKeys) joins.get(join)).of(left, outer);
  }

  // Walk from the top down, with the columns at this node that are keys of the joins above.

  private void walk(LogicalPlan plan, List above) {
    if (FileScan.is(plan)) {
      scan(plan, above);
      return;
    }
    JoinKeys own = null;
    if (plan instanceof Join) {
      // Joins without keys are added, too, so that the first one is the top join.
      own = new JoinKeys((Join) plan, joins.size());
      joins.add(own);
    }
    for (int i = 0; i < plan.children().size(); i++) {
      LogicalPlan child = (LogicalPlan) plan.children().apply(i);
      ArrayList inner = new ArrayList();
      for (Iterator w = above.iterator(); w.hasNext(); ) {
        PushedKeys pushed = (PushedKeys) w.next();
        long[] ids = through(plan, i, pushed.ids);
        if (any(ids)) inner.add(new PushedKeys(pushed.keys, pushed.left, ids));
      }
      if (own != null) {
        own.side(i == 0).above = inner;
        own.side(i == 0).first = scans;
        inner = new ArrayList(inner);
        long[] ids = placed(child.output(), child.output(), own.ids(i == 0));
        inner.add(new PushedKeys(own, i == 0, ids));
      }
      walk(child, inner);
      if (own != null) own.side(i == 0).last = scans;
    }
    scala.collection.Iterator subqueries = plan.subqueries().iterator();
    while (subqueries.hasNext()) walk((LogicalPlan) subqueries.next(), new ArrayList());
  }

  private void scan(LogicalPlan scan, List above) {
    int n = scans++;
    if (relations.get(n) != scan) {
      throw new IllegalStateException("the scans of a plan were numbered differently");
    }
    for (Iterator i = above.iterator(); i.hasNext(); ) {
      PushedKeys pushed = (PushedKeys) i.next();
      if (any(pushed.ids)) {
        pushed.keys.side(pushed.left).scans.add(new Object[] {Integer.valueOf(n), pushed.ids});
      }
    }
  }

  // Follow keys down to a child, if leaving out a row below only removes or changes rows above that
  // have its keys. -1 means no column.
  private static long[] through(LogicalPlan plan, int child, long[] ids) {
    LogicalPlan below = (LogicalPlan) plan.children().apply(child);
    for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) {
      if (!((Expression) i.next()).deterministic()) return new long[0];
    }
    if (plan instanceof Project) return named(((Project) plan).projectList(), ids);
    if (plan instanceof Aggregate) {
      Aggregate a = (Aggregate) plan;
      long[] out = named(a.aggregateExpressions(), ids);
      for (int i = 0; i < out.length; i++) {
        if (!has(a.groupingExpressions(), out[i])) out[i] = -1;
      }
      return out;
    }
    if (plan instanceof Union) return placed(plan.output(), below.output(), ids);
    if (plan instanceof Join) {
      String how = how((Join) plan);
      boolean both = how.equals("INNER") || how.equals("CROSS");
      boolean left = both || how.equals("LEFT OUTER") || how.equals("LEFT SEMI")
        || how.equals("LEFT ANTI");
      boolean passes = child == 0 ? left : both || how.equals("RIGHT OUTER");
      return passes ? placed(below.output(), below.output(), ids) : new long[0];
    }
    boolean passes = THROUGH.contains(plan.getClass().getSimpleName());
    return passes ? placed(below.output(), below.output(), ids) : new long[0];
  }

  // Joins that only the optimiser makes have no SQL name; `sql()` throws for them.
  static String how(Join join) {
    String name = join.joinType().getClass().getSimpleName();
    return name.startsWith("Existence") ? "EXISTENCE" : join.joinType().sql();
  }

  private static boolean any(long[] ids) {
    for (int i = 0; i < ids.length; i++) if (ids[i] >= 0) return true;
    return false;
  }

  private static long[] placed(
      scala.collection.immutable.Seq from, scala.collection.immutable.Seq to, long[] ids) {
    long[] out = new long[ids.length];
    for (int k = 0; k < ids.length; k++) {
      out[k] = -1;
      int times = 0;
      for (int i = 0; i < from.size(); i++) {
        if (((Attribute) from.apply(i)).exprId().id() != ids[k]) continue;
        out[k] = ((Attribute) to.apply(i)).exprId().id();
        times++;
      }
      if (times > 1) out[k] = -1;
    }
    return out;
  }

  private static long[] named(scala.collection.immutable.Seq columns, long[] ids) {
    long[] out = new long[ids.length];
    for (int k = 0; k < ids.length; k++) {
      out[k] = -1;
      for (scala.collection.Iterator i = columns.iterator(); i.hasNext(); ) {
        NamedExpression column = (NamedExpression) i.next();
        if (column.exprId().id() != ids[k]) continue;
        Object of = column instanceof Alias ? ((Alias) column).child() : column;
        out[k] = of instanceof Attribute ? ((Attribute) of).exprId().id() : -1;
      }
    }
    return out;
  }

  private static boolean has(scala.collection.immutable.Seq columns, long id) {
    for (scala.collection.Iterator i = columns.iterator(); i.hasNext(); ) {
      Object column = i.next();
      if (column instanceof Attribute && ((Attribute) column).exprId().id() == id) return true;
    }
    return false;
  }
}
