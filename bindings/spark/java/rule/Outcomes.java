package skipstone;

import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts how requests of a rule ended, and warns of the first of each kind that went wrong.
 *
 * After several failures in a row, for example because the Python process is gone, it pauses, so
 * that not every query waits.
 */
public class Outcomes {
  private static final int IN_A_ROW = 3;
  private static final long PAUSE = 30000; // ms
  private static final Logger LOG = LoggerFactory.getLogger("skipstone");
  private final AtomicLong answered = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicLong late = new AtomicLong();
  private final AtomicLong skipped = new AtomicLong();
  private volatile String error = "";
  private volatile int wrong = 0; // in a row
  private volatile long pausesUntil = 0; // ms since 1970

  /** Return true while Python must not be asked. */
  boolean pauses() {
    return wrong >= IN_A_ROW && System.currentTimeMillis() < pausesUntil;
  }

  private synchronized void wentWrong() {
    wrong++;
    pausesUntil = System.currentTimeMillis() + PAUSE;
  }

  void answered() {
    answered.incrementAndGet();
    wrong = 0;
  }

  void failed(Throwable e) {
    failed(e instanceof IllegalArgumentException ? e.getMessage() : String.valueOf(e));
  }

  void failed(String why) {
    wentWrong();
    misread(why);
  }

  /** A setting cannot be read. This costs no time, so there is no pause. */
  void misread(String why) {
    error = why;
    if (failed.getAndIncrement() == 0) {
      LOG.warn("Skipstone cannot prune; queries run unpruned: " + why);
    }
  }

  void late(long limit) {
    wentWrong();
    if (late.getAndIncrement() == 0) {
      LOG.warn("Skipstone took longer than " + PruningRule.LIMIT + "=" + limit
        + " for a query, which reads all files");
    }
  }

  void skipped() {
    if (skipped.getAndIncrement() == 0) {
      LOG.warn("Skipstone still works for other queries, so this one reads all files");
    }
  }

  /** Return the number of plans that were answered, failed, were late, and were not asked about. */
  public long[] counts() {
    return new long[] {answered.get(), failed.get(), late.get(), skipped.get()};
  }

  /** Return the last error, or an empty text. */
  public String error() {
    return error;
  }
}
