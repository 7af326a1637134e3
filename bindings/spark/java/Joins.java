// Compiled after PrunedFiles.java; see its first lines.

package skipstone;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.JoinType$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * The joins of a plan that compare keys for equality, from the top down: the keys, and the scans
 * that their columns come from.
 *
 * Scans are identified by their position in the plan, as PrunedFiles.Scans numbers them, since one
 * relation may occur in a plan twice.
 */
public class Joins {
  private static final List THROUGH = java.util.Arrays.asList(
    new Object[] {"Filter", "SubqueryAlias", "View", "Sort", "ResolvedHint", "Repartition",
      "RepartitionByExpression", "Distinct"});
  // Conditions that the optimiser adds by itself.
  private static final List ADDED = java.util.Arrays.asList(
    new Object[] {"IsNotNull", "DynamicPruningSubquery", "DynamicPruningExpression",
      "BloomFilterMightContain", "Literal"});

  private final ArrayList relations;
  private final ArrayList joins = new ArrayList(); // of Keys
  private int scans = 0;

  public Joins(LogicalPlan plan, PrunedFiles.Scans scans) {
    relations = scans.relations;
    walk(plan, new ArrayList());
  }

  /** Return the joins as JSON. */
  public String text() {
    StringBuilder out = new StringBuilder("[");
    for (int i = 0; i < joins.size(); i++) {
      if (i > 0) out.append(",");
      ((Keys) joins.get(i)).write(out);
    }
    return out.append("]").toString();
  }

  /**
   * Return the rows of keys on one side of a join, without rows that the joins in `above` do not
   * need. Each entry of `above` is a join's number and the side of it that this join stands on.
   */
  public LogicalPlan of(int join, boolean left, List above) {
    return ((Keys) joins.get(join)).of(left, above);
  }

  // Walk from the top down, with the columns at this node that are keys of the joins above.

