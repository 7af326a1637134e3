"""Compare tables of rows, in which NaN equals NaN, and -0.0 is not 0.0."""

import numpy as np
import pyarrow as pa


def alike(found: pa.Table, expected: pa.Table) -> bool:
    """Return True if two tables have the same columns, and the same values in the same order.

    The order of dictionaries does not count. Arrow compares columns without floats; of floats, it
    finds NaN unlike NaN, and -0.0 like 0.0.
    """
    return found.schema.equals(expected.schema) and all(
        _columns_alike(mine, theirs)
        for mine, theirs in zip(found.columns, expected.columns, strict=True)
    )


def _columns_alike(mine: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    if pa.types.is_dictionary(mine.type):
        mine, theirs = (column.cast(mine.type.value_type) for column in (mine, theirs))
    if not _has_floats(mine.type):
        return bool(mine.equals(theirs))
    if not pa.types.is_floating(mine.type):
        return str(mine.to_pylist()) == str(theirs.to_pylist())
    if not mine.is_null().equals(theirs.is_null()):
        return False
    a, b = (column.fill_null(0).to_numpy() for column in (mine, theirs))
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _has_floats(kind.key_type) or _has_floats(kind.item_type)
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_floating(kind) or any(map(_has_floats, inner))
