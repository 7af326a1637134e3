"""Functions that encode values (hexadecimal, base64, digests, URLs) or shift and count bits.

They work on rows, and on containers in which all rows have one value.
"""

from __future__ import annotations

import base64
import hashlib
import re
import urllib.parse
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import VALUE_UNKNOWN, Call, Function, Signature, check_arity
from skipstone.ir.functions.text import check_text, map_elements
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import TEXT, DType, Kind
from skipstone.ir.values import Data

WORD: Final = 2**64 - 1
# Bytes of a line of base64. Some versions of Spark split longer codes into lines.
MAX_LINE: Final = 57


def _one(kinds: tuple[Kind, ...], returns: DType) -> Callable[..., Signature]:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1)
        t = args[0].dtype
        if t is None or t.kind not in kinds:
            raise CannotJudge(f"expected {' or '.join(str(k.value) for k in kinds)}, got {t}")
        return (ty.INT64 if t.kind is Kind.INT else t,), returns

    return signature


def _of_bytes(write: Callable[[bytes], Any], returns: DType = ty.STRING) -> Function:
    to = np.int64 if returns.kind is Kind.INT else object
    return Function(_one(TEXT, returns), lambda call, a: map_elements(write, a, to=to))


def _hex(call: Call, a: Data) -> Data:
    if call.types[0].kind is Kind.INT:
        return map_elements(lambda v: b"%X" % (v & WORD), a)
    return map_elements(lambda raw: raw.hex().upper().encode(), a)


def _base64(call: Call, a: Data) -> Any:
    long = map_elements(lambda raw: VALUE_UNKNOWN * (len(raw) > MAX_LINE), a, to=np.uint8)
    return map_elements(base64.b64encode, a), long


def _unhexed(call: Call, a: Data) -> Any:
    """Read hexadecimal digits; other text is bad. The first of an odd number is a byte."""
    found: list[bytes | None] = []
    for raw in a.tolist():
        digits = raw if len(raw) % 2 == 0 else b"0" + raw
        found.append(bytes.fromhex(digits.decode()) if _HEX.fullmatch(digits) else None)
    data = np.array([b"" if v is None else v for v in found], object)
    return data, np.array([v is None for v in found], np.bool_)


def _unbase64(call: Call, a: Data) -> Any:
    """Read base64; text that is not whole groups of its characters is unknown."""
    lost = np.array([VALUE_UNKNOWN * (not _BASE64.fullmatch(raw)) for raw in a.tolist()], np.uint8)
    return map_elements(
        lambda raw: base64.b64decode(raw) if _BASE64.fullmatch(raw) else b"", a
    ), lost


def _read_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    check_text(args[0])
    return (ty.STRING,), ty.BINARY


_HEX: Final = re.compile(rb"[0-9A-Fa-f]*")
_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _quoted(raw: bytes) -> bytes:
    """Write text as Java's URLEncoder does, which leaves `*` and quotes `~`."""
    return urllib.parse.quote_plus(raw, safe="*").replace("~", "%7E").encode()


def _character(v: int) -> bytes:
    return b"" if v < 0 else chr(v & 0xFF).encode()


def _sha2_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    if args[0].dtype is None or args[0].dtype.kind not in TEXT or args[1].value not in _SHA2:
        raise CannotJudge("sha2 expects text and one of 0, 224, 256, 384 and 512")
    return (args[0].dtype, ty.INT32), ty.STRING


_SHA2: Final[dict[object, Any]] = {
    0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384,
    512: hashlib.sha512,
}  # fmt: skip


def _sha2(call: Call, a: Data, bits: Data) -> Data:
    digest = _SHA2[int(bits[0])]
    return map_elements(lambda raw: digest(raw).hexdigest().encode(), a)


def _shift_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    if any(a.dtype is None or a.dtype.kind is not Kind.INT for a in args):
        raise CannotJudge("shifts expect integers")
    wide = ty.INT64 if args[0].dtype == ty.INT64 else ty.INT32
    return (wide, ty.INT32), wide


def _shift(op: Callable[[Data, Data], Data], unsigned: bool = False) -> Function:
    """Return a shift of INT or BIGINT, by the count's lowest 5 or 6 bits, as in Java."""

    def point(call: Call, a: Data, count: Data) -> Data:
        bits = call.dtype.bits
        values = a.astype(np.int64 if bits == 64 else np.int32)
        words = values.view(f"u{bits // 8}") if unsigned else values
        found = op(words, (count & (bits - 1)).astype(words.dtype))
        return np.asarray(found.view(values.dtype), np.int64)

    return Function(_shift_signature, point)


ONE: Final = np.uint64(1)
PAIRS, NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
BYTES, EACH_BYTE = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


def _bit_count(call: Call, a: Data) -> Data:
    v = np.ascontiguousarray(a, np.int64).view(np.uint64)
    # Counts of 2, 4 and 8 bits, side by side; the product adds up the bytes in the highest one.
    v = v - (v >> ONE & PAIRS)
    v = (v & NIBBLES) + (v >> np.uint64(2) & NIBBLES)
    v = (v + (v >> np.uint64(4))) & BYTES
    return (v * EACH_BYTE >> np.uint64(56)).astype(np.int64)


FUNCTIONS: Final = {
    "hex": Function(_one((Kind.INT, *TEXT), ty.STRING), _hex),
    "bin": Function(
        _one((Kind.INT,), ty.STRING),
        lambda call, a: map_elements(lambda v: format(v & WORD, "b").encode(), a),
    ),
    "base64": Function(_one(TEXT, ty.STRING), _base64, bad="unknown"),
    "unhex": Function(_read_signature, _unhexed, bad="null"),
    "unbase64": Function(_read_signature, _unbase64, bad="unknown"),
    "md5": _of_bytes(lambda raw: hashlib.md5(raw, usedforsecurity=False).hexdigest().encode()),
    "sha1": _of_bytes(lambda raw: hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode()),
    "sha2": Function(_sha2_signature, _sha2),
    "crc32": _of_bytes(zlib.crc32, ty.INT64),
    "bit_length": _of_bytes(lambda raw: 8 * len(raw), ty.INT32),
    "url_encode": Function(
        _one((Kind.STRING,), ty.STRING), lambda call, a: map_elements(_quoted, a)
    ),
    "chr": Function(_one((Kind.INT,), ty.STRING), lambda call, a: map_elements(_character, a)),
    "bit_count": Function(_one((Kind.INT,), ty.INT32), _bit_count),
    "shiftleft": _shift(np.left_shift),
    "shiftright": _shift(np.right_shift),
    "shiftrightunsigned": _shift(np.right_shift, unsigned=True),
}
