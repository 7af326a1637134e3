// These classes are compiled at their first use by Janino, which Spark ships for its own generated
// code. Janino supports few generics, no lambdas and no Scala, so types are raw and Scala's
// collections are walked by iterators.

package skipstone;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.internal.SQLConf;

/** The methods that Python calls; more are in the objects that they return. */
public class PlanGateway {
  /** Return the scans of a plan that runs under some settings. */
  public Scans scans(LogicalPlan plan, SQLConf settings) {
    return new Scans(plan, settings);
  }

  public Listing listing(FileIndex index) throws Exception {
    return new Listing(index);
  }

  /**
   * Return the files of one of Delta's indexes or of Iceberg's scans. The object's class is
   * compiled against Delta's or Iceberg's classes, which may be missing or incompatible.
   */
  public ScanFiles lakeFiles(String name, Object index) throws Throwable {
    Class found = Class.forName("skipstone." + name, true, PlanGateway.class.getClassLoader());
    try {
      return (ScanFiles) found.getConstructors()[0].newInstance(new Object[] {index});
    } catch (java.lang.reflect.InvocationTargetException e) {
      throw e.getCause();
    }
  }

  public Joins joins(LogicalPlan plan, Scans scans) {
    return new Joins(plan, scans);
  }

  public long until(LogicalPlan plan) {
    return Lifetime.until(plan);
  }

  public List watches() {
    return new ArrayList();
  }

  public List watches(LogicalPlan plan, LogicalPlan analysed, String expressions, String plans)
      throws Exception {
    return RepeatableRows.watches(plan, analysed, expressions, plans);
  }

  public Validity validity(long until, List watches) {
    return new Validity(until, watches);
  }

  /**
   * Return a plan with other file indexes in its scans; `to` maps numbers of scans to them.
   *
   * Spark must not analyse a plan again: settings may have changed since, such as the padding of
   * CHAR.
   */
  public LogicalPlan replaced(LogicalPlan plan, Scans scans, Map to) {
    LogicalPlan out =
        (LogicalPlan) plan.transformWithSubqueries(new ReplacedIndexes(scans.relations, to));
    if (plan.analyzed()) {
      out.setAnalyzed();
    }
    return out;
  }

  public PruningRule rule(Function pruner) {
    return new PruningRule(pruner);
  }

  public void removeRules(ExperimentalMethods methods) {
    PruningRule.removeAll(methods);
  }
}
