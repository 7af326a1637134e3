"""Tables of the query in the docs: returns partitioned by date and clustered by date, and dates."""

import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_returns(spark, folder):
    """Write twelve files each of `clustered` and `hive`, and `date_dim`; make a view of each."""
    r, first = np.random.default_rng(7), 2450815
    os.makedirs(f"{folder}/clustered")
    for i in range(12):
        days = np.sort(r.integers(30 * i, 30 * i + 30, 60)).astype(np.int32) + first
        customers = r.integers(0, 9, 60)
        pq.write_table(
            pa.table({"sr_returned_date_sk": days, "sr_customer_sk": customers}),
            f"{folder}/clustered/{i}.parquet",
        )
        os.makedirs(f"{folder}/hive/sr_returned_date_sk={first + 30 * i + 1}")
        pq.write_table(
            pa.table({"sr_customer_sk": customers}),
            f"{folder}/hive/sr_returned_date_sk={first + 30 * i + 1}/0.parquet",
        )
    days = [dt.date(2000, 1, 1) + dt.timedelta(days=i) for i in range(360)]
    keys = np.arange(360, dtype=np.int64) + first
    pq.write_table(
        pa.table(
            {"d_date_sk": keys, "d_moy": [d.month for d in days], "d_year": [d.year for d in days]}
        ),
        f"{folder}/date_dim.parquet",
    )
    for name in ("clustered", "hive", "date_dim.parquet"):
        spark.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name.split(".")[0])
