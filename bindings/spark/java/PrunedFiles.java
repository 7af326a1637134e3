// Compiled at its first use by Janino, which Spark ships for its own generated code. Janino
// supports few generics, no lambdas and no Scala, so types are raw and Scala's collections are
// walked by iterators.

package skipstone;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.optimizer.SpecialDatetimeValues$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The files of another index without some of them.
 *
 * A file is skipped only while the other index lists it with the length and the time that it had
 * when it was judged, and while the file still has them if it is on a local disk. Files that are
 * added or replaced are therefore read as soon as Spark itself sees them.
 */
public class PrunedFiles implements FileIndex {
  private final FileIndex whole;
  private final Map dropped; // Path -> {length, time}
  private final long nbytes; // of the files that are not dropped
  private final Validity validity;

  public PrunedFiles(FileIndex whole, Map dropped, long nbytes, Validity validity) {
    this.whole = whole;
    this.dropped = dropped;
    this.nbytes = nbytes;
    this.validity = validity;
  }

  public FileIndex whole() {
    return whole;
  }

  public scala.collection.immutable.Seq rootPaths() {
    return whole.rootPaths();
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters,
      scala.collection.immutable.Seq dataFilters) {
    if (!validity.holds()) return whole.listFiles(partitionFilters, dataFilters);
    ArrayList out = new ArrayList();
    scala.collection.Iterator folders = whole.listFiles(partitionFilters, dataFilters).iterator();
    while (folders.hasNext()) {
      PartitionDirectory folder = (PartitionDirectory) folders.next();
      ArrayList kept = new ArrayList();
      scala.collection.Iterator files = folder.files().iterator();
      while (files.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
        if (!isDropped(file)) kept.add(file);
      }
      if (!kept.isEmpty()) out.add(new PartitionDirectory(folder.values(), seq(kept)));
    }
    return seq(out);
  }

  private boolean isDropped(FileStatusWithMetadata file) {
    long[] known = (long[]) dropped.get(file.getPath());
    return known != null && known[0] == file.getLen() && known[1] == file.getModificationTime()
      && isAsListed(file);
  }

  // Spark may have listed files long ago. On a local disk, looking again costs microseconds.
  private static boolean isAsListed(FileStatusWithMetadata file) {
    java.net.URI uri = file.getPath().toUri();
    if (!"file".equals(uri.getScheme())) return true;
    java.io.File now = new java.io.File(uri.getPath());
    return now.length() == file.getLen() && now.lastModified() == file.getModificationTime();
  }

  public String[] inputFiles() {
    if (!validity.holds()) return whole.inputFiles();
    // Decide as `listFiles` does.
    HashMap gone = new HashMap();
    scala.collection.immutable.Seq none = seq(new ArrayList());
    scala.collection.Iterator folders = whole.listFiles(none, none).iterator();
    while (folders.hasNext()) {
      scala.collection.Iterator files = ((PartitionDirectory) folders.next()).files().iterator();
      while (files.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
        if (isDropped(file)) {
          gone.put(org.apache.spark.paths.SparkPath.fromPath(file.getPath()).urlEncoded(), "");
        }
      }
    }
    ArrayList kept = new ArrayList();
    String[] all = whole.inputFiles();
    for (int i = 0; i < all.length; i++) if (!gone.containsKey(all[i])) kept.add(all[i]);
    String[] out = new String[kept.size()];
    for (int i = 0; i < out.length; i++) out[i] = (String) kept.get(i);
    return out;
  }

  public void refresh() {
    whole.refresh();
  }

  public long sizeInBytes() {
    return validity.heldLately() ? nbytes : whole.sizeInBytes();
  }

  public StructType partitionSchema() {
    return whole.partitionSchema();
  }

  public scala.Option metadataOpsTimeNs() {
    return whole.metadataOpsTimeNs();
  }

  public boolean isTimeTravel() {
    return false;
  }

