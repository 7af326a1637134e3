package skipstone;

/** JoinKeys of a join, followed down the plan: the ids of their columns at a node; -1 for none. */
class PushedKeys {
  final JoinKeys keys;
  final boolean left;
  final long[] ids;

  PushedKeys(JoinKeys keys, boolean left, long[] ids) {
    this.keys = keys;
    this.left = left;
    this.ids = ids;
  }
}
