package skipstone;

import java.util.concurrent.Callable;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** An optimised plan whose scans Python may prune, with the session that asks. */
public class PruningRequest implements Callable {
  private final LogicalPlan plan;
  private final Function pruner;
  private final SparkSession session = SparkSession.active();
  private volatile boolean isAbandoned = false;

  PruningRequest(LogicalPlan plan, Function pruner) {
    this.plan = plan;
    this.pruner = pruner;
  }

  /** Ask Python, with the session active in this thread, too. */
  public Object call() {
    SparkSession.setActiveSession(session);
    try {
      return pruner.apply(this);
    } finally {
      SparkSession.clearActiveSession();
    }
  }

  void abandon() {
    isAbandoned = true;
  }

  /** Return true if nobody waits for the answer any longer. */
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