  public String toString() {
    return "Skipstone[" + whole + " without " + dropped.size() + " files]";
  }

  // Spark reads equal scans once, so two indexes are equal only if they drop the same files.
  public boolean equals(Object other) {
    if (!(other instanceof PrunedFiles)) return false;
    PrunedFiles o = (PrunedFiles) other;
    return whole.equals(o.whole) && validity.equals(o.validity)
      && dropped.keySet().equals(o.dropped.keySet());
  }

  public int hashCode() {
    return whole.hashCode() * 31 + dropped.size();
  }

  public static scala.collection.immutable.Seq seq(List items) {
    scala.collection.mutable.ArrayBuffer out =
      new scala.collection.mutable.ArrayBuffer(items.size() + 1);
    for (Iterator i = items.iterator(); i.hasNext(); ) out.append(i.next());
    return out.toVector();
  }

  /**
   * How long files may be skipped: until a time, and while the scans whose rows selected the files
   * still have the same files.
   */
  public static class Validity {
    private final long until; // ms since 1970
    private final List watches;
    private volatile long checkedAt = 0; // when `holds` was last computed, in ms since 1970
    private volatile boolean held = false; // its result

    public Validity(long until, List watches) {
      this.until = until;
      this.watches = watches;
    }

    boolean holds() {
      boolean all = System.currentTimeMillis() < until;
      for (Iterator i = watches.iterator(); all && i.hasNext(); ) all = ((Watch) i.next()).holds();
      held = all;
      checkedAt = System.currentTimeMillis();
      return all;
    }

    /** The result of up to a second ago: Spark asks for sizes, as estimates, many times a plan. */
    boolean heldLately() {
      return System.currentTimeMillis() - checkedAt < 1000 ? held : holds();
    }

    public boolean equals(Object other) {
      if (!(other instanceof Validity)) return false;
      return until == ((Validity) other).until && watches.equals(((Validity) other).watches);
    }

    public int hashCode() {
      return Long.hashCode(until);
    }
  }

  /** The files that an index listed, to check that it still lists the same ones. */
  public static class Watch {
    private final FileIndex index;
    private final String digest;

    public Watch(FileIndex index) throws Exception {
      this.index = index;
      this.digest = new Listing(index).digest();
    }

    boolean holds() {
      try {
        Listing now = new Listing(index);
        return now.digest().equals(digest) && now.isCurrent();
      } catch (Exception e) {
        return false; // the scan that reads these files will report the error
      }
    }

    public boolean equals(Object other) {
      if (!(other instanceof Watch)) return false;
      return index.equals(((Watch) other).index) && digest.equals(((Watch) other).digest);
    }

    public int hashCode() {
      return digest.hashCode();
    }
  }

  /**
   * The file scans of a plan, each with the conditions that all of its rows must meet: as JSON, and
   * as objects in the same order.
   */
  public static class Scans {
    public final ArrayList relations = new ArrayList();
    private final StringBuilder text = new StringBuilder("[");
    private final HashMap leaves = new HashMap(); // other leaves: class -> count
    private boolean joined = false;

    public Scans(LogicalPlan plan) {
      walk(plan, new ArrayList());
      text.append("]");
    }

    public String text() {
      return text.toString();
    }

    /** Return true if the plan has a join. */
    public boolean joined() {
      return joined;
    }

    /** Return the number of leaves that are not file scans, by class, without those of no rows. */
    public Map leaves() {
      return leaves;
    }

    public HadoopFsRelation relation(int i) {
      return (HadoopFsRelation) ((LogicalRelation) relations.get(i)).relation();
    }

