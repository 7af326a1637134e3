package skipstone;

import java.util.Iterator;
import java.util.List;

/**
 * How long files may be skipped: until a point in time, and only while everything that selected the
 * files is unchanged, such as settings, and the files of scans whose rows selected them.
 */
public class Validity {
  private final long until; // ms since 1970
  private final List watches;

  public Validity(long until, List watches) {
    this.until = until;
    this.watches = watches;
  }

  boolean holds() {
    boolean all = System.currentTimeMillis() < until;
    for (Iterator i = watches.iterator(); all && i.hasNext(); ) all = ((Watch) i.next()).holds();
    return all;
  }

  public boolean equals(Object other) {
    if (!(other instanceof Validity)) return false;
    return until == ((Validity) other).until && watches.equals(((Validity) other).watches);
  }

  public int hashCode() {
    return Long.hashCode(until);
  }
}
