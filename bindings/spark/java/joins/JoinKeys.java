package skipstone;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.JoinType$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;

/** One join and its keys. */
class JoinKeys {
  final Join join;
  final int number;
  final ArrayList conjuncts = new ArrayList(); // {comparison, left operand, right operand}
  private final JoinSide left = new JoinSide();
  private final JoinSide right = new JoinSide();
  boolean all = true;

  JoinKeys(Join join, int number) {
    this.join = join;
    this.number = number;
    AttributeSet left = join.left().outputSet();
    AttributeSet right = join.right().outputSet();
    ArrayDeque todo = new ArrayDeque();
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

  // Return the only column that a key is computed from, or -1. Python checks how, such as by casts.
  private static long id(Expression e) {
    while (e.children().size() == 1) e = (Expression) e.children().apply(0);
    return e instanceof Attribute ? ((Attribute) e).exprId().id() : -1;
  }

  // Joins that are used are removed from `above`.
  LogicalPlan of(boolean left, List above) {
    LogicalPlan rows = left ? join.left() : join.right();
    for (int i = 0; i < side(left).above.size(); i++) {
      PushedKeys pushed = (PushedKeys) side(left).above.get(i);
      String name = pushed.keys.number + (pushed.left ? " left" : " right");
      if (above.remove((Object) name)) rows = pushed.keys.partners(pushed, rows, above);
    }
    ArrayList columns = new ArrayList();
    for (int i = 0; i < conjuncts.size(); i++) {
      columns.add(alias(key(i, left), String.valueOf(i)));
    }
    return new Project(Seqs.of(columns), rows);
  }

  // Return the rows below this join that have a match on its other side. Only keys that came down
  // unchanged are compared.
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
      Seqs.of(new ArrayList()), scala.None$.MODULE$, Seqs.of(new ArrayList()));
  }
}
