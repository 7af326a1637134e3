"""Tables of Unity Catalog's open server, which runs here: made by its API, read by their names.

`make unity` runs this. Maven fetches the server, unless UNITY_JARS is a Java classpath with it,
such as that of a build from its source.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.unity import table_in_unity
from tests.support.ports import free_port

SERVER = "io.unitycatalog", "unitycatalog-server", "0.6.0"
MAIN = "io.unitycatalog.server.UnityCatalogServer"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>skipstone</groupId><artifactId>unity</artifactId><version>1</version><dependencies>
<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
</dependencies></project>"""
DATABASE = """hibernate.connection.driver_class=org.h2.Driver
hibernate.connection.url=jdbc:h2:mem:unity;DB_CLOSE_DELAY=-1
hibernate.hbm2ddl.auto=update
"""
SETTINGS = """server.env=dev
server.authorization=disable
s3.bucketPath.0=s3://lake
s3.region.0=us-east-1
s3.accessKey.0=AK
s3.secretKey.0=SK
s3.sessionToken.0=ST
"""
COLUMNS = [("x", "LONG", "bigint", "long"), ("code", "STRING", "string", "string")]
X, CODE = (
    {"name": name, "type_name": kind, "type_text": text, "position": at, "nullable": True,
     "type_json": json.dumps({"name": name, "type": stored, "nullable": True, "metadata": {}})}
    for at, (name, kind, text, stored) in enumerate(COLUMNS)
)  # fmt: skip


def classpath(folder):
    """Return the server's classpath; skip the tests if it cannot be had."""
    if given := os.environ.get("UNITY_JARS"):
        return given
    if not os.environ.get("SKIPSTONE_UNITY"):
        pytest.skip("set SKIPSTONE_UNITY=1, as `make unity` does, so that Maven fetches the server")
    if shutil.which("mvn") is None:
        pytest.skip("Maven is needed to fetch the server; or set UNITY_JARS to its classpath")
    (folder / "pom.xml").write_text(POM.format(*SERVER))
    command = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=jars.txt"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        why = next((line for line in done.stdout.splitlines() if "Could not" in line), done.stdout)
        pytest.skip(f"Maven cannot fetch {':'.join(SERVER)}: {why[-300:]}")
    return (folder / "jars.txt").read_text().strip()


class Server:
    """A running server and the requests that make its tables."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"
        self.options = {"databricks_host": self.address}

    def post(self, path, **body):
        request = urllib.request.Request(
            f"{self.address}/api/2.1/unity-catalog/{path}", json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def add(self, name, location, files, columns=(X,)):
        self.post(
            "tables", name=name, catalog_name="main", schema_name="sales", table_type="EXTERNAL",
            data_source_format=files, storage_location=location, columns=list(columns),
        )  # fmt: skip
        return f"uc://main.sales.{name}"

    def wait(self, process):
        for _ in range(480):
            assert process.poll() is None, "the server ended"
            try:
                with urllib.request.urlopen(f"{self.address}/api/2.1/unity-catalog/catalogs"):
                    return
            except urllib.error.URLError:
                time.sleep(0.25)
        raise AssertionError("the server did not start in two minutes")


@pytest.fixture(scope="module")
def unity(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unity")
    jars = classpath(folder)
    (folder / "etc/conf").mkdir(parents=True)
    (folder / "etc/conf/hibernate.properties").write_text(DATABASE)
    (folder / "etc/conf/server.properties").write_text(SETTINGS)
    server = Server(port := free_port())
    with open(folder / "log.txt", "w") as log:
        process = subprocess.Popen(
            ["java", "-cp", jars, MAIN, "-p", str(port)], cwd=folder, stdout=log, stderr=log
        )
    try:
        server.wait(process)
        server.post("catalogs", name="main")
        server.post("schemas", name="sales", catalog_name="main")
        yield server
    finally:
        process.terminate()
        process.wait(60)


def test_delta(unity, tmp_path):
    for k in range(3):
        rows = pa.table({"x": range(k * 10, k * 10 + 10)})
        deltalake.write_deltalake(str(tmp_path), rows, mode="append")
    uri = unity.add("orders", tmp_path.as_uri(), "DELTA")
    plan = ss.scan(uri, storage_options=unity.options).plan("x >= 25")
    assert len(plan.files) == 1
    assert plan.to_arrow()["x"].to_pylist() == [25, 26, 27, 28, 29]
    assert ss.scan_delta(uri, 0, storage_options=unity.options).plan().count() == 10


def test_parquet(unity, tmp_path):
    pq.write_table(pa.table({"x": range(5)}), tmp_path / "a.parquet")
    uri = unity.add("files", tmp_path.as_uri(), "PARQUET")
    assert ss.scan(uri, storage_options=unity.options).plan("x > 3").count() == 1


def test_partitions_have_the_types_of_the_catalog(unity, tmp_path):
    for code in ("01", "1", "02"):
        (tmp_path / f"code={code}").mkdir()
        pq.write_table(pa.table({"x": range(5)}), tmp_path / f"code={code}" / "a.parquet")
    columns = [X, CODE | {"partition_index": 0}]
    table = ss.scan(
        unity.add("parts", tmp_path.as_uri(), "PARQUET", columns), storage_options=unity.options
    )
    assert table.schema.field("code").type == pa.string()
    assert len(table.plan("code = '1'").files) == 1
    assert table.plan("code = '01' AND x > 2").to_arrow().num_rows == 2


def test_credentials(unity):
    """The server hands out keys of its settings for a bucket, and asks nobody."""
    found = table_in_unity(unity.add("remote", "s3://lake/orders", "DELTA"), unity.options)
    assert found.location == "s3://lake/orders"
    assert found.options["AWS_ACCESS_KEY_ID"] == "AK"
    assert found.options["AWS_SECRET_ACCESS_KEY"] == "SK"
    assert found.options["AWS_SESSION_TOKEN"] == "ST"


def test_errors(unity, tmp_path):
    uri = unity.add("words", tmp_path.as_uri(), "CSV")
    with pytest.raises(ss.SourceError, match="a table of CSV files"):
        ss.scan(uri, storage_options=unity.options)
    with pytest.raises(ss.SourceError, match=r"answered 404 .*main\.sales\.none"):
        ss.scan("uc://main.sales.none", storage_options=unity.options)
