package skipstone;

import java.util.List;

/** Scala's sequences. */
class Seqs {
  static scala.collection.immutable.Seq of(List items) {
    return org.apache.spark.api.python.PythonUtils.toSeq(items).toVector();
  }
}
