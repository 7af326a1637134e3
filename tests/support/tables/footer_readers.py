"""Read Parquet footers by the compiled loop and by pyarrow, and compare the results."""

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.parquet import footer as footer_module
from skipstone.bindings.tables.parquet import footer_blocks as blocks
from skipstone.bindings.tables.parquet import footer_groups as groups
from skipstone.bindings.tables.parquet import footers as sources
from skipstone.bindings.tables.parquet.file_schemas import common_schema
from skipstone.bindings.tables.parquet.footer_groups import FooterPart
from skipstone.bindings.tables.parquet.footers import read_footers
from skipstone.bindings.tables.parquet.groups import schemas_in, value_type_at
from skipstone.ir.types import leaves_of
from skipstone.kernels.decode import footer_layout
from skipstone.kernels.decode.spans import GATHER
from skipstone.kernels.run.loops import compiled

LOCAL = pafs.LocalFileSystem()


def compile_loops():
    """Compile the loops that read footers."""
    for loop in (footer_layout.WALK, GATHER):
        compiled(loop)


@contextlib.contextmanager
def reader(name):
    """Read footers by one reader.

    Args:
        name: "loop"; "pyarrow"; or "late": by pyarrow at first, then by the loop, as if it was
            compiled in between.
    """
    with pytest.MonkeyPatch.context() as m:
        for module in (footer_module, blocks, sources, groups):
            m.setattr(module, "is_compiled", lambda: name == "loop")
        m.setattr(sources, "COMPILE_BYTES", 1 << 60 if name == "pyarrow" else 0)
        yield


def shown(values):
    """Return an array as text, so that NaN equals NaN, and -0.0 differs from 0.0."""
    values = values.cast(pa.int64()) if pa.types.is_timestamp(kind := values.type) else values
    return str(kind), [repr(v) for v in values.to_pylist()]


def content(footers, schema=None):
    """Return everything that a part of these footers knows, as text."""
    part = FooterPart(footers, np.arange(len(footers)))
    schema = schema or common_schema(schemas_in([part]))
    out = {
        "rows": part.rows.tolist(),
        "nbytes": part.nbytes.tolist(),
        "groups": part.group.tolist(),
        "forms": part.schema_number.tolist(),
    }
    for path, leaf in leaves_of(schema).items():
        if leaf.dtype.ordered:
            raw = part.raw(path, value_type_at(schema, path))
            arrays = (raw.min, raw.max, raw.null_count, raw.nan_count, *part.exact(path))
            out[path] = [shown(a) for a in arrays], part.blooms(path)
    return out


def num_unresolved(footers):
    """Return the number of chunks that the loop leaves to pyarrow."""
    part, count = FooterPart(footers, np.arange(len(footers))), 0
    schema = common_schema(schemas_in([part]))
    for path, leaf in leaves_of(schema).items():
        if leaf.dtype.ordered:
            chunks, position = part._take_slots(path), part._positions(path)
            decoded = part._decoded(chunks, position, value_type_at(schema, path))
            count += int(decoded.unresolved.sum())
    return count


def assert_same(paths):
    """Assert that all readers agree; return the number of chunks that the loop left to pyarrow."""
    contents, names = {}, list(map(str, paths))
    for name in ("pyarrow", "loop", "late"):
        with reader(name):
            footers = read_footers(names, LOCAL, Meter(), keep=True)
            contents[name] = content(footers)
            unresolved = num_unresolved(footers)
    assert contents["loop"] == contents["late"] == contents["pyarrow"]
    return unresolved
