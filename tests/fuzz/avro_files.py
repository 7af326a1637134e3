"""Manifests and manifest lists to damage, from pyiceberg's writers."""

import io

import numpy as np
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV1,
    ManifestWriterV2,
    PartitionFieldSummary,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from tests.support.tables.iceberg_tables import DeleteWriter, data_file

KINDS = (
    LongType(),
    StringType(),
    DoubleType(),
    DecimalType(10, 2),
    BooleanType(),
    UUIDType(),
    IntegerType(),
)
SCHEMA = Schema(*(NestedField(i + 1, f"c{i + 1}", kind) for i, kind in enumerate(KINDS)))
TRANSFORMS = (
    IdentityTransform(),
    TruncateTransform(3),
    IdentityTransform(),
    IdentityTransform(),
    IdentityTransform(),
    IdentityTransform(),
    BucketTransform(8),
)
SPEC = PartitionSpec(
    *(PartitionField(i + 1, 1000 + i, t, f"p{i + 1}") for i, t in enumerate(TRANSFORMS))
)


class Memory:
    """A file in memory, for pyiceberg."""

    location = "memory"

    def __init__(self, data=b""):
        self.data = data

    def open(self, seekable=True):
        return io.BytesIO(self.data)

    def create(self, overwrite=False):
        outer = self

        class Stream(io.BytesIO):
            def close(self):
                outer.data = self.getvalue()
                super().close()

        return Stream()

    def __len__(self):
        return len(self.data)


def written(n=5, writer=ManifestWriterV2, codec="deflate", spec=SPEC, block=1, seed=0, content=0):
    """Return a manifest of n entries of all kinds, from pyiceberg's writer."""
    r = np.random.default_rng(seed)
    out, waiting = Memory(), []
    w = writer(spec, SCHEMA, out, 77, codec)
    with w:
        write = w._writer.write_block

        def write_block(entries):
            waiting.extend(entries)
            if len(waiting) >= block or len(w._partitions) == n:
                write(list(waiting))
                waiting.clear()

        w._writer.write_block = write_block
        for i in range(n):
            values = (
                int(r.integers(-(2**40), 2**40)),
                "p" * (i % 4),
                float(i) / 3,
                None,
                bool(i % 2),
                r.bytes(16),
                int(r.integers(8)),
            )
            partition = tuple(None if r.random() < 0.2 else v for v in values)[: len(spec.fields)]
            own = [c for c in range(1, 8) if r.random() < 0.8]
            stats = {
                name: {c: int(r.integers(-3, 300)) for c in own}
                for name in (
                    "column_sizes",
                    "value_counts",
                    "null_value_counts",
                    "nan_value_counts",
                )
            }
            stats |= {
                name: {c: r.bytes(int(r.integers(0, 20))) for c in own}
                for name in ("lower_bounds", "upper_bounds")
            }
            stats = {name: v for name, v in stats.items() if r.random() < 0.9}
            more = {"equality_ids": [1, 2]} if content == 2 else {"split_offsets": [4, 100]}
            file = data_file(
                f"/data/é{i}.parquet",
                partition,
                int(r.integers(0, 10**6)),
                content,
                size=int(r.integers(1, 10**9)),
                **stats,
                **more,
            )
            status = (
                ManifestEntryStatus(int(r.integers(3)))
                if writer is not ManifestWriterV1
                else ManifestEntryStatus.ADDED
            )
            number = (
                None
                if status == ManifestEntryStatus.ADDED and writer is not ManifestWriterV1
                else i
            )
            w.add_entry(
                ManifestEntry.from_args(
                    status=status,
                    snapshot_id=77,
                    sequence_number=number,
                    file_sequence_number=number,
                    data_file=file,
                )
            )
    return out.data


def bases():
    """Return manifests to damage, by name."""
    plain = PartitionSpec()
    return {
        "deflate, a block each": written(6),
        "null": written(6, codec="null", seed=1),
        "null, one block": written(8, codec="null", block=100, seed=2),
        "deflate, blocks of 3": written(7, block=3, seed=3),
        "zstandard": written(4, codec="zstd", seed=4, block=2),
        "version 1": written(4, ManifestWriterV1, "null", seed=5),
        "unpartitioned": written(5, codec="null", spec=plain, seed=6, block=2),
        "equality deletes": written(4, DeleteWriter, "null", spec=plain, seed=7, content=2),
    }


def written_list(seed=0, codec="deflate", version=2):
    """Return a manifest list, from pyiceberg's writer."""
    r, out = np.random.default_rng(seed), Memory()
    with write_manifest_list(version, out, 1, None, 5, codec) as w:
        for i in range(4):
            ends = [
                to_bytes(LongType(), int(v)) if r.random() < 0.8 else None
                for v in r.integers(-9, 9, 2)
            ]
            summaries = [
                PartitionFieldSummary(bool(i % 2), [None, True, False][i % 3], *ends),
                PartitionFieldSummary(True, None, None, b""),
            ]
            counts = {
                f"{kind}_{what}_count": int(r.integers(9))
                for kind in ("added", "existing", "deleted")
                for what in ("files", "rows")
            }
            w.add_manifests(
                [
                    ManifestFile.from_args(
                        manifest_path=f"/m{i}.avro",
                        manifest_length=100 + i,
                        partition_spec_id=i % 2,
                        content=ManifestContent.DATA,
                        sequence_number=i,
                        min_sequence_number=i,
                        added_snapshot_id=1,
                        partitions=summaries if i else None,
                        key_metadata=None,
                        **counts,
                    )
                ]
            )
    return out.data


LISTS = {
    "lists": written_list(),
    "lists, null": written_list(1, "null"),
    "lists, version 1": written_list(2, "null", 1),
}
