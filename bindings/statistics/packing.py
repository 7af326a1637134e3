"""Keep the original statistics, and pack them for kernels, column by column, at first use.

`statistics.py` adds the ways to make, index and save statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import KEYS, PACKED, leaf_named
from skipstone.bindings.statistics.device import DeviceSupport
from skipstone.bindings.statistics.membership import ValuesAndBlooms, combine_answers
from skipstone.bindings.statistics.protocols import MembershipSource
from skipstone.ir import compute as pc
from skipstone.ir.arrow import fill, whole
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path, is_part, show_path
from skipstone.ir.types import DType, Leaf, leaves_of, to_python
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import Column, ColumnStatistics, pack_column
from skipstone.kernels.pack.counts import rows_plane
from skipstone.kernels.pack.planes import Mask, Plane

if TYPE_CHECKING:
    from skipstone.kernels.index.index import Index


class PackableStatistics(DeviceSupport):
    """The original statistics of n containers, which are packed when a kernel first reads them.

    Args:
        schema: The table's columns.
        num_containers: The number of containers, n.
        columns: Bounds and counts by column, each array of length n.
        row_count: Rows of each container, or a function that returns them.
        extras: By column, the exactness of bounds, value lists and bloom filters.
        contained: A provider's method of that name.
        members: Value lists and bloom filters, ready to be looked up.
        counts_parents: True if the null count of a struct's field includes the rows whose struct
            is NULL, as Parquet's does. False: such a field may hold NULL.
    """

    def __init__(
        self,
        schema: pa.Schema,
        num_containers: int,
        columns: Mapping[Path, ColumnStatistics],
        *,
        row_count: Given | Callable[[], pa.Array] | None = None,
        extras: Mapping[Path, Mapping[str, pa.Array]] | None = None,
        contained: Callable[[str, frozenset[object]], pa.BooleanArray | None] | None = None,
        members: MembershipSource | None = None,
        counts_parents: bool = False,
    ) -> None:
        self._schema, self._n = schema, num_containers
        self._raw, self._rows = columns, row_count
        self._extras: Mapping[Path, Mapping[str, pa.Array]] = extras or {}
        self._contained, self._members = contained, members
        self._contradicting: dict[Path, Mask | None] = {}  # `_contradicting_lists` by column
        self._counts_parents = counts_parents
        self._leaves = leaves_of(schema)
        self._index: Index | None = None
        super().__init__()

    def __dir__(self) -> list[str]:
        from skipstone.bindings.attributes import public_names

        return public_names(super().__dir__(), "statistics")

    # The original statistics.

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self._schema

    @property
    def num_containers(self) -> int:
        """The number of containers."""
        return self._n

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have at least one statistic, named as in SQL."""
        return tuple(show_path(p) for p in self._raw)

    @property
    def row_count(self) -> pa.Array | None:
        """Rows of each container, int64; null is unknown. None: no row counts were given."""
        rows = self._given_rows()
        return None if rows is None else whole(rows)

    def _given_rows(self) -> Given | None:
        return self._rows() if callable(self._rows) else self._rows

    @property
    def nbytes(self) -> int:
        """Bytes in host memory of the columns packed so far, and of levels and codes above them."""
        return super().nbytes + (0 if self._index is None else self._index.nbytes)

    @property
    def counts_parents(self) -> bool:
        """True if the null count of a struct's field includes the rows whose struct is NULL."""
        return self._counts_parents

    def get(self, column: str, statistic: str) -> pa.Array | None:
        """Return one statistic of one column as given, in one chunk.

        Args:
            column: The column's name, as in SQL.
            statistic: One of the keys of `from_dict`, such as "min".

        Returns:
            An array of length n, in which null is unknown. None: nothing is known.

        Raises:
            UnknownColumn: the schema lacks the column.
            StatisticsError: no statistic has that name.
        """
        if statistic not in KEYS:
            raise StatisticsError(
                f"no statistic is named {statistic!r}; expected one of {', '.join(KEYS)}"
            )
        path = leaf_named(column, self._leaves).path
        raw = self._raw.get(path)
        if statistic in PACKED:
            array = getattr(raw, statistic, None)
            return None if array is None else whole(array)
        return self._extras.get(path, {}).get(statistic)

    def to_arrow(self) -> pa.Table:
        """Return bounds and counts as a table that `from_arrow` reads.

        Returns:
            Columns `x.min`, `x.max`, `x.null_count`, ... for each column, and `row_count`; null is
            unknown. Exactness of bounds, value lists, bloom filters and a provider's answers are
            left out.

        Example:
            >>> import skipstone as ss
            >>> schema = pa.schema([("x", pa.int64())])
            >>> stats = ss.Statistics.from_dict({"x": {"min": [1, 2]}}, schema, row_count=[10, 10])
            >>> stats.to_arrow().column_names
            ['x.min', 'row_count']
        """
        columns: dict[str, Given] = {}
        for path in self.leaf_paths():
            raw = self.raw(path)
            columns |= {
                f"{show_path(path)}.{key}": array
                for key in PACKED
                if (array := getattr(raw, key)) is not None
            }
        rows = self._given_rows()
        return pa.table(columns if rows is None else {**columns, "row_count": rows})

    def leaf_paths(self) -> tuple[Path, ...]:
        """Return the paths of the columns that have at least one statistic."""
        return tuple(self._raw)

    def extra_paths(self) -> tuple[Path, ...]:
        """Return the paths of the columns that may have extras (see `extras`)."""
        return tuple(self._extras)

    def extras(self, path: Path) -> Mapping[str, pa.Array]:
        """Return exactness of bounds, value lists and bloom filters of a column, as given."""
        return self._extras.get(path, {})

    def leaf(self, path: Path) -> Leaf | None:
        """Return the schema's entry for a column; None if the schema has no such column."""
        return self._leaves.get(path)

    def raw(self, path: Path) -> ColumnStatistics:
        """Return bounds and counts of one column as given; all None if it has none."""
        return self._raw.get(path) or ColumnStatistics()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rows": self._given_rows()}

    def __len__(self) -> int:
        return self._n

    # The source that kernels read (kernels/pack/packed.py).

    @property
    def levels(self) -> Index | None:
        """The levels above the containers; None without an index."""
        return self._index

    def with_index(self, index: Index) -> Self:
        """Return the same statistics below an index that was built over them."""
        out = self.shallow_copy()
        out._index = index
        return out if self._resident is None else out.place_on(self._resident)

    def with_members(self, members: MembershipSource) -> Self:
        """Return the same statistics with value lists and bloom filters."""
        out = self.shallow_copy()
        out._members, out._contradicting = members, {}
        out._forget_launches()
        return out

    @property
    def has_members(self) -> bool:
        """True if `contained_in` may return an answer."""
        return self._contained is not None or self._members is not None

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        return getattr(self._raw, "bounds_elements", False)

    def pack(self, path: Path, dtype: DType) -> Column:
        """Pack the statistics of a column whose bounds are read as `dtype`."""
        leaf = self._leaves.get(path)
        raw = self._raw.get(path) or (
            self._struct_from_fields(path)
            if leaf is not None and leaf.struct
            else ColumnStatistics()
        )
        if (wrong := self._contradicting_lists(path)) is not None:
            from skipstone.bindings.statistics.list_contradictions import unknown_at

            raw = unknown_at(raw, wrong)
        return self.packed(path, dtype, raw)

    def _contradicting_lists(self, path: Path) -> Mask | None:
        """Return which containers have a value list that other statistics contradict.

        All statistics of the column are unknown there. None: there are no such containers.
        """
        lists = self._members.lists(path) if isinstance(self._members, ValuesAndBlooms) else None
        leaf = self._leaves.get(path)
        if lists is None or leaf is None:
            return None
        if path not in self._contradicting:
            from skipstone.bindings.statistics.list_contradictions import contradicting_lists

            self._contradicting[path] = contradicting_lists(
                lists, self.raw(path), self._given_rows(), leaf.dtype,
                nullable=leaf.nullable or len(path) > 1,
            )  # fmt: skip
        return self._contradicting[path]

    def packed(self, path: Path, dtype: DType, raw: ColumnStatistics) -> Column:
        """Pack `raw`, statistics of a column as given, with bounds read as `dtype`."""
        leaf = self._leaves.get(path)
        nullable = leaf.nullable if leaf is not None else True
        struct = self._leaves.get(path[:-1])  # None where the predicate's schema has more columns
        parent_may_be_null = (
            len(path) > 1 and not self._counts_parents and (struct is None or struct.nullable)
        )
        return pack_column(
            raw,
            dtype,
            self._n,
            nullable=nullable,
            parent_may_be_null=parent_may_be_null,
            rows=self._given_rows(),
        )

    def _struct_from_fields(self, path: Path) -> ColumnStatistics:
        """Derive the null count of a struct from those of its fields.

        If a field holds no NULL, and its count includes the NULLs of the struct, then the struct
        holds no NULL either.
        """
        no_null = None
        for p in self._leaves if self._counts_parents else ():
            field = self._raw.get(p) if len(p) > len(path) and p[: len(path)] == path else None
            if field is not None and field.null_count is not None:
                field_no_null = fill(pc.equal(field.null_count, 0), False)
                no_null = field_no_null if no_null is None else pc.or_(no_null, field_no_null)
        if no_null is None:
            return ColumnStatistics()
        return ColumnStatistics(null_count=pc.if_else(no_null, pa.scalar(0, pa.int64()), None))

    def pack_rows(self) -> Plane:
        """Pack the flag "may hold rows" of each container."""
        return rows_plane(self._given_rows(), self._n)

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Look up a set of axis values in value lists, bloom filters and the provider.

        Returns:
            The combined answer, as from `PruningStatistics.contained`. None: nothing is known.

        Raises:
            StatisticsError: the provider's answer has another length than `num_containers`.
        """
        if is_part(path) and not self.bounds_elements:
            return None
        from_members = (
            None if self._members is None else self._members.contained(path, values, dtype)
        )
        wrong = None if from_members is None else self._contradicting_lists(path)
        if wrong is not None:
            from_members = pc.if_else(pa.array(wrong, pa.bool_()), None, from_members)
        return combine_answers(from_members, self._from_provider(path, values, dtype))

    def _from_provider(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        if self._contained is None or is_part(path):
            return None
        answer = self._contained(show_path(path), frozenset(to_python(v, dtype) for v in values))
        if answer is None:
            return None
        if len(answer) != self._n:
            raise StatisticsError(
                f"contained({show_path(path)!r}) gave {len(answer)} values; expected {self._n}, "
                "the provider's num_containers"
            )
        return pc.cast(whole(answer), pa.bool_())
