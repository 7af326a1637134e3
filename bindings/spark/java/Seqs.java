package skipstone;

import java.util.Iterator;
import java.util.List;

/** Scala's sequences. */
class Seqs {
  static scala.collection.immutable.Seq of(List items) {
    scala.collection.mutable.ArrayBuffer out =
      new scala.collection.mutable.ArrayBuffer(items.size() + 1);
    for (Iterator i = items.iterator(); i.hasNext(); ) out.append(i.next());
    return out.toVector();
  }
}
