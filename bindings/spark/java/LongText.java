package skipstone;

/**
 * A text that Python fetches in pieces, because py4j's sockets wait 40 ms for an acknowledgement if
 * a reply has more than 8 KB.
 */
public class LongText {
  private static final int PIECE = 7000; // characters
  private final String text;

  LongText(CharSequence text) {
    this.text = text.toString();
  }

  /** Return the characters from a position on, at most `PIECE` of them. */
  public String piece(int from) {
    return text.substring(from, Math.min(from + PIECE, text.length()));
  }

  public int length() {
    return text.length();
  }

  public String whole() {
    return text;
  }
}
