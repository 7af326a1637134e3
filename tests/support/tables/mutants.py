"""Damage files at random from a seed: their bytes, and the JSON, Thrift and Avro in them."""

import copy
import json
import random
import struct

from tests.support.tables import footers as thrift

EXTREMES = (0, 1, -1, 2, 127, 128, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1)
BYTES = (0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF)
DEEP = "\0deep"  # a placeholder for very many levels of JSON
LEVELS = 3000
TEXTS = (
    "",
    "\0",
    "x" * 5000,
    "../../etc/passwd",
    "/dev/zero",
    "%2e%2e/%ff",
    "file:///",
    "null",
    "é",
)
TEXTS += (
    "NaN",
    "1e999",
    "-5",
    "{}",
    "[]",
    "s3:///",
    "a\nb",
    "\ud800",
    "://",
    "struct<",
    "decimal(99,99)",
)


def damaged(data: bytes, r: random.Random, others=(), start=0, stop=None) -> bytes:
    """Change a few places of a file's bytes from `start` to `stop`; `others` are for splices."""
    head, out, rest = (
        data[:start],
        bytearray(data[start:stop]),
        data[len(data) if stop is None else stop :],
    )
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        at, n = r.randrange(len(out) + 1), r.choice((1, 1, 2, 4, 8, 30))
        match r.randrange(10):
            case 0 | 1:
                if at < len(out):
                    out[at] ^= 1 << r.randrange(8)
            case 2:
                out[at : at + 1] = bytes([r.choice(BYTES)])
            case 3:
                del out[at:]
            case 4:
                del out[at : at + n]
            case 5:
                out[at:at] = r.randbytes(n)
            case 6:
                out[at : at + n] = r.randbytes(n)
            case 7:
                out[at:at] = out[at : at + 8 * n]
            case 8:
                form = r.choice(("<i", ">i", "<q", ">q"))
                value = r.choice(EXTREMES) % (1 << 8 * struct.calcsize(form))
                size = struct.calcsize(form)
                out[at : at + size] = value.to_bytes(size, "little" if form[0] == "<" else "big")
            case 9:
                other = r.choice(others or (data,))
                out[at:] = other[r.randrange(len(other) + 1) :][: 1 << 20]
    return head + bytes(out) + rest


def damaged_json(value, r: random.Random, times=None):
    """Change a JSON value in a few places: drop, retype, double, swap, nest."""
    for _ in range(r.choice((1, 1, 1, 2, 3)) if times is None else times):
        places = list(_places(value, ()))
        path = r.choice(places) if places else ()
        value = _changed(value, path, lambda old: _other(old, r), r)
    return value


def _places(value, path):
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, below in items:
        yield (*path, key)
        yield from _places(below, (*path, key))


def _changed(value, path, change, r):
    if not path:
        return change(value)
    out = value.copy()
    key, rest = path[0], path[1:]
    if rest or r.random() < 0.75:
        out[key] = _changed(out[key], rest, change, r)
    elif isinstance(out, dict):
        match r.randrange(3):
            case 0:
                del out[key]
            case 1:
                out[r.choice(("x", "", str(key) + "2", str(key).upper()))] = out.pop(key)
            case 2:
                other = r.choice(list(out))
                out[key], out[other] = out[other], out[key]
    else:
        match r.randrange(3):
            case 0:
                del out[key]
            case 1:
                out.insert(key, out[key])
            case 2:
                r.shuffle(out)
    return out


def _other(old, r):
    match r.randrange(12):
        case 0:
            return None
        case 1:
            return r.choice(EXTREMES)
        case 2:
            return r.choice((1e308, -0.0, 2.5, 1e-320, float("nan"), float("inf"), 10**40))
        case 3:
            return r.choice(TEXTS)
        case 4:
            return r.choice((True, False))
        case 5:
            return [old]
        case 6:
            return {"x": old}
        case 7:
            return r.choice(([], {}))
        case 8:
            return DEEP if r.random() < 0.1 else [old, old]
        case 9 | 10 | 11 if isinstance(old, str) and old:
            raw = damaged(old.encode(errors="surrogatepass"), r)
            return raw.decode(errors="replace")
        case 9 if isinstance(old, int):
            return old + r.choice((1, -1, 7, 2**31))
        case 10:
            return json.dumps(old) if not isinstance(old, str) else old * 2
        case _:
            return str(old) if not isinstance(old, str) else 5


def dumped(value) -> str:
    """Return JSON text, including nesting that is too deep for Python to write."""
    return json.dumps(value).replace(json.dumps(DEEP), "[" * LEVELS + "]" * LEVELS)


def damaged_thrift(fields, r: random.Random):
    """Change fields of a structure in place: numbers, kinds, sizes.

    `tests.support.tables.footers` reads such structures.
    """
    for _ in range(r.choice((1, 1, 2, 3))):
        structs = list(_structs(fields))
        one = r.choice(structs)
        if not one:
            continue
        key = r.choice(list(one))
        kind, value = one[key]
        match r.randrange(7):
            case 0:
                del one[key]
            case 1:
                one[r.randrange(1, 20)] = kind, value
            case 2 if kind in (thrift.I16, thrift.I32, thrift.I64):
                one[key] = kind, _signed(r.choice(EXTREMES))
            case 3 if kind in (thrift.I16, thrift.I32, thrift.I64):
                one[key] = kind, _signed(value + r.choice((1, -1, 3, 1000)))
            case 4 if kind == thrift.BINARY:
                one[key] = kind, damaged(bytes(value), r)
            case 5 if kind == thrift.LIST:
                item, items = value
                shorter, longer = items[:-1], [*items, *items[:1]]
                items = r.choice((shorter, longer, items[::-1]))
                one[key] = kind, (item, items)
            case _:
                other = r.choice(structs)
                if other:
                    one[key] = copy.deepcopy(r.choice(list(other.values())))
    return fields


def _signed(value):
    return (value + 2**63) % 2**64 - 2**63


def _structs(fields):
    yield fields
    for kind, value in fields.values():
        if kind == thrift.STRUCT:
            yield from _structs(value)
        elif kind == thrift.LIST and value[0] == thrift.STRUCT:
            for item in value[1]:
                yield from _structs(item)
