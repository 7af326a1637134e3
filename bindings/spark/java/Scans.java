package skipstone;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InputFileName;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The file scans of a plan, each with the conditions that all of its rows must meet: as JSON, and
 * as objects in the same order.
 */
public class Scans {
  public final ArrayList relations = new ArrayList();
  private final StringBuilder text = new StringBuilder("[");
  private final HashMap leaves = new HashMap(); // other leaves: class -> count
  private boolean joined = false;
  private final SQLConf running;
  private final ArrayList watches = new ArrayList(); // of SettingsWatch, one for each relation

  Scans(LogicalPlan plan, SQLConf running) {
    this.running = running;
    walk(plan, new ArrayList(), null);
    text.append("]");
  }

  public LongText text() {
    return new LongText(text);
  }

  /** Return true if the plan has a join. */
  public boolean joined() {
    return joined;
  }

  /** Return the number of leaves that are not file scans, by class; empty ones do not count. */
  public Map leaves() {
    return leaves;
  }

  /** Return the object that lists the files of a scan: a file index, or Iceberg's scan. */
  public Object files(int i) {
    return FileScan.files((LogicalPlan) relations.get(i));
  }

  /** Return the settings under which a scan's files are read. */
  public Watch settings(int i) {
    return (Watch) watches.get(i);
  }

  // `read` has the columns that the projection above a scan reads; null means all.
  private void walk(LogicalPlan plan, List above, AttributeSet read) {
    if (FileScan.is(plan)) {
      scan(plan, above, read);
      if (plan instanceof LogicalRelation) return;
    }
    if (plan.children().isEmpty()) leaf(plan);
    joined |= plan instanceof Join;
    List inner = new ArrayList();
    // Rows pass a projection one by one, so conditions above it hold for the rows below. What
    // rand() and monotonically_increasing_id() return for a row depends on all rows below; Spark
    // moves no condition below them either.
    boolean steady = isSteady(plan);
    if (plan instanceof Project && steady) inner = passed((Project) plan, above);
    if (plan instanceof Filter) {
      if (steady) inner = new ArrayList(above);
      inner.add(((Filter) plan).condition());
    }
    AttributeSet below = plan instanceof Project ? plan.references()
      : plan instanceof Filter ? read : null;
    scala.collection.Iterator children = plan.children().iterator();
    while (children.hasNext()) walk((LogicalPlan) children.next(), inner, below);
    scala.collection.Iterator subqueries = plan.subqueries().iterator();
    while (subqueries.hasNext()) walk((LogicalPlan) subqueries.next(), new ArrayList(), null);
  }

  // Return true if the value of a plan's expressions for a row depends on that row only.
  private static boolean isSteady(LogicalPlan plan) {
    for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) {
      Expression e = (Expression) i.next();
      if (e instanceof Alias) e = ((Alias) e).child();
      if (!e.deterministic() && !(e instanceof InputFileName)) return false;
    }
    return true;
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
    HashSet anew = new HashSet();
    LogicalPlan child = (LogicalPlan) plan.children().apply(0);
    scala.collection.Iterator below = child.output().iterator();
    while (below.hasNext()) {
      anew.add(Long.valueOf(((NamedExpression) below.next()).exprId().id()));
    }
    HashSet made = new HashSet();
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

  private static int columnsRead(LogicalPlan scan, List conditions, AttributeSet read) {
    if (read == null) return scan.output().size();
    int n = 0;
    for (scala.collection.Iterator i = scan.output().iterator(); i.hasNext(); ) {
      Attribute column = (Attribute) i.next();
      boolean isRead = read.contains(column);
      for (Iterator c = conditions.iterator(); c.hasNext() && !isRead; ) {
        isRead = ((Expression) c.next()).references().contains(column);
      }
      if (isRead) n++;
    }
    return n;
  }

