"""Small faults for Python source; each changes one place of the module's syntax tree."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.FloorDiv: ast.Mult,
}  # fmt: skip
# Fields of a tree that do not affect results.
SKIPPED = {"annotation", "returns", "type_params", "decorator_list"}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        name: The function and the change as text, `Plan.count: 0 -> 1`, independent of the line.
        lines: First and last line of the statement that it changes.
        source: The module's text.
        path: Fields and indices from the module's tree to the changed node.
        edit: A function that copies the node and returns its replacement.
    """

    name: str
    lines: tuple[int, int]
    source: str
    path: tuple[tuple[str, int | None], ...]
    edit: Callable[[Any], Any]

    def tree(self) -> ast.Module:
        """Return the module with the fault."""
        tree = ast.parse(self.source)
        if not self.path:
            return tree
        node, parent, (field, index) = (
            _at(tree, self.path),
            _at(tree, self.path[:-1]),
            self.path[-1],
        )
        if index is None:
            setattr(parent, field, self.edit(node))
        else:
            getattr(parent, field)[index] = self.edit(node)
        return ast.fix_missing_locations(tree)


def mutants(source: str) -> list[Mutant]:
    """Return every fault that can be planted in a module, in the order of its text."""
    tree, out, seen = ast.parse(source), [], Counter[str]()
    for path, where, lines in _places(tree, (), "", (0, 0)):
        node = _at(tree, path)
        for edit in _edits(node):
            before, after = _text(node), _text(edit(copy.deepcopy(node)))
            if before == after:
                continue
            name = f"{where}: {before} -> {after}"
            seen[name] += 1
            again = f" #{seen[name]}" if seen[name] > 1 else ""
            out.append(Mutant(name + again, lines, source, path, edit))
    return out


def _text(node: Any) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    first, *rest = text.splitlines()
    return f"{first} ..." if rest else first


def _lines(node: Any) -> tuple[int, int]:
    """Return the lines of a statement; of a compound statement, those of its head."""
    head = getattr(node, "test", getattr(node, "subject", getattr(node, "iter", node)))
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Try | ast.With):
        return node.lineno, node.body[0].lineno - 1
    return node.lineno, head.end_lineno


def _at(tree: Any, path: tuple[tuple[str, int | None], ...]) -> Any:
    for field, index in path:
        tree = getattr(tree, field) if index is None else getattr(tree, field)[index]
    return tree


def _places(
    node: ast.AST, path: Any, where: str, lines: tuple[int, int]
) -> Iterator[tuple[Any, str, tuple[int, int]]]:
    """Yield the path of each node that may be changed, with its function and statement lines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
        if node.name == "__repr__":
            return
    if isinstance(node, ast.stmt):
        lines = _lines(node)
    if isinstance(node, ast.If) and _text(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if path:
        yield path, where, lines
    if isinstance(node, ast.Raise):
        return  # its text is a message for people
    for field, value in ast.iter_fields(node):
        if field in SKIPPED:
            continue
        if isinstance(value, ast.AST):
            yield from _places(value, (*path, (field, None)), where, lines)
        elif isinstance(value, list):
            for i, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from _places(one, (*path, (field, i)), where, lines)


def _edits(node: Any) -> Iterator[Callable[[Any], Any]]:
    """Yield the changes of one node; each is a function from a copy to its replacement."""
    match node:
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Compare):
            yield lambda n: _set(n, test=ast.UnaryOp(ast.Not(), n.test))
        case ast.Compare() if len(node.ops) == 1:
            yield lambda n: _set(n, ops=[COMPARED[type(n.ops[0])]()])
        case ast.BoolOp():
            yield lambda n: _set(n, op=ast.And() if isinstance(n.op, ast.Or) else ast.Or())
            for i in range(len(node.values)):
                yield lambda n, i=i: _without(n, "values", i)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield lambda n: n.operand
        case ast.BinOp() if type(node.op) in COMPUTED:
            yield lambda n: _set(n, op=COMPUTED[type(n.op)]())
        case ast.Constant(value=bool()):
            yield lambda n: ast.Constant(not n.value)
        case ast.Constant(value=int() | float()):
            yield lambda n: ast.Constant(n.value + 1)
        case ast.Constant(value=str()) if node.value.isidentifier():
            yield lambda n: ast.Constant(n.value + "_")
        case ast.Call() if _text(node.func) != "isinstance":
            if len(node.args) > 1:
                yield lambda n: _set(n, args=n.args[:-1])
            for i in range(len(node.keywords)):
                yield lambda n, i=i: _set(n, keywords=n.keywords[:i] + n.keywords[i + 1 :])
        case ast.Tuple(ctx=ast.Load()) if len(node.elts) > 2:
            for i in range(len(node.elts)):
                yield lambda n, i=i: _set(n, elts=n.elts[:i] + n.elts[i + 1 :])
        case ast.Dict() if len(node.keys) > 1:
            for i in range(len(node.keys)):
                yield lambda n, i=i: _without(_without(n, "keys", i), "values", i)
        case ast.match_case() if node.guard is not None:
            yield lambda n: _set(n, guard=None)
        case ast.Match():
            for i in range(len(node.cases)):
                yield lambda n, i=i: _without(n, "cases", i)
        case ast.Return() if node.value is not None and not _is_none(node.value):
            yield lambda n: ast.Return(ast.Constant(None))
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield lambda n: ast.Pass()


def _is_none(n: Any) -> bool:
    return isinstance(n, ast.Constant) and n.value is None


def _set(n: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(n, name, value)
    return n


def _without(n: Any, field: str, i: int) -> Any:
    left = [v for k, v in enumerate(getattr(n, field)) if k != i]
    alone = isinstance(n, ast.BoolOp) and len(left) == 1
    return left[0] if alone else _set(n, **{field: left})
