package skipstone;

import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts how requests of a rule ended, and warns of the first of each kind that went wrong. */
public class Outcomes {
  private static final Logger LOG = LoggerFactory.getLogger("skipstone");
  private final AtomicLong answered = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicLong late = new AtomicLong();
  private final AtomicLong busy = new AtomicLong();
  private volatile String error = "";

  void answered() {
    answered.incrementAndGet();
  }

  void failed(Throwable e) {
    error = String.valueOf(e);
    if (failed.getAndIncrement() == 0) {
      LOG.warn("Skipstone cannot prune; queries run as without it", e);
    }
  }

  void late(long limit) {
    if (late.getAndIncrement() == 0) {
      LOG.warn("Skipstone took longer than " + PruningRule.LIMIT + "=" + limit
        + " for a query, which reads all files");
    }
  }

  void busy() {
    if (busy.getAndIncrement() == 0) {
      LOG.warn("Skipstone still works for other queries, so this one reads all files");
    }
  }

  /** Return the number of requests that were answered, failed, were late, found no thread. */
  public long[] counts() {
    return new long[] {answered.get(), failed.get(), late.get(), busy.get()};
  }

  /** Return the last error, or an empty text. */
  public String error() {
    return error;
  }
}
