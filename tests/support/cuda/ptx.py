"""A small interpreter of NVRTC's PTX, which runs all lanes of a launch at once in NumPy.

It supports what kernels need and refuses the rest: local and shared memory, fused products, calls.
Lanes diverge at branches and proceed in the order of the text, so that they meet again. Votes wait
for all 32 lanes of a warp, and it is an error if some never arrive. Loads and stores must lie in an
argument and be aligned, and no byte may be written twice or read in the launch that writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.support.cuda.memory import FRESH, SET, UNSET, Memory, Wrong
from tests.support.cuda.ptx_values import DTYPES, Function, Values, pure

Lanes = slice | npt.NDArray[np.int64]  # which of all

WARP: Final = 32
STEPS: Final = 20_000  # most blocks of a text that a launch may run


@dataclass(frozen=True)
class Step:
    """An instruction."""

    text: str
    op: tuple[str, ...]
    args: tuple[str, ...]
    guard: tuple[str, bool] | None = None  # a predicate, and what it must be
    pure: tuple[tuple[str, ...], str, Function] | None = (
        None  # types of the operands, type of the result, and the function that computes it
    )


@dataclass(frozen=True)
class Program:
    """A kernel's parsed text.

    Attributes:
        params: The name and type of each parameter.
        registers: The type of registers by the prefix of their names.
        blocks: Steps that lanes run together: up to a branch, or before a label or a vote.
        labels: The block after each label.
    """

    params: tuple[tuple[str, str], ...]
    registers: Mapping[str, str]
    blocks: tuple[tuple[Step, ...], ...]
    labels: Mapping[str, int]


def parse(text: str) -> Program:
    """Parse the text of one kernel.

    Raises:
        Wrong: it contains something unsupported.
    """
    head, _, body = re.sub(r"//[^\n]*", "", text).partition("\n{")
    params = tuple(
        (name, kind) for kind, name in re.findall(r"\.param \.(\w+)[^\n]*? (\w+),?\n", f"{head}\n")
    )
    registers, labels = {}, {}
    blocks: list[list[Step]] = [[]]
    for line in filter(
        None, (one.strip() for one in re.split(r"[;\n]|(?<=:)", body.rpartition("}")[0]))
    ):
        if line.startswith(".pragma"):
            continue
        if found := re.fullmatch(r"\.reg \.(\w+)\s+%(\w+)<\d+>", line):
            registers[found[2]] = found[1]
        elif found := re.fullmatch(r"([\w$]+):", line):
            if blocks[-1]:
                blocks.append([])
            labels[found[1]] = len(blocks) - 1
        else:
            step = _step(line)
            if step.op[0] == "vote" and blocks[-1]:
                blocks.append([])
            blocks[-1].append(step)
            if step.op[0] in ("bra", "ret"):
                blocks.append([])
    return Program(params, registers, tuple(map(tuple, blocks)), labels)


def _step(line: str) -> Step:
    found = re.fullmatch(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.]*)\s*(.*)", line)
    if found is None:
        raise Wrong(f"not known: {line}")
    op = tuple(found[3].split("."))
    args = tuple(re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^\s,]+", found[4]))
    step = Step(line, op, args, (found[2], not found[1]) if found[2] else None, pure(op))
    if step.pure is None and not _acts(op):
        raise Wrong(f"not known: {line}")
    return step


def _acts(op: tuple[str, ...]) -> bool:
    """Return True if a supported instruction does more than compute values from values."""
    match op:
        case ("ld", "param", t) | ("st", "global", t):
            return t in DTYPES
        case ("ld", "global", *how, t):
            return set(how) <= {"nc", "v2", "v4"} and t in DTYPES
    return op in (("vote", "sync", "ballot", "b32"), ("bra",), ("bra", "uni"), ("ret",))


@dataclass
class Launch:
    """One launch of a program: registers as words of their width, one per lane."""

    program: Program
    blocks: int
    threads: int
    params: Mapping[str, Values]
    arrays: Sequence[Memory]
    registers: dict[str, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.count = self.blocks * self.threads
        self.starts = np.array([a.at for a in self.arrays], np.uint64)
        self.order = np.argsort(self.starts, kind="stable")

    def run(self) -> None:
        """Run all lanes to their end.

        Raises:
            Wrong: their behaviour is undefined.
        """
        end, labels = len(self.program.blocks), self.program.labels
        where = np.zeros(self.count, np.int64)
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                at, on = self.next(where)
                if at == end:
                    return
                lanes: Lanes = slice(None) if len(on) == self.count else on
                where[lanes] = at + 1
                for step in self.program.blocks[at]:
                    some = self.guarded(step, lanes)
                    if step.op[0] == "bra":
                        where[some] = labels[step.args[0]]
                    elif step.op[0] == "ret":
                        where[some] = end
                    elif isinstance(some, slice) or len(some):
                        self.step(step, some)
        raise Wrong("the kernel does not end")

    def next(self, where: Values) -> tuple[int, npt.NDArray[np.int64]]:
        """Return the first block in the text that lanes can run, and these lanes."""
        at = int(where.min())
        while at < len(self.program.blocks):
            on = where == at
            if self.program.blocks[at] and self.program.blocks[at][0].op[0] == "vote":
                on = np.repeat(on.reshape(-1, WARP).all(1), WARP)
            if on.any():
                return at, np.flatnonzero(on)
            at = int(where[where > at].min(initial=len(self.program.blocks)))
            if at == len(self.program.blocks):
                raise Wrong("a vote that not all lanes of a warp come to")
        return at, np.empty(0, np.int64)

    def guarded(self, step: Step, lanes: Lanes) -> Lanes:
        """Return the lanes that run an instruction."""
        if step.guard is None:
            return lanes
        name, wanted = step.guard
        here = np.arange(self.count)[lanes]
        return here[self.read(name, "pred", lanes) == wanted]

    def step(self, step: Step, lanes: Lanes) -> None:
        """Run an instruction in some lanes."""
        match step.op:
            case _ if step.pure is not None:
                types, result, make = step.pure
                made = make(
                    *(self.read(a, t, lanes) for a, t in zip(step.args[1:], types, strict=True))
                )
                self.write(step.args[0], result, np.broadcast_to(made, self.size(lanes)), lanes)
            case ("ld", "param", t):
                self.write(
                    step.args[0],
                    t,
                    np.broadcast_to(
                        self.params[step.args[1][1:-1]].view(DTYPES[t]), self.size(lanes)
                    ),
                    lanes,
                )
            case ("ld", "global", *_, t):
                into = step.args[0].strip("{}").split(",")
                found = self.load(step, lanes, DTYPES[t], len(into))
                for name, values in zip(into, found.T, strict=True):
                    self.write(name.strip(), t, values, lanes)
            case ("st", "global", t):
                self.store(step, lanes, self.read(step.args[1], t, lanes))
            case ("vote", *_):
                if not (self.read(step.args[2], "u32", lanes) == 0xFFFFFFFF).all():
                    raise Wrong(f"not all lanes are named: {step.text}")
                votes = self.read(step.args[1], "pred", lanes) & np.ones(self.size(lanes), np.bool_)
                words = np.packbits(votes.reshape(-1, WARP), axis=1, bitorder="little").view(
                    np.uint32
                )
                self.write(step.args[0], "b32", np.repeat(words.ravel(), WARP), lanes)

    def size(self, lanes: Lanes) -> int:
        """Return the number of lanes."""
        return self.count if isinstance(lanes, slice) else len(lanes)

    def read(self, name: str, t: str, lanes: Lanes) -> Values:
        """Return an operand: the low bits of a register that its type has, or a literal."""
        dtype = DTYPES[t]
        if name.startswith("!"):
            return ~self.read(name[1:], t, lanes)
        if name in ("%tid.x", "%ctaid.x"):
            lane = np.arange(self.count, dtype=np.uint32)[lanes]
            return (lane % self.threads if name == "%tid.x" else lane // self.threads).astype(
                np.uint32
            )
        if name.startswith("%"):
            if name not in self.registers:
                raise Wrong(f"{name} is read and was not written")
            held = self.registers[name][lanes]
            return (
                held if t == "pred" else held.astype(f"u{dtype.itemsize}", copy=False).view(dtype)
            )
        if name[:2] in ("0f", "0d"):
            return np.array(int(name[2:], 16), f"u{4 if name[1] == 'f' else 8}").view(dtype)
        if t == "pred":
            return np.array(name != "0")
        return np.array(int(name, 0) % (1 << 8 * dtype.itemsize), f"u{dtype.itemsize}").view(dtype)

    def write(self, name: str, t: str, values: Values, lanes: Lanes) -> None:
        """Put values into a register, widened by their type."""
        kind = self.program.registers[re.sub(r"[%\d]", "", name)]
        if kind != "pred":
            signed = DTYPES[t].kind == "i"
            bits = (
                values.astype(f"{'i' if signed else 'u'}{DTYPES[kind].itemsize}")
                if DTYPES[t].kind != "f"
                else values
            )
            values = bits.view(f"u{DTYPES[kind].itemsize}")
        if isinstance(lanes, slice):
            self.registers[name] = values
            return
        held = self.registers.get(name)
        held = np.full(self.count, 0xCD, values.dtype) if held is None else held.copy()
        held[lanes] = values
        self.registers[name] = held

    def load(self, step: Step, lanes: Lanes, dtype: np.dtype[Any], width: int) -> Values:
        """Return values of memory, a row of `width` per lane."""
        out = np.empty((self.size(lanes), width), dtype)
        for some, memory, at in self.places(step, step.args[1], lanes, dtype.itemsize * width):
            known = memory.known[at]
            if (known != SET).any():
                what = "nobody wrote" if (known == UNSET).any() else "this launch writes"
                raise Wrong(f"reads what {what}: {step.text}")
            out[some] = memory.bytes[at].view(dtype)
        return out

    def store(self, step: Step, lanes: Lanes, values: Values) -> None:
        """Put a value per lane into memory."""
        values = np.broadcast_to(values, self.size(lanes))
        for some, memory, at in self.places(step, step.args[0], lanes, values.itemsize):
            if (memory.known[at] == FRESH).any() or len(np.unique(at[:, 0])) < len(at):
                raise Wrong(f"written twice: {step.text}")
            memory.bytes[at] = (
                np.ascontiguousarray(values[some]).view(np.uint8).reshape(len(at), -1)
            )
            memory.known[at] = FRESH

    def places(
        self, step: Step, address: str, lanes: Lanes, size: int
    ) -> list[tuple[npt.NDArray[np.int64], Memory, npt.NDArray[np.int64]]]:
        """Return each accessed array, the positions of the lanes that access it, and the bytes."""
        register, _, offset = address[1:-1].partition("+")
        at = self.read(register, "u64", lanes) + np.uint64(int(offset or "0") % 2**64)
        at = np.broadcast_to(at, self.size(lanes))
        if (at % np.uint64(size)).any():
            raise Wrong(f"not aligned to {size} bytes: {step.text}")
        which = (
            self.order[np.maximum(np.searchsorted(self.starts[self.order], at, "right") - 1, 0)]
            if len(self.starts)
            else at
        )
        made = []
        for i in np.unique(which):
            some = np.flatnonzero(which == i)
            memory = self.arrays[i]
            first = at[some].astype(np.int64) - memory.at
            if (first < 0).any() or (first + size > memory.nbytes).any():
                raise Wrong(f"outside of every argument: {step.text}")
            made.append((some, memory, first[:, None] + np.arange(size)))
        return made
