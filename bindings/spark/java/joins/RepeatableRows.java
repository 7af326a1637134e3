package skipstone;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.FileIndex;

/** The file lists that the rows of a plan depend on. */
class RepeatableRows {
  /**
   * Return watches of the file lists that the rows of a plan depend on; null if the rows may differ
   * each time. Only files that are listed already, under plans and expressions of the given
   * classes, are known to give the same rows.
   *
   * The optimiser may give a scan a list of its own, so the lists come from the analysed plan,
   * where they are found by the ids of columns.
   */
  static List watches(LogicalPlan plan, LogicalPlan analysed, String expressions, String plans)
      throws Exception {
    HashMap lists = new HashMap();
    lists(analysed, lists);
    ArrayList out = new ArrayList();
    return watch(plan, lists, names(expressions), names(plans), out) ? out : null;
  }

  private static Set names(String joined) {
    return new HashSet(java.util.Arrays.asList((Object[]) joined.split(" ")));
  }

  private static void lists(LogicalPlan plan, Map out) {
    if (FileScan.is(plan)) {
      Object index = FileScan.files(plan);
      for (scala.collection.Iterator i = plan.output().iterator(); i.hasNext(); ) {
        Long id = Long.valueOf(((NamedExpression) i.next()).exprId().id());
        Object before = out.put(id, index);
        // If an id has several lists, its list is unknown.
        if (before != null && before != index) out.put(id, "several");
      }
    }
    for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
      lists((LogicalPlan) i.next(), out);
    }
    for (scala.collection.Iterator i = plan.subqueries().iterator(); i.hasNext(); ) {
      lists((LogicalPlan) i.next(), out);
    }
  }

  private static boolean watch(LogicalPlan plan, Map lists, Set expressions, Set plans,
      List out) throws Exception {
    if (FileScan.is(plan)) return watchScan(plan, lists, out);
    if (!plans.contains(plan.getClass().getSimpleName())) return false;
    // A collation may treat different texts as equal; any of them may then represent the others.
    if (plan instanceof Distinct || plan instanceof Aggregate) {
      LogicalPlan child = (LogicalPlan) plan.children().apply(0);
      for (scala.collection.Iterator i = child.output().iterator(); i.hasNext(); ) {
        if (((Attribute) i.next()).dataType().sql().contains("COLLATE")) return false;
      }
    }
    for (scala.collection.Iterator i = plan.expressions().iterator(); i.hasNext(); ) {
      if (!isKnown((Expression) i.next(), expressions)) return false;
    }
    for (scala.collection.Iterator i = plan.children().iterator(); i.hasNext(); ) {
      if (!watch((LogicalPlan) i.next(), lists, expressions, plans, out)) return false;
    }
    return true;
  }

  private static boolean watchScan(LogicalPlan scan, Map lists, List out) throws Exception {
    if (scan.isStreaming() || scan.output().isEmpty()) return false;
    NamedExpression first = (NamedExpression) scan.output().apply(0);
    Object index = lists.get(Long.valueOf(first.exprId().id()));
    Object whole = index;
    while (whole instanceof PrunedFiles) whole = ((PrunedFiles) whole).whole();
    if (whole == null) return false;
    // A version of a Delta or Iceberg table never changes, and these lists are of one version.
    String name = whole.getClass().getSimpleName();
    if (name.equals("PreparedDeltaFileIndex") || name.equals("PrunedDeltaFiles")) return true;
    if (whole instanceof Scan) return whole == FileScan.files(scan);
    if (!name.equals("InMemoryFileIndex")) return false;
    out.add(new ListWatch((FileIndex) index));
    return true;
  }

  private static boolean isKnown(Expression e, Set known) {
    if (!known.contains(e.getClass().getSimpleName())) return false;
    for (scala.collection.Iterator i = e.children().iterator(); i.hasNext(); ) {
      if (!isKnown((Expression) i.next(), known)) return false;
    }
    return true;
  }
}
