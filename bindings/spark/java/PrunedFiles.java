// Compiled when it is first needed, by Janino, which Spark brings along for code of its own. Janino knows no generics to
// speak of, no lambdas and no Scala, so types are raw and collections of Scala are walked by their iterators.

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
 * A file is passed over only while the other index lists it with the length and the time that it had when it was judged, and
 * it still has them on a disk of this machine; so files that are added or replaced are read as soon as Spark itself sees them.
 */
public class PrunedFiles implements FileIndex {
  private final FileIndex whole;
  private final Map dropped; // Path -> {length, time}
  private final long nbytes; // of the files that are left
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

  public scala.collection.immutable.Seq listFiles(scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
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
    return known != null && known[0] == file.getLen() && known[1] == file.getModificationTime() && isAsListed(file);
  }

  // Spark may have listed files long ago. To look at one again costs microseconds where it is on a disk of this machine.
  private static boolean isAsListed(FileStatusWithMetadata file) {
    java.net.URI uri = file.getPath().toUri();
    if (!"file".equals(uri.getScheme())) return true;
    java.io.File now = new java.io.File(uri.getPath());
    return now.length() == file.getLen() && now.lastModified() == file.getModificationTime();
  }

  public String[] inputFiles() {
    if (!validity.holds()) return whole.inputFiles();
    // What `listFiles` leaves out, by the same decision.
    HashMap gone = new HashMap();
    scala.collection.immutable.Seq none = seq(new ArrayList());
    scala.collection.Iterator folders = whole.listFiles(none, none).iterator();
    while (folders.hasNext()) {
      scala.collection.Iterator files = ((PartitionDirectory) folders.next()).files().iterator();
      while (files.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
        if (isDropped(file)) gone.put(org.apache.spark.paths.SparkPath.fromPath(file.getPath()).urlEncoded(), "");
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

  // Two scans are one to Spark, which then reads them once, only where the same files are left out.
  public boolean equals(Object other) {
    if (!(other instanceof PrunedFiles)) return false;
    PrunedFiles o = (PrunedFiles) other;
    return whole.equals(o.whole) && validity.equals(o.validity) && dropped.keySet().equals(o.dropped.keySet());
  }

  public int hashCode() {
    return whole.hashCode() * 31 + dropped.size();
  }

  public static scala.collection.immutable.Seq seq(List items) {
    scala.collection.mutable.ArrayBuffer out = new scala.collection.mutable.ArrayBuffer(items.size() + 1);
    for (Iterator i = items.iterator(); i.hasNext(); ) out.append(i.next());
    return out.toVector();
  }

  /** While files may be passed over: until some time, and as long as other scans, whose rows said which, have the files that they had. */
  public static class Validity {
    private final long until; // ms since 1970
    private final List watches;
    private volatile long asked = 0; // when `holds` was last found out, and what it was
    private volatile boolean held = false;

    public Validity(long until, List watches) {
      this.until = until;
      this.watches = watches;
    }

    boolean holds() {
      boolean all = System.currentTimeMillis() < until;
      for (Iterator i = watches.iterator(); all && i.hasNext(); ) all = ((Watch) i.next()).holds();
      held = all;
      asked = System.currentTimeMillis();
      return all;
    }

    /** As it was a moment ago. Spark asks for sizes many times while it plans, and takes them for estimates. */
    boolean heldLately() {
      return System.currentTimeMillis() - asked < 1000 ? held : holds();
    }

    public boolean equals(Object other) {
      return other instanceof Validity && until == ((Validity) other).until && watches.equals(((Validity) other).watches);
    }

    public int hashCode() {
      return Long.hashCode(until);
    }
  }

  /** The files that an index lists now. */
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
        return false; // what cannot be listed is the affair of the scan that reads it
      }
    }

    public boolean equals(Object other) {
      return other instanceof Watch && index.equals(((Watch) other).index) && digest.equals(((Watch) other).digest);
    }

    public int hashCode() {
      return digest.hashCode();
    }
  }

  /** The scans of files in a plan, each with the conditions that all of its rows must meet: as JSON, and as objects in the same order. */
  public static class Scans {
    public final ArrayList relations = new ArrayList();
    private final StringBuilder text = new StringBuilder("[");
    private final HashMap leaves = new HashMap(); // of other kinds: class -> how many
    private boolean joined = false;

    public Scans(LogicalPlan plan) {
      walk(plan, new ArrayList());
      text.append("]");
    }

    public String text() {
      return text.toString();
    }

    /** Whether there is a join. */
    public boolean joined() {
      return joined;
    }

    /** How many leaves of the plan are of each other kind than scans of files, by class; but for those without rows. */
    public Map leaves() {
      return leaves;
    }

    public HadoopFsRelation relation(int i) {
      return (HadoopFsRelation) ((LogicalRelation) relations.get(i)).relation();
    }

    private void walk(LogicalPlan plan, List above) {
      if (plan instanceof LogicalRelation) {
        if (((LogicalRelation) plan).relation() instanceof HadoopFsRelation) scan((LogicalRelation) plan, above);
        else leaf(plan);
        return;
      }
      if (plan.children().isEmpty()) leaf(plan);
      joined |= plan instanceof Join;
      List inner = new ArrayList();
      // Rows pass a projection one by one, so what is asked of them above it holds of the rows below.
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
      boolean empty = plan instanceof LocalRelation && ((LocalRelation) plan).data().isEmpty() || plan instanceof OneRowRelation;
      if (empty) return;
      String name = plan.getClass().getSimpleName();
      Integer before = (Integer) leaves.get(name);
      leaves.put(name, Integer.valueOf(before == null ? 1 : before.intValue() + 1));
    }

