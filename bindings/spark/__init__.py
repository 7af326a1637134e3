"""Skipstone in Spark; its public names are those of `skipstone.spark`. PySpark is imported inside functions, when it is first needed.

Sessions
    java                a Java for Spark, found or told how to get
    session             PySpark at its first use; what kind of session one is, and its settings; a local session
    types               Spark's types in Arrow's, and back

Predicates
    column              a Column that was given, as a predicate
    catalyst            a condition of an optimised plan, as a predicate
    condition           a predicate as a condition on rows for Spark

Statistics in a DataFrame, judged
    slots               which statistics are wanted, and their names
    places              where a DataFrame has them: columns, structs, or what `columns=` says
    delta_stats         `delta_statistics`: where a Delta log's add files have them
    frame               statistics as a DataFrame, the way back
    verdict             `with_verdict`, and which strategy is taken
    native_expression   `to_column`: a program as one expression of Spark's
    native_bounds       what bounds of one type say of a column of another, in such expressions
    udf                 `keep_udf`, `verdict_udf`
    carry               how statistics travel to pandas exactly: the driver's side
    series              the same, the workers' side
    judge               what workers run: batches of statistics in, answers out

Sharded statistics
    write_shards        `write_shards`: executors pack, the driver makes them one
    prune_shards        `prune_shards`: the driver settles what it can, executors judge the rest
    shard_jobs          what executors run for both

Pruned reads of a DataFrame
    prune               `prune`, `pruned`
    scans               the scans of an optimised plan, each judged by its own conditions
    listing             files that Spark has listed, and what their footers say
    jvm                 the doors to Spark's plans, `PrunedFiles.java` and `Joins.java`, compiled at their first use
    prune_connect       the same where no plan can be seen: Spark Connect
    joins               the joins of a plan: which columns of scans are compared with which keys
    prune_star          which joins of a DataFrame that is pruned are asked, too
    prune_join          `prune_join`: a join whose large side opens what the keys of the other leave
    join_keys           these keys, collected by Spark, and whether it would find the same ones again
    join_table          pruned joins of tables that Skipstone plans by itself
    join_shards         pruned joins of tables by their shards, which executors judge
    metrics             how many files Spark opened

Tables
    tables              what lies at a path
    read                `read`: a DataFrame over what survives of a table
    native_read         which files Spark's own reader reads right, and reading them so
    python_read         reading the others in Python workers
    data_source         `spark.read.format("skipstone")`, `register`
    delta_scan          `with_stats`, `files_for_scan`: Delta's reader surface
"""
