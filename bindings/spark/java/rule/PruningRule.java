package skipstone;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf;

/**
 * An optimiser rule that asks Python which files the scans of a query need.
 *
 * A query never fails and never waits longer than its limit because of it: after any error, and
 * after the limit, the plan stays as it was.
 */
public class PruningRule extends Rule {
  static final String ENABLED = "spark.skipstone.enabled";
  static final String LIMIT = "spark.skipstone.maxPlanningMillis";
  private static final int AT_ONCE = 16; // threads of all sessions, including late ones
  private static final ThreadPoolExecutor THREADS = new ThreadPoolExecutor(0, AT_ONCE, 60,
    TimeUnit.SECONDS, new SynchronousQueue(), new DaemonThreads());

  private final Function pruner; // of a PruningRequest; the new plan, or null for the old one
  private final Outcomes outcomes = new Outcomes();
  // What this thread's last call returned: the optimiser calls again until nothing changes.
  private final ThreadLocal last = new ThreadLocal();
  private volatile boolean isOn = true;

  public PruningRule(Function pruner) {
    this.pruner = pruner;
  }

  /** Add this rule to a session's, in place of any other such rule. */
  public void install(ExperimentalMethods methods) {
    isOn = true;
    ArrayList rules = others(methods);
    rules.add(this);
    methods.extraOptimizations_$eq(Seqs.of(rules));
  }

  /** Remove this rule from a session. Sessions that were cloned from it keep it, switched off. */
  public void remove(ExperimentalMethods methods) {
    isOn = false;
    removeAll(methods);
  }

  /** Remove such rules from a session that was cloned from another, which keeps its own. */
  static void removeAll(ExperimentalMethods methods) {
    methods.extraOptimizations_$eq(Seqs.of(others(methods)));
  }

  private static ArrayList others(ExperimentalMethods methods) {
    ArrayList rules = new ArrayList();
    scala.collection.Iterator each = methods.extraOptimizations().iterator();
    while (each.hasNext()) {
      Object rule = each.next();
      if (!(rule instanceof PruningRule)) rules.add(rule);
    }
    return rules;
  }

  public Outcomes outcomes() {
    return outcomes;
  }

  public TreeNode apply(TreeNode plan) {
    try {
      // Subqueries are judged with the query that they belong to, when all of it is final.
      if (!isOn || plan instanceof Subquery || isLast(plan)) return plan;
      SQLConf conf = SQLConf.get();
      if (!Prunable.isIn((LogicalPlan) plan) || !isEnabled(conf)) return plan;
      if (outcomes.pauses()) {
        outcomes.skipped();
        return plan;
      }
      return pruned((LogicalPlan) plan, limit(conf));
    } catch (Throwable e) {
      outcomes.failed(e);
      return plan;
    }
  }

  private boolean isLast(TreeNode plan) {
    WeakReference result = (WeakReference) last.get();
    if (result == null || result.get() != plan) return false;
    last.remove();
    return true;
  }

  // Spark parses its own settings in the same way.
  private boolean isEnabled(SQLConf conf) {
    String text = conf.getConfString(ENABLED, "true").trim();
    if (text.equalsIgnoreCase("true")) return true;
    if (!text.equalsIgnoreCase("false")) {
      outcomes.misread(ENABLED + " is '" + text + "'; expected true or false");
    }
    return false;
  }

  private static long limit(SQLConf conf) {
    String text = conf.getConfString(LIMIT, "1000").trim();
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(LIMIT + " is '" + text + "'; expected milliseconds");
    }
  }

  private TreeNode pruned(LogicalPlan plan, long limit) throws Throwable {
    PruningRequest request = new PruningRequest(plan, pruner);
    Future answer;
    try {
      answer = THREADS.submit(request);
    } catch (java.util.concurrent.RejectedExecutionException e) {
      outcomes.skipped();
      return plan;
    }
    try {
      Object found = answer.get(limit, TimeUnit.MILLISECONDS);
      if (request.error() == null) outcomes.answered();
      else outcomes.failed(request.error());
      if (found == null) return plan;
      last.set(new WeakReference(found));
      return (LogicalPlan) found;
    } catch (TimeoutException e) {
      request.abandon(answer); // Python goes on reading footers, so that a later query has them
      outcomes.late(limit);
      return plan;
    } catch (InterruptedException e) { // the query was cancelled
      request.abandon(answer);
      Thread.currentThread().interrupt();
      return plan;
    } catch (java.util.concurrent.ExecutionException e) {
      throw e.getCause();
    }
  }
}