    // Conditions that mean the same below a projection: not those about a column that it makes anew under the id of one below.
    private static List passed(Project plan, List above) {
      java.util.HashSet anew = new java.util.HashSet();
      scala.collection.Iterator below = ((LogicalPlan) plan.children().apply(0)).output().iterator();
      while (below.hasNext()) anew.add(Long.valueOf(((NamedExpression) below.next()).exprId().id()));
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
        while (named.hasNext()) same &= !anew.contains(Long.valueOf(((NamedExpression) named.next()).exprId().id()));
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
      for (scala.collection.Iterator i = r.location().rootPaths().iterator(); i.hasNext(); comma = ",") {
        text.append(comma);
        quoted(i.next().toString(), text);
      }
      text.append("],\"name\":");
      if (scan.catalogTable().isEmpty()) text.append("null");
      else quoted(((org.apache.spark.sql.catalyst.catalog.CatalogTable) scan.catalogTable().get()).identifier().unquotedString(), text);
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

  /** The files of an index by partition: as texts between zero characters, which no path holds, and as objects in the same order. */
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

    /** What the listing is told from others by. */
    public String digest() {
      return digest;
    }

    public String text() {
      return text.toString();
    }

    public String partitions() {
      return partitions.toString();
    }

    /** Whether the files are now as they were listed; those of remote stores are taken for it. */
    boolean isCurrent() {
      for (Iterator i = files.iterator(); i.hasNext(); ) if (!isAsListed((FileStatusWithMetadata) i.next())) return false;
      return true;
    }

    /** An index of the same files but for those whose bit is set, as long as that is valid. */
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

  /** What Python calls. */
  public static class Door {
    private static final scala.Enumeration.Value CURRENT = org.apache.spark.sql.catalyst.trees.TreePattern$.MODULE$.CURRENT_LIKE();

    public Scans scans(LogicalPlan plan) {
      return new Scans(plan);
    }

    public Listing listing(FileIndex index) throws Exception {
      return new Listing(index);
    }

    /**
     * Until when a plan asks for the same, in ms since 1970. Spark puts in the present when it optimises, for each action anew: so to the end
     * of the day where current_date() is asked for, and 0, not even now, where it is the moment, the user or the database.
     */
    public long until(LogicalPlan plan) {
      return SpecialDatetimeValues$.MODULE$.apply(plan) == plan ? untilOf(plan) : 0;
    }

    private static long untilOf(LogicalPlan plan) {
      long out = Long.MAX_VALUE;
      for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) out = Math.min(out, untilOf((Expression) i.next()));
      for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) out = Math.min(out, untilOf((LogicalPlan) i.next()));
      for (scala.collection.Iterator i = plan.subqueries().iterator(); i.hasNext(); ) out = Math.min(out, untilOf((LogicalPlan) i.next()));
      return out;
    }

    private static long untilOf(Expression e) {
      if (e instanceof CurrentDate) {
        java.time.ZoneId zone = ((CurrentDate) e).zoneId();
        return java.time.LocalDate.now(zone).plusDays(1).atStartOfDay(zone).toInstant().toEpochMilli();
      }
      String name = e.getClass().getSimpleName();
      boolean leaf = e.children().isEmpty() && !(e instanceof PlanExpression);
      if (e.containsPattern(CURRENT) && (leaf || name.startsWith("Current"))) return 0;
      long out = Long.MAX_VALUE;
      for (scala.collection.Iterator i = e.children().iterator(); i.hasNext(); ) out = Math.min(out, untilOf((Expression) i.next()));
      return out;
    }

    public List watches() {
      return new ArrayList();
    }

    public Validity validity(long until, List watches) {
      return new Validity(until, watches);
    }

    /** A plan whose scans have other indexes: `to` has one for the ids of their columns. */
    public LogicalPlan replaced(LogicalPlan plan, Map to) {
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
      parts[0] = r.copy(index, r.partitionSchema(), r.dataSchema(), r.bucketSpec(), r.fileFormat(), r.options(), r.sparkSession());
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

  // An expression of Spark's as JSON: its class, and what it is made of. Values stand as Spark keeps them: days, microseconds.

  public static void tree(Object o, StringBuilder out) {
    if (o instanceof Expression) {
      Expression e = (Expression) o;
      out.append("{\"class\":");
      quoted(e.getClass().getSimpleName(), out);
      out.append(",\"name\":");
      quoted(e.prettyName(), out);
      if (e instanceof NamedExpression && e.resolved()) out.append(",\"id\":").append(((NamedExpression) e).exprId().id());
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
      // Every FLOAT is a DOUBLE; Java's text of one names it exactly.
      out.append("{\"float\":\"").append(((Number) o).doubleValue()).append("\"}");
    } else if (o instanceof Number) {
      out.append(o.toString());
    } else if (o instanceof Decimal) {
      out.append("{\"decimal\":\"").append(((Decimal) o).toJavaBigDecimal().toPlainString()).append("\"}");
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
    } else if (o instanceof scala.Tuple2 || o.getClass().getSimpleName().equals("NumericEvalContext")) {
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

  // Long chains of AND or OR are deep trees; as one node they are not.
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
      out.append(Character.forDigit(bytes[i] >> 4 & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
    }
    out.append("\"}");
  }

  public static void quoted(String s, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < s.length(); i++) {
      char c = s.charAt(i);
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < ' ' || c > '~') out.append(String.format("\\u%04x", new Object[] {Integer.valueOf(c)}));
      else out.append(c);
    }
    out.append('"');
  }
}
