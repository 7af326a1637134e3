package skipstone;

/** Marks file indexes that list fewer files than Spark or Delta would. */
public interface Narrowed {}
