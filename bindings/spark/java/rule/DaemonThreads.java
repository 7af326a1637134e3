package skipstone;

import java.util.concurrent.ThreadFactory;

/** Makes threads that do not keep the JVM alive. */
class DaemonThreads implements ThreadFactory {
  public Thread newThread(Runnable work) {
    Thread made = new Thread(work, "skipstone-pruning");
    made.setDaemon(true);
    return made;
  }
}
