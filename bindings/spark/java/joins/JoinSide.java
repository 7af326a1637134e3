package skipstone;

import java.util.ArrayList;
import java.util.List;

/**
 * One side of a join: the scans that its keys come from, the range of its scans, and the keys of
 * joins above that are also columns of this side.
 */
class JoinSide {
  final ArrayList scans = new ArrayList(); // {number, ids}
  List above = new ArrayList(); // of PushedKeys
  int first = 0;
  int last = 0;
}
