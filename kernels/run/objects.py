"""Keep compiled loops as object files, which llvmlite loads without Numba.

Importing Numba takes 0.2 s, and llvmlite 0.04 s, so a new process that finds its loops here is
ready sooner. A file holds the machine code of one function for one processor. It begins with a
digest of the rest; a damaged file is rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from skipstone.ir.errors import describe_error
from skipstone.kernels import logs
from skipstone.kernels.run.compile_cache import warn_not_kept, write_whole
from skipstone.kernels.run.first_import import first_import
from skipstone.kernels.run.native import DATA, ENTRY, ArgumentType, Native, entry_of, is_as_expected

# What the code may call: an unknown symbol would end the process while it is loaded.
LIBRARY: Final = frozenset({"memset", "memcpy", "memmove"})
DIGEST: Final = 32  # bytes
ELF: Final = b"\x7fELF\x02\x01"  # the start of a 64-bit, little-endian file
SYMBOL: Final = struct.Struct("<IBBHQQ")  # ELF's: name, info, other, section, value, size
# An entry of LLVM IR that has a name, and a name in it.
NAMED: Final = re.compile(r'^(?:define|declare)\b[^@]*(@[\w.$]+|@"[^"]*")|^(@[\w.$]+|@"[^"]*") =')
NAMES: Final = re.compile(r'@[\w.$]+|@"[^"]*"')


class CannotKeep(Exception):
    """A function cannot be kept as an object file."""


def are_possible() -> bool:
    """Return True if this system's object files are of the known format."""
    return sys.platform == "linux" and sys.byteorder == "little" and sys.maxsize > 1 << 32


def path_of(module: Path) -> Path:
    """Return the path of the object file of a module's function, for this machine's processor.

    Raises:
        CannotKeep: llvmlite cannot be imported.
    """
    try:
        first_import("llvmlite.binding", "llvmlite")
    except Exception as e:  # an import can raise anything
        raise CannotKeep(describe_error(e)) from e
    from llvmlite import binding as llvm

    # Free-threaded Python keeps the fields of an array elsewhere.
    made_for = f"{llvm.llvm_version_info} {llvm.get_host_cpu_name()} {_features()} {DATA}"
    return module.with_suffix(f".{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.o")


def load(path: Path, types: Sequence[ArgumentType]) -> Native | None:
    """Return the function of an object file; None if there is none, or it is damaged.

    Args:
        path: The object file.
        types: The types of the function's arguments.

    Raises:
        CannotKeep: another process found that the function cannot be kept.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if not data or not is_as_expected():
        raise CannotKeep("another process could not keep it, or NumPy has changed")
    digest, code = data[:DIGEST], data[DIGEST:]
    # LLVM ends the process if a file is of another format.
    if hashlib.sha256(code).digest() != digest or not code.startswith(ELF):
        return None
    start = time.perf_counter()
    found = _load(code, types)
    logs.write("kernel loaded", kernel=path.stem, seconds=time.perf_counter() - start)
    return found


def keep(path: Path, dispatcher: Any, types: Sequence[ArgumentType]) -> Native:
    """Write an object file of a function that Numba has just compiled, and load it.

    Args:
        path: The object file.
        dispatcher: Numba's function, of one signature, and not from Numba's cache.
        types: The types of its arguments.

    Raises:
        CannotKeep: the function has another form than expected. An empty file tells other
            processes.
    """
    try:
        code = _object_of(dispatcher, types)
        found = _load(code, types)
    except MemoryError as e:  # another process may have enough
        raise CannotKeep(describe_error(e)) from e
    except Exception as e:  # Numba and llvmlite may have changed in any way
        _write(path, b"")
        raise CannotKeep(describe_error(e)) from e
    _write(path, hashlib.sha256(code).digest() + code)
    return found


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as e:
        warn_not_kept(e)


def _object_of(dispatcher: Any, types: Sequence[ArgumentType]) -> bytes:
    from llvmlite import binding as llvm

    (signature,) = dispatcher.nopython_signatures
    name = dispatcher.overloads[signature.args].fndesc.llvm_func_name
    text = _text_of(dispatcher.inspect_llvm(signature.args), name, types)
    code: bytes = _machine().emit_object(llvm.parse_assembly(text))
    if unknown := set(_undefined(code, llvm)) - LIBRARY:
        raise CannotKeep(f"it calls {', '.join(sorted(unknown))}")
    return code


def _features() -> str:
    from llvmlite import binding as llvm

    return str(llvm.get_host_cpu_features().flatten())


def _machine() -> Any:
    from llvmlite import binding as llvm

    with contextlib.suppress(RuntimeError):  # newer versions do it by themselves, and refuse
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def _load(code: bytes, types: Sequence[ArgumentType]) -> Native:
    from llvmlite import binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(ENTRY)
    if not address:
        raise CannotKeep(f"{ENTRY} has no address")
    return Native(address, types, engine)


def _text_of(text: str, name: str, types: Sequence[ArgumentType]) -> str:
    """Return the LLVM IR of a function, of everything that it needs, and of its entry."""
    entries, rest = _entries(text)
    wanted, todo = set[str](), [f"@{name}"]
    while todo:
        one = todo.pop()
        if one in entries and one not in wanted:
            wanted.add(one)
            todo += NAMES.findall(entries[one])
    if f"@{name}" not in wanted:
        raise CannotKeep(f"LLVM IR lacks {name}")
    entry = entry_of(entries[f"@{name}"].partition("\n")[0], types)
    if entry is None or not is_as_expected():
        raise CannotKeep("Numba or NumPy pass arrays in another way than expected")
    return "\n".join([*rest, *(entries[one] for one in sorted(wanted)), entry])


def _entries(text: str) -> tuple[dict[str, str], list[str]]:
    """Divide LLVM IR into the entries that have a name, by name, and all other lines."""
    entries: dict[str, str] = {}
    rest: list[str] = []
    lines: Iterator[str] = iter(text.splitlines())
    for line in lines:
        match = NAMED.match(line)
        if match is None:
            rest.append(line)
            continue
        entry = [line]
        if line.startswith("define"):
            for more in lines:
                entry.append(more)
                if more == "}":
                    break
        entries[match[1] or match[2]] = "\n".join(entry)
    return entries, rest


def _undefined(code: bytes, llvm: Any) -> Iterator[str]:
    """Yield the names of symbols that an object file needs.

    Raises:
        CannotKeep: the file is not of a known format.
    """
    if not code.startswith(ELF):
        raise CannotKeep("the object file is not an ELF file of 64 bits")
    tables: dict[str, bytes] = {}
    for section in llvm.ObjectFileRef.from_data(code).sections():
        if (name := section.name()) is not None:
            tables[name.decode() if isinstance(name, bytes) else name] = section.data()
    if not {".symtab", ".strtab"} <= set(tables):
        raise CannotKeep("the object file has no table of symbols")
    names = tables[".strtab"]
    for symbol, _, _, defined_in, _, _ in SYMBOL.iter_unpack(tables[".symtab"]):
        if defined_in == 0 and symbol:
            yield names[symbol : names.index(b"\0", symbol)].decode()
