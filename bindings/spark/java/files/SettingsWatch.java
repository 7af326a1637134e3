package skipstone;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;

/**
 * The settings that apply when a scan's files are read, as they were when files were judged.
 *
 * Spark reads a relation's files under the settings of the session that made the relation, and
 * evaluates expressions under those of the session that runs the query.
 */
public class SettingsWatch implements Watch {
  // If this is true, Spark shifts times of type INT96 by the offset of the zone.
  private static final String INT96_SHIFT = "spark.sql.parquet.int96TimestampConversion";
  private static final String[] KEYS = {
    "spark.sql.caseSensitive",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.legacy.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.legacy.parquet.int96RebaseModeInRead",
    INT96_SHIFT,
    "spark.sql.optimizer.metadataOnly",
    "spark.sql.legacy.timeParserPolicy"
  };
  // A catalog's table lists its partitions anew in each query, and reads their times in this zone.
  private static final String ZONE = "spark.sql.session.timeZone";

  private final HadoopFsRelation relation; // null if the scan does not name its relation
  private final boolean zoned;
  private final Map reading;
  private final Map running;

  SettingsWatch(HadoopFsRelation relation, SQLConf running) {
    this.relation = relation;
    this.zoned = relation != null && (hasTimes(relation.partitionSchema()) || shiftsInt96());
    this.reading = reading();
    this.running = values(running);
  }

  public boolean holds() {
    return reading.equals(reading()) && running.equals(values(SQLConf.get()));
  }

  private boolean shiftsInt96() {
    String text = relation.sparkSession().sessionState().conf().getConfString(INT96_SHIFT, "false");
    return !text.trim().equalsIgnoreCase("false");
  }

  private Map reading() {
    if (relation == null) return new HashMap();
    return values(relation.sparkSession().sessionState().conf());
  }

  private Map values(SQLConf conf) {
    TreeMap out = new TreeMap();
    for (int i = 0; i < KEYS.length; i++) out.put(KEYS[i], conf.getConfString(KEYS[i], null));
    if (zoned) out.put(ZONE, conf.sessionLocalTimeZone());
    return out;
  }

  private static boolean hasTimes(StructType partitions) {
    for (int i = 0; i < partitions.size(); i++) {
      if (partitions.apply(i).dataType() instanceof TimestampType) return true;
    }
    return false;
  }

  /** Write the settings of the relation's session as JSON; those without a value are left out. */
  void write(StringBuilder out) {
    String comma = "{";
    for (Iterator i = reading.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      if (entry.getValue() == null) continue;
      out.append(comma);
      Json.quoted((String) entry.getKey(), out);
      out.append(":");
      Json.quoted((String) entry.getValue(), out);
      comma = ",";
    }
    out.append(comma.equals("{") ? "{}" : "}");
  }

  public boolean equals(Object other) {
    if (!(other instanceof SettingsWatch)) return false;
    SettingsWatch o = (SettingsWatch) other;
    return session() == o.session() && reading.equals(o.reading) && running.equals(o.running);
  }

  private Object session() {
    return relation == null ? null : relation.sparkSession();
  }

  public int hashCode() {
    return reading.hashCode() * 31 + running.hashCode();
  }
}
