package skipstone;

/** What skipped files depend on, such as a file list; they are skipped while it holds. */
public interface Watch {
  boolean holds();
}
