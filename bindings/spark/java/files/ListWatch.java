package skipstone;

import org.apache.spark.sql.execution.datasources.FileIndex;

/** The files that an index listed, to check that it still lists the same ones. */
public class ListWatch implements Watch {
  private final FileIndex index;
  private final String digest;

  public ListWatch(FileIndex index) throws Exception {
    this.index = index;
    this.digest = new Listing(index).digest();
  }

  public boolean holds() {
    try {
      Listing now = new Listing(index);
      return now.digest().equals(digest) && now.isCurrent();
    } catch (Exception e) {
      return false; // the scan that reads these files will report the error
    }
  }

  public boolean equals(Object other) {
    if (!(other instanceof ListWatch)) return false;
    return index.equals(((ListWatch) other).index) && digest.equals(((ListWatch) other).digest);
  }

  public int hashCode() {
    return digest.hashCode();
  }
}
