"""Few requests to S3 wait for one another: each wait takes some 20 ms, for few bytes too."""

import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables import s3

pytestmark = pytest.mark.skipif(s3.MISSING is not None, reason=s3.MISSING or "")
DELAY = 0.1  # s
FILES, ROWS = 3, 400_000


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server with a folder of files that are longer than what is read at once."""
    here, random = tmp_path_factory.mktemp("files"), np.random.default_rng(1)
    for i in range(FILES):
        rows = pa.table(
            {
                "t": np.arange(i * ROWS, (i + 1) * ROWS),
                "x": random.integers(0, 1 << 60, ROWS),
                "s": random.integers(0, 1 << 40, ROWS).astype(str),
            }
        )
        options = {"write_page_index": True, "data_page_size": 1 << 17}
        pq.write_table(rows, here / f"{i}.parquet", **options)
    with s3.server(tmp_path_factory.mktemp("s3")) as found:
        fs = s3.client(found)
        fs.create_dir("rounds")
        pafs.copy_files(str(here), "rounds/t", pafs.LocalFileSystem(), fs)
        yield found


class Rounds:
    """Delays requests, and notes when each begins and ends."""

    def __init__(self):
        self.spans, self._lock = [], threading.Lock()

    def __call__(self, method, path, times):
        begun = time.monotonic()
        time.sleep(DELAY)
        with self._lock:
            self.spans.append((begun, time.monotonic()))
        return s3.no_fault(method, path, times)

    def count(self):
        """Return the length of the longest chain of requests that waited for one another."""
        depth = []
        for begun, _ in sorted(self.spans):
            ended = [d for d, (_, end) in depth if end <= begun]
            depth.append((1 + max(ended, default=0), (begun, begun + DELAY)))
        return max((d for d, _ in depth), default=0)


QUESTIONS = [
    (f"t BETWEEN {ROWS} AND {ROWS + 500}", None),
    (f"t BETWEEN {ROWS} AND {ROWS + 500} AND x > 5 AND s <> 'a'", None),
    (f"t = {2 * ROWS - 1}", ["s"]),
]


@pytest.mark.parametrize(("where", "columns"), QUESTIONS)
def test_rounds_of_a_lookup(where, columns, address, monkeypatch):
    """Listing takes two, footers two, rows two: the page indexes, the pages."""
    rounds = Rounds()
    with s3.counted(address, rounds) as (between, _):
        for name, value in s3.environment(between).items():
            monkeypatch.setenv(name, value)
        table = ss.scan("s3://rounds/t")
        opened = rounds.count()
        rounds.spans.clear()
        rows = table.plan(where, columns=columns).to_arrow()
    assert rows.num_rows in (1, 501)
    assert opened <= 4
    assert rounds.count() <= 2