  private void walk(LogicalPlan plan, List above) {
    if (plan instanceof LogicalRelation) {
      if (((LogicalRelation) plan).relation() instanceof HadoopFsRelation) scan(plan, above);
      return;
    }
    Keys own = null;
    if (plan instanceof Join) {
      own = new Keys((Join) plan, joins.size()); // also without keys: the first join is the top one
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
  // have its keys. -1 stands for no column.
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
  private static String how(Join join) {
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

  /** Keys of a join, followed down the plan: the ids of their columns at a node; -1 for none. */
  private static class PushedKeys {
    final Keys keys;
    final boolean left;
    final long[] ids;

    PushedKeys(Keys keys, boolean left, long[] ids) {
      this.keys = keys;
      this.left = left;
      this.ids = ids;
    }
  }

  /**
   * One side of a join: the scans that its keys come from, the range of its scans, and the keys of
   * joins above that are also columns of this side.
   */
  private static class JoinSide {
    final ArrayList scans = new ArrayList(); // {number, ids}
    List above = new ArrayList(); // of PushedKeys
    int first = 0;
    int last = 0;
  }

  /** One join and its keys. */
  private static class Keys {
    final Join join;
    final int number;
    final ArrayList conjuncts = new ArrayList(); // {comparison, left operand, right operand}
    private final JoinSide left = new JoinSide();
    private final JoinSide right = new JoinSide();
    private boolean all = true;

    Keys(Join join, int number) {
      this.join = join;
      this.number = number;
      AttributeSet left = join.left().outputSet();
      AttributeSet right = join.right().outputSet();
      java.util.ArrayDeque todo = new java.util.ArrayDeque();
      if (join.condition().isDefined()) todo.push(join.condition().get());
      while (!todo.isEmpty()) {
        Expression e = (Expression) todo.pop();
        if (e instanceof And) {
          todo.push(e.children().apply(1));
          todo.push(e.children().apply(0));
          continue;
        }
        boolean equality = e instanceof EqualTo || e instanceof EqualNullSafe;
        Expression[] key = equality ? key(e, left, right) : null;
        if (key == null) all = false;
        else conjuncts.add(key);
      }
    }

    private static Expression[] key(Expression e, AttributeSet left, AttributeSet right) {
      Expression a = (Expression) e.children().apply(0);
      Expression b = (Expression) e.children().apply(1);
      if (within(a, left) && within(b, right)) return new Expression[] {e, a, b};
      return within(b, left) && within(a, right) ? new Expression[] {e, b, a} : null;
    }

    private static boolean within(Expression e, AttributeSet columns) {
      return e.deterministic() && !e.references().isEmpty() && e.references().subsetOf(columns);
    }

    JoinSide side(boolean left) {
      return left ? this.left : right;
    }

    Expression key(int i, boolean left) {
      return ((Expression[]) conjuncts.get(i))[left ? 1 : 2];
    }

    long[] ids(boolean left) {
      long[] out = new long[conjuncts.size()];
      for (int i = 0; i < out.length; i++) out[i] = id(key(i, left));
      return out;
    }

    // Return the only column that a key is made of, or -1. Python checks how it is made, say by
    // casts.
    private static long id(Expression e) {
      while (e.children().size() == 1) e = (Expression) e.children().apply(0);
      return e instanceof Attribute ? ((Attribute) e).exprId().id() : -1;
    }

    LogicalPlan of(boolean left, List above) {
      LogicalPlan rows = left ? join.left() : join.right();
      for (int i = 0; i < side(left).above.size(); i++) {
        PushedKeys pushed = (PushedKeys) side(left).above.get(i);
        String name = pushed.keys.number + (pushed.left ? " left" : " right");
        if (above.contains(name)) rows = pushed.keys.partners(pushed, rows, above);
      }
      ArrayList columns = new ArrayList();
      for (int i = 0; i < conjuncts.size(); i++) {
        columns.add(alias(key(i, left), String.valueOf(i)));
      }
      return new Project(PrunedFiles.seq(columns), rows);
    }

    // Of rows below this join, return those that have a partner on its other side. Only keys that
    // came down unchanged are compared.
    private LogicalPlan partners(PushedKeys pushed, LogicalPlan rows, List above) {
      LogicalPlan others = of(!pushed.left, above);
      Expression condition = null;
      for (int i = 0; i < conjuncts.size(); i++) {
        Expression own = key(i, pushed.left);
        if (pushed.ids[i] < 0 || pushed.ids[i] != id(own)) continue;
        Expression other = (Expression) others.output().apply(i);
        boolean plain = ((Expression[]) conjuncts.get(i))[0] instanceof EqualTo;
        Expression e = plain ? (Expression) new EqualTo(own, other)
          : (Expression) new EqualNullSafe(own, other);
        condition = condition == null ? e : new And(condition, e);
      }
      if (condition == null) return rows;
      return new Join(rows, others, JoinType$.MODULE$.apply("leftsemi"), new scala.Some(condition),
        JoinHint$.MODULE$.NONE());
    }

    private static Alias alias(Expression e, String name) {
      return new Alias(e, name,
        org.apache.spark.sql.catalyst.expressions.NamedExpression$.MODULE$.newExprId(),
        PrunedFiles.seq(new ArrayList()), scala.None$.MODULE$, PrunedFiles.seq(new ArrayList()));
    }

    void write(StringBuilder out) {
      out.append("{\"how\":");
      PrunedFiles.quoted(how(join), out);
      out.append(",\"all\":").append(all).append(",\"keys\":[");
      for (int i = 0; i < conjuncts.size(); i++) {
        out.append(i == 0 ? "" : ",").append("{\"left\":");
        PrunedFiles.tree(key(i, true), out);
        out.append(",\"right\":");
        PrunedFiles.tree(key(i, false), out);
        boolean nullSafe = ((Expression[]) conjuncts.get(i))[0] instanceof EqualNullSafe;
        out.append(",\"null_safe\":").append(nullSafe).append("}");
      }
      out.append("],\"left\":");
      write(left, join.left(), out);
      out.append(",\"right\":");
      write(right, join.right(), out);
      out.append("}");
    }

    private static void write(JoinSide side, LogicalPlan plan, StringBuilder out) {
      out.append("{\"first\":").append(side.first).append(",\"last\":").append(side.last);
      out.append(",\"filtered\":").append(isFiltered(plan));
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

    private static boolean isWritten(Expression e) {
      if (!(e instanceof And)) return !ADDED.contains(e.getClass().getSimpleName());
      return isWritten((Expression) e.children().apply(0))
        || isWritten((Expression) e.children().apply(1));
    }

    // Return the bytes of the leaves that are not file scans.
    private static java.math.BigInteger others(LogicalPlan plan) {
      java.math.BigInteger out = java.math.BigInteger.ZERO;
      if (plan instanceof LogicalRelation
          && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) return out;
      if (plan.children().isEmpty()) return plan.stats().sizeInBytes().bigInteger();
      for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
        out = out.add(others((LogicalPlan) i.next()));
      }
      return out;
    }
  }

  /** The methods that Python calls. */
  public static class PlanGateway {
    public Joins joins(LogicalPlan plan, PrunedFiles.Scans scans) {
      return new Joins(plan, scans);
    }

    /**
     * Return the file lists that the rows of a plan depend on; null if the rows may differ each
     * time. Only files that are listed already, under plans and expressions of the given classes,
     * are known to give the same rows.
     *
     * The optimiser may give a scan a list of its own, so the lists come from the analysed plan,
     * where they are found by the ids of columns.
     */
    public List watches(LogicalPlan plan, LogicalPlan analysed, String expressions, String plans)
        throws Exception {
      HashMap lists = new HashMap();
      lists(analysed, lists);
      ArrayList out = new ArrayList();
      return watch(plan, lists, names(expressions), names(plans), out) ? out : null;
    }

    private static java.util.Set names(String joined) {
      return new java.util.HashSet(java.util.Arrays.asList((Object[]) joined.split(" ")));
    }

    private static void lists(LogicalPlan plan, Map out) {
      if (plan instanceof LogicalRelation
          && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
        FileIndex index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
        for (scala.collection.Iterator i = plan.output().iterator(); i.hasNext(); ) {
          Long id = Long.valueOf(((NamedExpression) i.next()).exprId().id());
          Object before = out.put(id, index);
          // An id with several lists has none that is known.
          if (before != null && before != index) out.put(id, "several");
        }
      }
      for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
        lists((LogicalPlan) i.next(), out);
      }
      for (scala.collection.Iterator i = plan.subqueries().iterator(); i.hasNext(); ) {
        lists((LogicalPlan) i.next(), out);
      }
    }

    private static boolean watch(LogicalPlan plan, Map lists, java.util.Set expressions,
        java.util.Set plans, List out) throws Exception {
      if (plan instanceof LogicalRelation) return watch((LogicalRelation) plan, lists, out);
      if (!plans.contains(plan.getClass().getSimpleName())) return false;
      // Of texts that a collation holds equal, any one may represent the others.
      if (plan instanceof Distinct || plan instanceof Aggregate) {
        LogicalPlan child = (LogicalPlan) plan.children().apply(0);
        for (scala.collection.Iterator i = child.output().iterator(); i.hasNext(); ) {
          if (((Attribute) i.next()).dataType().sql().contains("COLLATE")) return false;
        }
      }
      for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) {
        if (!isKnown((Expression) i.next(), expressions)) return false;
      }
      for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
        if (!watch((LogicalPlan) i.next(), lists, expressions, plans, out)) return false;
      }
      return true;
    }

    private static boolean watch(LogicalRelation scan, Map lists, List out) throws Exception {
      boolean files = scan.relation() instanceof HadoopFsRelation;
      if (scan.isStreaming() || !files || scan.output().isEmpty()) return false;
      NamedExpression first = (NamedExpression) scan.output().apply(0);
      Object index = lists.get(Long.valueOf(first.exprId().id()));
      Object whole = index;
      while (whole instanceof PrunedFiles) whole = ((PrunedFiles) whole).whole();
      if (whole == null) return false;
      if (!whole.getClass().getSimpleName().equals("InMemoryFileIndex")) return false;
      out.add(new PrunedFiles.Watch((FileIndex) index));
      return true;
    }

    private static boolean isKnown(Expression e, java.util.Set known) {
      if (!known.contains(e.getClass().getSimpleName())) return false;
      for (scala.collection.Iterator i = e.children().iterator(); i.hasNext(); ) {
        if (!isKnown((Expression) i.next(), known)) return false;
      }
      return true;
    }
  }
}
