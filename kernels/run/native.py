"""Call machine code that Numba compiled, without Numba.

Numba's function takes the addresses of its result and of an error, then its arguments, where an
array is seven or more numbers. A small function in LLVM IR, the entry, makes these from NumPy
arrays: it reads their address and shape in place, as Numba does. Sources: Numba,
`numba/core/callconv.py` and `numba/core/datamodel/models.py`; NumPy, `PyArrayObject_fields`.
"""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from skipstone.ir.errors import SkipstoneError

OK: Final = 0
ENTRY: Final = "skipstone_entry"
# Where an array keeps the address of its values, its dimensions and its strides, in bytes.
DATA: Final = object.__basicsize__
DIMENSIONS, STRIDES = DATA + 16, DATA + 24
# Flags of an array.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400


class ArrayType(NamedTuple):
    """The type of an argument that is an array, contiguous in the order of C.

    Attributes:
        dtype: The type of its values.
        ndim: The number of its dimensions.
        is_written: True if the function may write to it.
    """

    dtype: np.dtype[Any]
    ndim: int
    is_written: bool

    @property
    def flags(self) -> int:
        """The flags that an array must have."""
        return CONTIGUOUS | ALIGNED | (WRITEABLE if self.is_written else 0)


ArgumentType = ArrayType | None  # None: a number of 64 bits


class _Number(ctypes.c_int64):
    """A 64-bit number, converted from a Python or NumPy number."""

    @classmethod
    def from_param(cls, value: Any) -> ctypes.c_int64:
        return ctypes.c_int64(operator.index(value))


class Native:
    """A function in machine code, called through its entry.

    Args:
        address: The address of the entry.
        types: The types of the function's arguments.
        owner: The object that owns the memory of the code.
    """

    def __init__(self, address: int, types: Sequence[ArgumentType], owner: object) -> None:
        kinds = (_Number if t is None else ctypes.py_object for t in types)
        # ctypes releases the GIL during a call.
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *kinds)
        self._function = prototype(address)
        self._types = [
            (i, t, t.dtype, t.ndim, t.flags) for i, t in enumerate(types) if t is not None
        ]
        self._count = len(types)
        self._owner = owner

    def __call__(self, *arguments: Any) -> int:
        """Call the function.

        Raises:
            TypeError: an argument is not of its type.
        """
        self._check(arguments)
        result = ctypes.c_int64()
        return _checked(self._function(ctypes.addressof(result), *arguments), result)

    def with_arguments(self, *arguments: Any) -> Callable[[], int]:
        """Return a call with these arguments, which are checked once; arrays may change later.

        Raises:
            TypeError: an argument is not of its type.
        """
        self._check(arguments)
        result = ctypes.c_int64()
        address = ctypes.addressof(result)
        # The call holds `self`, whose owner holds the code.
        return lambda: _checked(self._function(address, *arguments), result)

    def _check(self, arguments: Sequence[Any]) -> None:
        if len(arguments) != self._count:
            raise TypeError(f"machine code takes {self._count} arguments; got {len(arguments)}")
        for i, kind, dtype, ndim, flags in self._types:
            a = arguments[i]
            if (
                not isinstance(a, np.ndarray)
                or a.dtype != dtype
                or a.ndim != ndim
                or a.flags.num & flags != flags
            ):
                raise TypeError(f"argument {i} of machine code is {a!r:.100}; expected {kind}")


def _checked(status: int, result: ctypes.c_int64) -> int:
    if status != OK:
        raise SkipstoneError(f"machine code ended with status {status}; please report this")
    return result.value


def is_as_expected() -> bool:
    """Return True if arrays lie in memory as the entry expects."""
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    data, dimensions, strides = (
        ctypes.c_void_p.from_address(id(array) + at).value for at in (DATA, DIMENSIONS, STRIDES)
    )
    numbers = ctypes.c_int64 * 2
    return (
        data == array.ctypes.data
        and dimensions is not None
        and strides is not None
        and tuple(numbers.from_address(dimensions)) == array.shape
        and tuple(numbers.from_address(strides)) == array.strides
    )


