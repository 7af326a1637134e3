package skipstone;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.FileScanTask;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.types.StructType;

/**
 * Iceberg's scan without some of its files.
 *
 * It asks a copy of Iceberg's own scan, whose list of tasks is shorter, so everything that Iceberg
 * does with a scan, such as deletes, splits and runtime filters, stays Iceberg's.
 */
public class PrunedIcebergScan
    implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering, Narrowed {
  private final Scan whole;
  private final Scan part;
  private final Set dropped; // locations
  private final Validity validity;

  PrunedIcebergScan(Object scan, Set dropped, Validity validity) throws Exception {
    this.dropped = new HashSet(dropped);
    this.validity = validity;
    if (scan instanceof PrunedIcebergScan) {
      this.dropped.addAll(((PrunedIcebergScan) scan).dropped);
      this.whole = ((PrunedIcebergScan) scan).whole;
    } else {
      this.whole = (Scan) scan;
    }
    ArrayList kept = new ArrayList();
    for (Iterator i = IcebergFiles.tasks(whole).iterator(); i.hasNext(); ) {
      FileScanTask task = (FileScanTask) i.next();
      if (!this.dropped.contains(IcebergFiles.location(task))) kept.add(task);
    }
    this.part = (Scan) copy(whole);
    reset(part, kept);
  }

  // Return an object of the same class with the same fields, as serialisation makes one. Lists are
  // copied, because a scan adds runtime filters to its own.
  private static Object copy(Object scan) throws Exception {
    Constructor empty = sun.reflect.ReflectionFactory.getReflectionFactory()
      .newConstructorForSerialization(scan.getClass(), Object.class.getDeclaredConstructor(
        new Class[0]));
    Object out = empty.newInstance(new Object[0]);
    for (Class c = scan.getClass(); c != null; c = c.getSuperclass()) {
      Field[] fields = c.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (Modifier.isStatic(fields[i].getModifiers())) continue;
        fields[i].setAccessible(true);
        Object value = fields[i].get(scan);
        if (value != null && value.getClass() == ArrayList.class) {
          value = new ArrayList((List) value);
        }
        fields[i].set(out, value);
      }
    }
    return out;
  }

  private static void reset(Object scan, List tasks) throws Exception {
    for (Class c = scan.getClass(); c != null; c = c.getSuperclass()) {
      Method[] methods = c.getDeclaredMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals("resetTasks")) continue;
        methods[i].setAccessible(true);
        methods[i].invoke(scan, new Object[] {tasks});
        return;
      }
    }
    throw new NoSuchMethodException(scan.getClass().getName() + ".resetTasks");
  }

  private Scan current() {
    return validity.holds() ? part : whole;
  }

  public Batch toBatch() {
    Scan now = current();
    return now == whole ? whole.toBatch() : new PrunedIcebergBatch(part.toBatch(), dropped);
  }

  public StructType readSchema() {
    return whole.readSchema();
  }

  public String description() {
    return "Skipstone[" + whole.description() + " without " + dropped.size() + " files]";
  }

  // Spark broadcasts what it estimates to be small.
  public Statistics estimateStatistics() {
    return ((SupportsReportStatistics) whole).estimateStatistics();
  }

  public NamedReference[] filterAttributes() {
    return ((SupportsRuntimeV2Filtering) whole).filterAttributes();
  }

  public void filter(Predicate[] predicates) {
    ((SupportsRuntimeV2Filtering) part).filter(predicates);
    ((SupportsRuntimeV2Filtering) whole).filter(predicates);
  }

  public CustomMetric[] supportedCustomMetrics() {
    return whole.supportedCustomMetrics();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return whole.reportDriverMetrics();
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return part.columnarSupportMode();
  }

  public String toString() {
    return description();
  }

  public boolean equals(Object other) {
    if (!(other instanceof PrunedIcebergScan)) return false;
    PrunedIcebergScan o = (PrunedIcebergScan) other;
    return whole.equals(o.whole) && dropped.equals(o.dropped) && validity.equals(o.validity);
  }

  public int hashCode() {
    return whole.hashCode() * 31 + dropped.hashCode();
  }
}
