"""Write Avro files by hand."""

import json


def varint(n):
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def text(b):
    return varint(len(b)) + b


def avro_file(schema, blocks, codec=b"null", **more):
    """Return an Avro container file; blocks are (records, bytes)."""
    header = {
        "avro.schema": schema if isinstance(schema, bytes) else json.dumps(schema).encode(),
        "avro.codec": codec,
        **more,
    }
    out = (
        b"Obj\x01"
        + varint(len(header))
        + b"".join(text(k.encode()) + text(v) for k, v in header.items())
        + b"\0"
        + b"S" * 16
    )
    return out + b"".join(varint(n) + text(data) + b"S" * 16 for n, data in blocks)


def record(*fields):
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"f{i}", "field-id": i, "type": t} for i, t in enumerate(fields)],
    }
