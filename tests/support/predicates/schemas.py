"""Schemas with columns of many types, for several tests."""

import pyarrow as pa

INPUTS = pa.schema(
    [
        ("x", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("m", pa.decimal128(9, 2)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("b", pa.bool_()),
        ("y", pa.binary()),
        ("a", pa.struct([("b", pa.int64()), ("c.d", pa.int64())])),
    ]
)
FUNCTIONS = pa.schema([
    ("x", pa.int32()), ("y", pa.int64()), ("f", pa.float64()), ("s", pa.string()),
    ("d", pa.date32()), ("t", pa.timestamp("us", "UTC")),
    ("n", pa.timestamp("us")), ("m", pa.decimal128(9, 2)), ("b", pa.bool_()), ("u", pa.uint32()),
    ("r", pa.struct([("z", pa.int32())])), ("a", pa.list_(pa.int32())),
])  # fmt: skip