    private void walk(LogicalPlan plan, List above) {
      if (plan instanceof LogicalRelation) {
        boolean files = ((LogicalRelation) plan).relation() instanceof HadoopFsRelation;
        if (files) scan((LogicalRelation) plan, above);
        else leaf(plan);
        return;
      }
      if (plan.children().isEmpty()) leaf(plan);
      joined |= plan instanceof Join;
      List inner = new ArrayList();
      // Rows pass a projection one by one, so conditions above it hold for the rows below.
      if (plan instanceof Project) inner = passed((Project) plan, above);
      if (plan instanceof Filter) {
        inner = new ArrayList(above);
        inner.add(((Filter) plan).condition());
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) walk((LogicalPlan) children.next(), inner);
      scala.collection.Iterator subqueries = plan.subqueries().iterator();
      while (subqueries.hasNext()) walk((LogicalPlan) subqueries.next(), new ArrayList());
    }

    private void leaf(LogicalPlan plan) {
      boolean empty = plan instanceof LocalRelation && ((LocalRelation) plan).data().isEmpty()
        || plan instanceof OneRowRelation;
      if (empty) return;
      String name = plan.getClass().getSimpleName();
      Integer before = (Integer) leaves.get(name);
      leaves.put(name, Integer.valueOf(before == null ? 1 : before.intValue() + 1));
    }

    // Keep the conditions that mean the same below a projection. A condition does not if it names a
    // column that the projection computes under the id of a column below.
    private static List passed(Project plan, List above) {
      java.util.HashSet anew = new java.util.HashSet();
      LogicalPlan child = (LogicalPlan) plan.children().apply(0);
      scala.collection.Iterator below = child.output().iterator();
      while (below.hasNext()) {
        anew.add(Long.valueOf(((NamedExpression) below.next()).exprId().id()));
      }
      java.util.HashSet made = new java.util.HashSet();
      for (scala.collection.Iterator i = plan.projectList().iterator(); i.hasNext(); ) {
        NamedExpression column = (NamedExpression) i.next();
        if (!(column instanceof Attribute)) made.add(Long.valueOf(column.exprId().id()));
      }
      anew.retainAll(made);
      if (anew.isEmpty()) return above;
      ArrayList out = new ArrayList();
      for (Iterator i = above.iterator(); i.hasNext(); ) {
        Expression condition = (Expression) i.next();
        boolean same = true;
        scala.collection.Iterator named = condition.references().iterator();
        while (named.hasNext()) {
          same &= !anew.contains(Long.valueOf(((NamedExpression) named.next()).exprId().id()));
        }
        if (same) out.add(condition);
      }
      return out;
    }

    private void scan(LogicalRelation scan, List conditions) {
      HadoopFsRelation r = (HadoopFsRelation) scan.relation();
      if (!relations.isEmpty()) text.append(",");
      relations.add(scan);
      text.append("{\"format\":");
      quoted(r.fileFormat().getClass().getName(), text);
      text.append(",\"index\":");
      quoted(r.location().getClass().getName(), text);
      text.append(",\"roots\":[");
      String comma = "";
      scala.collection.Iterator roots = r.location().rootPaths().iterator();
      for (; roots.hasNext(); comma = ",") {
        text.append(comma);
        quoted(roots.next().toString(), text);
      }
      text.append("],\"name\":");
      if (scan.catalogTable().isEmpty()) text.append("null");
      else quoted(((CatalogTable) scan.catalogTable().get()).identifier().unquotedString(), text);
      text.append(",\"streaming\":").append(scan.isStreaming());
      text.append(",\"bytes\":").append(r.location().sizeInBytes());
      text.append(",\"data\":").append(r.dataSchema().json());
      text.append(",\"partitions\":").append(r.partitionSchema().json());
      text.append(",\"options\":{");
      comma = "";
      for (scala.collection.Iterator i = r.options().iterator(); i.hasNext(); comma = ",") {
        scala.Tuple2 option = (scala.Tuple2) i.next();
        text.append(comma);
        quoted(String.valueOf(option._1()).toLowerCase(java.util.Locale.ROOT), text);
        text.append(":");
        quoted(String.valueOf(option._2()), text);
      }
      text.append("},\"output\":[");
      scala.collection.Iterator output = scan.output().iterator();
      for (comma = ""; output.hasNext(); comma = ",") {
        Attribute column = (Attribute) output.next();
        text.append(comma).append("{\"id\":").append(column.exprId().id()).append(",\"name\":");
        quoted(column.name(), text);
        text.append(",\"type\":").append(column.dataType().json());
        text.append(",\"metadata\":").append(column.metadata().json()).append("}");
      }
      text.append("],\"conditions\":[");
      comma = "";
      for (Iterator i = conditions.iterator(); i.hasNext(); comma = ",") {
        text.append(comma);
        tree(i.next(), text);
      }
      text.append("]}");
    }
  }

