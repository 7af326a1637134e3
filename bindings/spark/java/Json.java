package skipstone;

import java.util.ArrayDeque;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayStructFields;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes Spark's expressions as JSON: their classes and their parts. Values have Spark's internal
 * form: days, microseconds.
 */
class Json {
  static void tree(Object o, StringBuilder out) {
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
      if (e instanceof GetArrayStructFields) {
        out.append(",\"field\":");
        quoted(((GetArrayStructFields) e).field().name(), out);
      }
      if (e instanceof GetStructField) {
        out.append(",\"field\":");
        // Its own text of the name may be in another case.
        GetStructField field = (GetStructField) e;
        quoted(field.childSchema().apply(field.ordinal()).name(), out);
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
    } else if (o instanceof scala.Tuple2
        || o.getClass().getSimpleName().equals("NumericEvalContext")) {
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
    } else if (o instanceof GenericArrayData) {
      out.append("[");
      Object[] elements = ((GenericArrayData) o).array();
      for (int i = 0; i < elements.length; i++) {
        out.append(i == 0 ? "" : ",");
        tree(elements[i], out);
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
    ArrayDeque left = new ArrayDeque();
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

  static void quoted(String s, StringBuilder out) {
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