  private void scan(LogicalPlan scan, List conditions, AttributeSet read) {
    if (!relations.isEmpty()) text.append(",");
    int same = 0; // the first position at which the plan has this object
    while (same < relations.size() && relations.get(same) != scan) same++;
    int list = 0; // the first position of a scan with the same list of files
    while (list < relations.size()
        && FileScan.files((LogicalPlan) relations.get(list)) != FileScan.files(scan)) list++;
    relations.add(scan);
    SettingsWatch settings = new SettingsWatch(FileScan.relation(scan), running);
    watches.add(settings);
    text.append("{\"same\":").append(same).append(",\"list\":").append(list);
    text.append(",\"index\":");
    Json.quoted(FileScan.files(scan).getClass().getName(), text);
    text.append(",\"settings\":");
    settings.write(text);
    text.append(",\"streaming\":").append(scan.isStreaming());
    text.append(",\"read\":").append(columnsRead(scan, conditions, read));
    if (scan instanceof LogicalRelation) source((LogicalRelation) scan);
    else source((DataSourceV2ScanRelation) scan);
    text.append(",\"output\":[");
    scala.collection.Iterator output = scan.output().iterator();
    for (String comma = ""; output.hasNext(); comma = ",") {
      Attribute column = (Attribute) output.next();
      text.append(comma).append("{\"id\":").append(column.exprId().id()).append(",\"name\":");
      Json.quoted(column.name(), text);
      text.append(",\"type\":").append(column.dataType().json());
      text.append(",\"metadata\":").append(column.metadata().json()).append("}");
    }
    text.append("],\"conditions\":[");
    String comma = "";
    for (Iterator i = conditions.iterator(); i.hasNext(); comma = ",") {
      text.append(comma);
      Json.tree(i.next(), text);
    }
    text.append("]}");
  }

  private void source(LogicalRelation scan) {
    HadoopFsRelation r = (HadoopFsRelation) scan.relation();
    text.append(",\"columns\":").append(scan.output().size()).append(",\"arranged\":false");
    text.append(",\"format\":");
    Json.quoted(r.fileFormat().getClass().getName(), text);
    text.append(",\"roots\":[");
    String comma = "";
    scala.collection.Iterator roots = r.location().rootPaths().iterator();
    for (; roots.hasNext(); comma = ",") {
      text.append(comma);
      Json.quoted(roots.next().toString(), text);
    }
    text.append("],\"name\":");
    if (scan.catalogTable().isEmpty()) {
      text.append("null");
    } else {
      CatalogTable table = (CatalogTable) scan.catalogTable().get();
      Json.quoted(table.identifier().unquotedString(), text);
    }
    text.append(",\"bytes\":").append(r.location().sizeInBytes());
    text.append(",\"data\":").append(r.dataSchema().json());
    text.append(",\"partitions\":").append(r.partitionSchema().json());
    text.append(",\"options\":{");
    comma = "";
    for (scala.collection.Iterator i = r.options().iterator(); i.hasNext(); comma = ",") {
      scala.Tuple2 option = (scala.Tuple2) i.next();
      text.append(comma);
      Json.quoted(String.valueOf(option._1()).toLowerCase(java.util.Locale.ROOT), text);
      text.append(":");
      Json.quoted(String.valueOf(option._2()), text);
    }
    text.append("}");
  }

  // Iceberg has selected the columns that are read.
  private void source(DataSourceV2ScanRelation scan) {
    text.append(",\"columns\":").append(scan.relation().output().size());
    // Spark has planned by the partitions or the order of all files.
    boolean arranged = scan.keyGroupedPartitioning().isDefined() || scan.ordering().isDefined();
    text.append(",\"arranged\":").append(arranged);
    text.append(",\"format\":\"iceberg\",\"roots\":[");
    Json.quoted(scan.relation().name(), text);
    text.append("],\"name\":");
    Json.quoted(scan.relation().name(), text);
    text.append(",\"bytes\":").append(scan.stats().sizeInBytes().toString());
    text.append(",\"data\":").append(scan.schema().json());
    text.append(",\"partitions\":{\"type\":\"struct\",\"fields\":[]},\"options\":{}");
  }
}
