package skipstone;

import java.util.concurrent.Future;
import org.apache.spark.SparkContext;

/**
 * Cancels the jobs of a group until the task that starts them has ended.
 *
 * A job that starts while the others are cancelled may escape, so they are cancelled repeatedly.
 */
class Canceller implements Runnable {
  private static final long MILLIS = 500;

  private final SparkContext context;
  private final String group;
  private final Future task;

  Canceller(SparkContext context, String group, Future task) {
    this.context = context;
    this.group = group;
    this.task = task;
  }

  /** Cancel now, and then in a thread of its own. */
  void start() {
    context.cancelJobGroup(group);
    new DaemonThreads().newThread(this).start();
  }

  public void run() {
    try {
      while (!task.isDone() && !context.isStopped()) {
        Thread.sleep(MILLIS);
        context.cancelJobGroup(group);
      }
    } catch (InterruptedException e) {
      // The JVM ends.
    }
  }
}
