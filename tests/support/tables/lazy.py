"""Trees of Parquet files, and a file system that records which of them are listed and read."""

import os

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

OLD = 1_600_000_000  # seconds since 1970, before any listing


class _Handler(pafs.FSSpecHandler):
    def __init__(self, spy):
        super().__init__(fsspec.filesystem("file"))
        self.spy = spy

    def get_file_info_selector(self, selector):
        self.spy.listed.append(selector.base_dir)
        found = super().get_file_info_selector(selector)
        return [
            pafs.FileInfo(
                f.path, f.type, size=f.size, mtime_ns=self.spy.times.get(f.path, f.mtime_ns)
            )
            for f in found
        ]

    def open_input_file(self, path):
        self.spy.opened.append(path)
        return super().open_input_file(path)


class Spy:
    """A local file system that records the files it lists and opens.

    It may report other modification times, and etags.
    """

    def __init__(self, etags=None):
        self.listed, self.opened, self.times = [], [], {}
        handler = _Handler(self)
        if etags is not None:
            handler.fs = _Tagged(handler.fs, etags)
        self.filesystem = pafs.PyFileSystem(handler)


class _Tagged:
    def __init__(self, fs, etags):
        self._fs, self._etags = fs, etags

    def find(self, path, **options):
        return {
            name: {**info, "ETag": self._etags.get(name)}
            for name, info in self._fs.find(path, **options).items()
        }

    def __getattr__(self, name):
        return getattr(self._fs, name)


def write(path, columns, age=100, **options):
    """Write a Parquet file whose time is `age` seconds after OLD."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    os.utime(path, (OLD + age, OLD + age))
    return path


def years(root, n=3, months=2, rows=10, row_group_size=5):
    """Write files `year=2020/month=1/part.parquet`, ...; x ascends over all of them."""
    for y in range(n):
        for m in range(months):
            start = (y * months + m) * rows
            write(
                root / f"year={2020 + y}" / f"month={m + 1}" / "part.parquet",
                {"x": list(range(start, start + rows))},
                age=start,
                row_group_size=row_group_size,
            )
    return root
