package skipstone;

import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** An optimised plan whose scans Python may prune, with the session that asks. */
public class PruningRequest implements Callable {
  private final LogicalPlan plan;
  private final Function pruner;
  private final SparkSession session = SparkSession.active();
  private final String group = "skipstone-" + java.util.UUID.randomUUID();
  private volatile boolean isAbandoned = false;
  private volatile String error = null;

  PruningRequest(LogicalPlan plan, Function pruner) {
    this.plan = plan;
    this.pruner = pruner;
  }

  /** Ask Python, with the session active in this thread and its jobs in a group. */
  public Object call() {
    SparkSession.setActiveSession(session);
    session.sparkContext().setJobGroup(group, "Skipstone collects keys of a join", true);
    try {
      return pruner.apply(this);
    } finally {
      session.sparkContext().clearJobGroup();
      SparkSession.clearActiveSession();
    }
  }

  /** Give up the request, and cancel its jobs. */
  void abandon(Future answer) {
    isAbandoned = true;
    new Canceller(session.sparkContext(), group, answer).start();
  }

  /** Note why Python could not answer. */
  public void fail(String why) {
    error = why;
  }

  /** Return why Python could not answer, or null. */
  String error() {
    return error;
  }

  /** Return true if the request was given up. */
  public boolean isAbandoned() {
    return isAbandoned;
  }

  public LogicalPlan plan() {
    return plan;
  }

  public SparkSession session() {
    return session;
  }
}