def entry_of(head: str, types: Sequence[ArgumentType]) -> str | None:
    """Return the LLVM IR of the entry; None if the function has other parameters than expected.

    Args:
        head: The line that begins the function in LLVM IR, up to its body.
        types: The types of its arguments.
    """
    name = re.search(r'@(?:[\w.$]+|"[^"]*")(?=\()', head)
    if name is None or " i32 " not in head[: name.start()]:
        return None
    parameters = [_type_of(p) for p in _parts(head[name.end() + 1 : head.rindex(")")])]
    lines: list[str] = []
    values = ["%result", "%error"]
    loads = _Loads(lines, "ptr" if "ptr" in parameters else None)
    for i, kind in enumerate(types):
        values += [f"%a{i}"] if kind is None else loads.array(f"%a{i}", kind)
    expected = "pp" + "".join("i" if t is None else "ppiip" + "ii" * t.ndim for t in types)
    if "".join("i" if p == "i64" else "p" if p[-1:] in ("r", "*") else "?" for p in parameters) != (
        expected
    ):
        return None
    given = []
    for j, (value, kind_text) in enumerate(zip(values, parameters, strict=True)):
        if kind_text != "i64":
            lines.append(f"  %p{j} = inttoptr i64 {value} to {kind_text}")
            value = f"%p{j}"
        given.append(f"{kind_text} {value}")
    own = ", ".join(["i64 %result", *(f"i64 %a{i}" for i in range(len(types)))])
    slot = loads.pointer("i64")
    return "\n".join(
        [
            f"define i32 @{ENTRY}({own}) {{",
            "  %slot = alloca i64",
            "  store i64 0, " + slot + " %slot",
            f"  %error = ptrtoint {slot} %slot to i64",
            *lines,
            f"  %status = call i32 {name[0]}({', '.join(given)})",
            "  ret i32 %status",
            "}",
        ]
    )


class _Loads:
    """Writes LLVM IR that reads NumPy arrays.

    Args:
        lines: The lines of text, to which it adds.
        pointer: The type of all pointers; None if pointers are typed (LLVM before 15).
    """

    def __init__(self, lines: list[str], pointer: str | None) -> None:
        self._lines, self._pointer, self._count = lines, pointer, 0

    def pointer(self, to: str) -> str:
        return self._pointer or f"{to}*"

    def load(self, base: str, at: int) -> str:
        """Add a load of the number that lies `at` bytes after a base; return its name."""
        self._count += 1
        n = self._count
        self._lines += [
            f"  %x{n} = add i64 {base}, {at}",
            f"  %y{n} = inttoptr i64 %x{n} to {self.pointer('i64')}",
            f"  %z{n} = load i64, {self.pointer('i64')} %y{n}",
        ]
        return f"%z{n}"

    def array(self, base: str, kind: ArrayType) -> list[str]:
        """Add the loads of an array; return its seven or more numbers."""
        dimensions, strides = self.load(base, DIMENSIONS), self.load(base, STRIDES)
        shape = [self.load(dimensions, 8 * i) for i in range(kind.ndim)]
        steps = [self.load(strides, 8 * i) for i in range(kind.ndim)]
        items = shape[0]
        for one in shape[1:]:
            self._count += 1
            self._lines.append(f"  %m{self._count} = mul i64 {items}, {one}")
            items = f"%m{self._count}"
        return ["0", "0", items, str(kind.dtype.itemsize), self.load(base, DATA), *shape, *steps]


def _parts(parameters: str) -> Iterator[str]:
    """Yield the parameters of a list in LLVM IR."""
    depth = start = 0
    for i, x in enumerate(parameters):
        depth += (x in "({[<") - (x in ")}]>")
        if x == "," and depth == 0:
            yield parameters[start:i].strip()
            start = i + 1
    yield parameters[start:].strip()


def _type_of(parameter: str) -> str:
    """Return the type of a parameter, which attributes and a name may follow."""
    match = re.match(r"(\{[^}]*\}\**|[\w.]+\**)", parameter)
    return match[1] if match else "?"