  /**
   * The files of an index by partition: as text, separated by zero characters, which no path holds,
   * and as objects in the same order.
   */
  public static class Listing {
    private final ArrayList files = new ArrayList();
    private final StringBuilder text = new StringBuilder();
    private final StringBuilder partitions = new StringBuilder("[");
    private final String digest;

    public Listing(FileIndex index) throws Exception {
      scala.collection.immutable.Seq none = seq(new ArrayList());
      StructType schema = index.partitionSchema();
      scala.collection.Iterator folders = index.listFiles(none, none).iterator();
      for (int n = 0; folders.hasNext(); n++) {
        PartitionDirectory folder = (PartitionDirectory) folders.next();
        partitions.append(n == 0 ? "[" : ",[");
        InternalRow values = folder.values();
        for (int i = 0; i < schema.size(); i++) {
          if (i > 0) partitions.append(",");
          DataType type = schema.apply(i).dataType();
          tree(values.isNullAt(i) ? null : values.get(i, type), partitions);
        }
        partitions.append("]");
        scala.collection.Iterator each = folder.files().iterator();
        while (each.hasNext()) {
          FileStatusWithMetadata file = (FileStatusWithMetadata) each.next();
          files.add(file);
          text.append(file.getPath().toString()).append('\0').append(file.getLen()).append('\0');
          text.append(file.getModificationTime()).append('\0').append(n).append('\0');
        }
      }
      partitions.append("]");
      java.security.MessageDigest sha = java.security.MessageDigest.getInstance("SHA-256");
      sha.update(text.toString().getBytes("UTF-8"));
      sha.update(partitions.toString().getBytes("UTF-8"));
      digest = new java.math.BigInteger(1, sha.digest()).toString(16);
    }

    /** The SHA-256 of the listing and its partitions, which identifies it. */
    public String digest() {
      return digest;
    }

    public String text() {
      return text.toString();
    }

    public String partitions() {
      return partitions.toString();
    }

    /** Return true if the files are now as they were listed; files of remote stores always are. */
    boolean isCurrent() {
      for (Iterator i = files.iterator(); i.hasNext(); ) {
        if (!isAsListed((FileStatusWithMetadata) i.next())) return false;
      }
      return true;
    }

