"""Skipstone in Spark. `skipstone.spark` exports the public names.

PySpark is imported inside functions, at first use.

session/
    java                find a Java for Spark, or say how to install one
    session             import PySpark; inspect a session and its settings; start a local session
    text_meaning        settings and functions of a session that change what a text means
    zones               compare the time zones of Spark's JVM with Python's
    types               convert Spark's types to Arrow's and back
    frame               turn statistics into a DataFrame
    jvm                 compile the classes of `java/` at their first use
    metrics             count the files that Spark opened

statistics/             statistics in a DataFrame, and their verdicts
    needed              the statistics that a predicate needs, and their names
    locate              find them in a DataFrame: columns, structs, or the names in `columns=`
    delta_stats         `delta_statistics`: find them in the add files of a Delta log
    delta_types         the types in which Spark reads them from a log
    verdict             `with_verdict`, and the choice of a strategy
    native_expression   `to_column`: write a program as one Spark expression
    native_bounds       convert bounds of one type to a column of another, in such expressions
    native_writer       write conditions as SQL text; contradictory statistics are unknown
    native_logic        SQL text of operations and logic, in such expressions
    udf                 `keep_udf`, `verdict_udf`
    carry               send statistics to pandas without loss: the driver's side
    series              the same on the workers' side
    judge               the code that workers run: batches of statistics in, answers out

shards/                 sharded statistics
    write_shards        `write_shards`: executors pack shards, the driver commits them
    prune_shards        `prune_shards`: the driver settles what it can, executors judge the rest
    shard_jobs          the code that executors run for both

pruning/                pruned reads of a DataFrame
    prune               `prune`, `pruned`
    context             the session's settings and caches while one DataFrame is pruned
    reports             `Pruned`, `PrunedScan`: the report of each scan, for display
    plan_scans          find the scans of a plan
    scans               judge each scan of a plan by its own conditions
    scan_files          the interface of a scan's files, and a cache of earlier lists
    list_files          list the files of a scan of any format
    listing             files that Spark has listed, judged by their footers
    lake_listing        files that Delta or Iceberg has selected, and their tables' statistics
    catalyst            translate conditions of an optimised plan into predicates
    catalyst_calls      the expression classes that are calls of SQL functions
    column              translate a Column into a predicate
    condition           translate a predicate into a condition on rows for Spark
    listed_files        files that Spark has listed, and the values of their partitions
    registered_listing  files that Spark has listed, judged by registered statistics
    prune_connect       prune in Spark Connect, where no plan is visible
    joins               find the joins of a plan, and the scan columns that they compare with keys
    cost                estimate the cost of collecting keys, and the time that they save
    build_rows          read keys without a Spark job
    prune_by_joins      choose the joins of a DataFrame that also prune its scans
    prune_join          `prune_join`: the build side's keys prune the files of the probe side
    join_keys           collect these keys in Spark, and check that they are repeatable
    join_table          pruned joins of tables that Skipstone plans itself
    join_shards         pruned joins of tables by their shards, which executors judge

registered/             statistics that the caller registers for the files of a table
    register            `register_statistics`, `unregister_statistics`, `registered_statistics`
    registry            what is registered, by folder
    listed_rows         the rows that describe listed files, if these are unchanged

automatic/              every query of a session
    enable              `enable`, `disable`, `report`
    new_sessions        `enable_new_sessions`
    run                 run a program or PySpark's shell, with every session enabled
    pruner              prune one plan when the optimiser rule asks
    queries             reports of the latest queries

java/                   compiled in the session's JVM, see `session/jvm`
    PlanGateway         the methods that Python calls; `LongText` returns long text in pieces
    Scans, FileScan     find the file scans of a plan
    ReplacedIndexes     put shorter file lists into the scans of a plan
    Lifetime            how long a plan stays the same
    Json, Seqs          write expressions as JSON; read Scala's sequences
  files/
    Listing             the files of a scan (`ScanFiles`) from one of Spark's file indexes
    PrunedFiles         such an index without some of its files; `Narrowed` marks these
    DroppedFile         one of these files, as it was when it was judged
    Validity, Watch     how long files may be skipped: `ListWatch` compares lists of files,
                        `SettingsWatch` the settings under which files are read
  joins/
    Joins, JoinSide     find the joins of a plan; `JoinText` writes them as JSON
    JoinKeys            the keys of a join; `PushedKeys` follow them down the plan
    RepeatableRows      the file lists that the rows of a plan depend on
  lakes/
    DeltaFiles          the files that Delta selected; `PrunedDeltaFiles`: without some of them
    IcebergFiles        the files that Iceberg selected; `PrunedIcebergScan` and
                        `PrunedIcebergBatch`: without some of them
  rule/
    PruningRule         the optimiser rule; `Prunable` selects the plans worth asking about
    PruningRequest      one question to Python, in one of `DaemonThreads`; `Canceller` ends its jobs
    Outcomes            counts how requests ended, and pauses after failures

reading/                reads of pruned tables
    tables              find the table at a path
    read_frame          `read`: a DataFrame over the surviving files of a table
    native_read         read with Spark's own reader the files that it reads correctly
    native_split        choose these files
    paths               write paths as Spark reads them
    python_read         read the other files in Python workers
    data_source         `spark.read.format("skipstone")`, `register`
    delta_scan          `with_stats`, `files_for_scan`: Delta's reader surface
"""
