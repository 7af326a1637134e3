"""Objects that are neither sessions nor DataFrames: errors say what to give, without Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

pytest.importorskip("pyspark")

import skipstone.spark as sks

#   call                                    what the error says
WRONG = [
    (lambda: sks.read(None, "t"),           r"NoneType; .* skipstone\.spark\.session\(\) starts"),
    (lambda: sks.enable("local"),           "type str; expected a SparkSession"),
    (lambda: sks.disable(None),             "type NoneType; expected a SparkSession"),
    (lambda: sks.report(None),              "type NoneType; expected a SparkSession"),
    (lambda: sks.prune("lake/t"),           r"type str; .*: spark\.read\.parquet\(path\) gives"),
    (lambda: sks.prune("t", joins="no"),    "joins is 'no'; expected True or False"),
    (lambda: sks.register_statistics("t", pa.table({"path": ["a"]}), url_encoded=1),
                                            "url_encoded is 1; expected True or False"),
    (lambda: sks.files_for_scan(None, "t", keep_num_records="no"), "keep_num_records is 'no'; "),
    (lambda: sks.prune(pa.table({})),       r"type Table; .*: plan by table\.plan\(where\)"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", WRONG, ids=[m for _, m in WRONG])
def test_objects_that_are_not_sparks(call, message):
    with pytest.raises(ss.PredicateError, match=message):
        call()


def test_a_plan_needs_a_session(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    with pytest.raises(ss.PredicateError, match="spark is of the type NoneType"):
        ss.scan(tmp_path).plan("x = 1").to_spark(None)