    /** Return an index without the files whose bit is set, for as long as `validity` holds. */
    public FileIndex without(FileIndex whole, byte[] bits, Validity validity) {
      HashMap dropped = new HashMap();
      long nbytes = 0;
      for (int i = 0; i < files.size(); i++) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) files.get(i);
        long length = file.getLen();
        if ((bits[i >> 3] >> (i & 7) & 1) == 0) nbytes += length;
        else dropped.put(file.getPath(), new long[] {length, file.getModificationTime()});
      }
      return new PrunedFiles(whole, dropped, nbytes, validity);
    }
  }

  /** The methods that Python calls. */
  public static class PlanGateway {
    private static final scala.Enumeration.Value CURRENT =
      org.apache.spark.sql.catalyst.trees.TreePattern$.MODULE$.CURRENT_LIKE();

    public Scans scans(LogicalPlan plan) {
      return new Scans(plan);
    }

    public Listing listing(FileIndex index) throws Exception {
      return new Listing(index);
    }

    /**
     * Return until when a plan stays the same, in ms since 1970. Spark inserts the present when it
     * optimises, again for each action: with current_date() a plan lasts to the end of the day. The
     * result is 0, never, if the plan depends on the present moment, the user or the database.
     */
    public long until(LogicalPlan plan) {
      return SpecialDatetimeValues$.MODULE$.apply(plan) == plan ? untilOf(plan) : 0;
    }

    private static long untilOf(LogicalPlan plan) {
      long out = Long.MAX_VALUE;
      for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) {
        out = Math.min(out, untilOf((Expression) i.next()));
      }
      for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
        out = Math.min(out, untilOf((LogicalPlan) i.next()));
      }
      for (scala.collection.Iterator i = plan.subqueries().iterator(); i.hasNext(); ) {
        out = Math.min(out, untilOf((LogicalPlan) i.next()));
      }
      return out;
    }

    private static long untilOf(Expression e) {
      if (e instanceof CurrentDate) {
        java.time.ZoneId zone = ((CurrentDate) e).zoneId();
        java.time.LocalDate tomorrow = java.time.LocalDate.now(zone).plusDays(1);
        return tomorrow.atStartOfDay(zone).toInstant().toEpochMilli();
      }
      String name = e.getClass().getSimpleName();
      boolean leaf = e.children().isEmpty() && !(e instanceof PlanExpression);
      if (e.containsPattern(CURRENT) && (leaf || name.startsWith("Current"))) return 0;
      long out = Long.MAX_VALUE;
      for (scala.collection.Iterator i = e.children().iterator(); i.hasNext(); ) {
        out = Math.min(out, untilOf((Expression) i.next()));
      }
      return out;
    }

    public List watches() {
      return new ArrayList();
    }

    public Validity validity(long until, List watches) {
      return new Validity(until, watches);
    }

    /** Return a plan with other file indexes in its scans; `to` maps ids of their columns to them.
    */ public LogicalPlan replaced(LogicalPlan plan, Map to) {
      return (LogicalPlan) plan.transformWithSubqueries(new Replace(to));
    }
  }

  public static class Replace extends scala.runtime.AbstractPartialFunction {
    private final Map to;

    public Replace(Map to) {
      this.to = to;
    }

    public boolean isDefinedAt(Object node) {
      return found(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      FileIndex index = found(node);
      if (index == null) return otherwise.apply(node);
      LogicalRelation scan = (LogicalRelation) node;
      HadoopFsRelation r = (HadoopFsRelation) scan.relation();
      Object[] parts = new Object[scan.productArity()];
      for (int i = 0; i < parts.length; i++) parts[i] = scan.productElement(i);
      parts[0] = r.copy(index, r.partitionSchema(), r.dataSchema(), r.bucketSpec(), r.fileFormat(),
        r.options(), r.sparkSession());
      return scan.makeCopy(parts);
    }

    private FileIndex found(Object node) {
      if (!(node instanceof LogicalRelation)) return null;
      LogicalRelation scan = (LogicalRelation) node;
      if (!(scan.relation() instanceof HadoopFsRelation)) return null;
      scala.collection.Iterator output = scan.output().iterator();
      while (output.hasNext()) {
        Object index = to.get(String.valueOf(((NamedExpression) output.next()).exprId().id()));
        if (index != null) return (FileIndex) index;
      }
      return null;
    }
  }

  // Write a Spark expression as JSON: its class and its parts. Values have Spark's internal form:
  // days, microseconds.

  public static void tree(Object o, StringBuilder out) {
    if (o instanceof Expression) {
      Expression e = (Expression) o;
      out.append("{\"class\":");
      quoted(e.getClass().getSimpleName(), out);
      out.append(",\"name\":");
      quoted(e.prettyName(), out);
      if (e instanceof NamedExpression && e.resolved()) {
        out.append(",\"id\":").append(((NamedExpression) e).exprId().id());
      }
      if (e instanceof Literal) {
        out.append(",\"type\":");
        quoted(e.dataType().sql(), out);
      }
      if (e instanceof InSet) {
        out.append(",\"subject\":");
        quoted(((InSet) e).child().dataType().sql(), out);
      }
      if (e instanceof GetStructField) {
        out.append(",\"field\":");
        quoted(((GetStructField) e).extractFieldName(), out);
      }
      out.append(",\"parts\":[");
      if (e instanceof And || e instanceof Or) {
        flat(e, out);
      } else {
        parts((scala.Product) e, out);
      }
      out.append("]}");
    } else if (o == null || o instanceof scala.None$) {
      out.append("null");
    } else if (o instanceof scala.Some) {
      tree(((scala.Some) o).get(), out);
    } else if (o instanceof Boolean) {
      out.append(o.toString());
    } else if (o instanceof Float || o instanceof Double) {
      // Every FLOAT is a DOUBLE, and Java's text of a double is exact.
      out.append("{\"float\":\"").append(((Number) o).doubleValue()).append("\"}");
    } else if (o instanceof Number) {
      out.append(o.toString());
    } else if (o instanceof Decimal) {
      String decimal = ((Decimal) o).toJavaBigDecimal().toPlainString();
      out.append("{\"decimal\":\"").append(decimal).append("\"}");
    } else if (o instanceof UTF8String) {
      hex(((UTF8String) o).getBytes(), out);
    } else if (o instanceof byte[]) {
      hex((byte[]) o, out);
    } else if (o instanceof String || o instanceof Character) {
      quoted(o.toString(), out);
    } else if (o instanceof DataType) {
      out.append("{\"type\":");
      quoted(((DataType) o).sql(), out);
      out.append("}");
    } else if (o instanceof scala.Enumeration.Value) {
      quoted(o.toString(), out);
    } else if (o instanceof scala.Tuple2 ||
    o.getClass().getSimpleName().equals("NumericEvalContext")) {
      out.append("[");
      parts((scala.Product) o, out);
      out.append("]");
    } else if (o instanceof scala.collection.Seq || o instanceof scala.collection.Set) {
      out.append("[");
      scala.collection.Iterator items = ((scala.collection.Iterable) o).iterator();
      for (String comma = ""; items.hasNext(); comma = ",") {
        out.append(comma);
        tree(items.next(), out);
      }
      out.append("]");
    } else {
      out.append("{\"other\":");
      quoted(o.getClass().getName(), out);
      out.append("}");
    }
  }

  private static void parts(scala.Product p, StringBuilder out) {
    for (int i = 0; i < p.productArity(); i++) {
      if (i > 0) out.append(",");
      tree(p.productElement(i), out);
    }
  }

  // A long chain of AND or OR is a deep tree in Spark; write it as one node.
  private static void flat(Expression chain, StringBuilder out) {
    java.util.ArrayDeque left = new java.util.ArrayDeque();
    left.push(chain);
    for (String comma = ""; !left.isEmpty(); ) {
      Expression e = (Expression) left.pop();
      if (e.getClass() == chain.getClass()) {
        left.push(e.children().apply(1));
        left.push(e.children().apply(0));
      } else {
        out.append(comma);
        tree(e, out);
        comma = ",";
      }
    }
  }

  private static void hex(byte[] bytes, StringBuilder out) {
    out.append("{\"bytes\":\"");
    for (int i = 0; i < bytes.length; i++) {
      out.append(Character.forDigit(bytes[i] >> 4 & 15, 16));
      out.append(Character.forDigit(bytes[i] & 15, 16));
    }
    out.append("\"}");
  }

  public static void quoted(String s, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < s.length(); i++) {
      char c = s.charAt(i);
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c >= ' ' && c <= '~') out.append(c);
      else out.append(String.format("\\u%04x", new Object[] {Integer.valueOf(c)}));
    }
    out.append('"');
  }
}
