"""Read row groups by pages: choose rows by page statistics, then read column after column.

Page statistics leave windows of rows. A mask says which rows of the windows are still candidates.
Columns of the condition come first; of the others, only pages with a candidate row are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.readers import ReaderName
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.heads import Head
from skipstone.bindings.tables.parquet.pages.candidate_rows import CandidateRows
from skipstone.bindings.tables.parquet.pages.columns import as_type, batches_of_rows, constant
from skipstone.bindings.tables.parquet.pages.decoders import (
    Decoded,
    decode,
    matching,
    uses_polars,
)
from skipstone.bindings.tables.parquet.pages.known_rows import Matches
from skipstone.bindings.tables.parquet.pages.leaf_types import PHYSICAL, TEXTS, LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import (
    RowGroup,
    Window,
    count_rows,
    first_rows,
    windows_over,
)
from skipstone.bindings.tables.parquet.pages.page_history import PageHistory
from skipstone.bindings.tables.parquet.pages.page_segments import judge_windows
from skipstone.bindings.tables.parquet.pages.polars_filter import Expression, split
from skipstone.bindings.tables.parquet.pages.ranges import REMOTE_GAP
from skipstone.bindings.tables.parquet.pages.wanted_pages import (
    CandidateGroup,
    WantedColumn,
    candidate_groups,
    is_coded,
    page_file,
    page_files,
    read_wanted,
    rounds_of,
    unpacked,
    wanted_pages,
)
from skipstone.bindings.tables.row_filter import Conjunct
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Node
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.pool import map_requests, run_chunks

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.pages.nested.nested_types import NestedColumns

BYTE_ARRAY: Final = PHYSICAL["BYTE_ARRAY"]
# The share of candidate rows below which decoders return only those.
SPARSE: Final = 0.5
ROUNDS_AT_ONCE: Final = 2  # of remote files that are read concurrently
# The row groups whose pages are judged first, to learn whether the others' are worth judging; and
# the most of remote files that are judged at once, because judging a few first costs a round.
PROBED, REMOTE_FEW = 4, 64


@dataclass(slots=True)
class _Read:
    """A column as it was decoded, and which rows of the windows it holds; None means all."""

    values: Decoded
    rows: Ints | None


class PagedRowGroups:
    """Row groups of files with one schema, which are read together, page by page.

    Args:
        head: The part of the footer that the files share.
        leaves: Table column -> its type in the files; columns that the files lack are not there.
        types: Table column -> its type in the table.
        groups: The row groups.
        reader: Decodes the pages.
        whole: The columns that the files have, but that are read whole.
        nested: Those of them of which pages may be read.
        limited: True if the first rows may be enough.

    Attributes:
        leaves, types, reader, whole: As given.
    """

    def __init__(
        self,
        head: Head,
        leaves: Mapping[str, LeafType],
        types: Mapping[str, pa.DataType],
        groups: Sequence[RowGroup],
        reader: ReaderName = "auto",
        whole: Collection[str] = (),
        nested: NestedColumns | None = None,
        limited: bool = False,
    ) -> None:
        self._head, self.leaves, self.types, self.reader = head, leaves, types, reader
        self.whole, self._nested, self._limited = frozenset(whole), nested, limited
        self._read: dict[str, _Read] = {}
        self._windows = windows_over(groups)
        self._candidates: CandidateRows | None = None

    def _open(self, windows: list[Window]) -> None:
        self._windows, self._candidates = windows, None

    @property
    def candidates(self) -> CandidateRows:
        """The rows of all windows, and which no test has ruled out yet."""
        if self._candidates is None:
            n, mask = count_rows(self._windows), None
            if any(w.group.live is not None for w in self._windows):
                mask = np.concatenate([w.live() for w in self._windows])
            self._candidates = CandidateRows(n, mask)
        return self._candidates

    @property
    def windows(self) -> Sequence[Window]:
        """The ranges of rows that pages leave, ascending."""
        return self._windows

    def is_stored(self, name: str) -> bool:
        """Return True if the files have a column."""
        return name in self.leaves or name in self.whole

    def keep_first(self, n: int) -> None:
        """Leave the first n rows that are not deleted; nothing may have been read before."""
        self._open(first_rows(self._windows, n))

    def keep_known(self, matches: Mapping[int, Matches]) -> None:
        """Leave only rows that are known to match; nothing may have been read or pruned before.

        Args:
            matches: `id` of a row group -> its rows that match.
        """
        windows, masks = [], []
        for g in [w.group for w in self._windows]:
            first, mask = matches[id(g)]
            if len(mask):
                windows.append(Window(g, first, first + len(mask)))
                masks.append(mask)
        self._open(windows)
        if windows and not all(mask.all() for mask in masks):
            self.candidates.keep(np.concatenate(masks), None)

    def prune(self, predicate: PruningPredicate, history: PageHistory | None) -> None:
        """Leave only the windows whose row groups and pages may hold a match.

        Args:
            predicate: The condition.
            history: Says whether to look at page statistics, and learns how many rows they leave;
                None means look at all.
        """
        windows = self._windows
        if any(w.group.has_untested_blooms for w in windows):
            from skipstone.bindings.tables.parquet.pages.group_blooms import judge_groups

            windows = judge_groups(windows, predicate, self._head, self.leaves)
            self._open(windows)
        if history is not None:
            if not history.is_worth_a_look():
                return
            local = all(w.group.ranges.local for w in windows)
            if history.is_new and len(windows) > (2 * PROBED if local else REMOTE_FEW):
                few = windows[:: len(windows) // PROBED]
                history.add(count_rows(few), count_rows(self._judge_pages(predicate, few)))
                if not history.helps:
                    return
        remaining = self._judge_pages(predicate, windows, ahead=history is not None)
        if remaining is not windows:
            self._open(remaining)
        if history is not None:
            history.add(count_rows(windows), count_rows(remaining))

    def _judge_pages(
        self, predicate: PruningPredicate, windows: list[Window], *, ahead: bool = False
    ) -> list[Window]:
        """Return what page statistics leave of windows; the same list if that is all of them.

        Args:
            predicate: The condition.
            windows: Windows over whole row groups.
            ahead: True if the pages of what is left are read next.
        """
        tested = {} if self._nested is None else self._nested.tested
        leaves = {**self.leaves, **tested}
        return judge_windows(windows, predicate, self._head, leaves, ahead=ahead)

    def filter(self, part: Conjunct) -> Mask | None:
        """Keep only the rows for which a conjunct is TRUE, or may raise an error.

        Args:
            part: The conjunct.

        Returns:
            The mask of rows for which Spark may raise an error; None if there are none.
        """
        names = part.names
        condition, rest = self.expression_of(part.node)
        if rest is None and condition is not None and self.filter_while_decoding(condition, names):
            return None
        self.fetch([name for name in names if self.is_stored(name)], text=part.program is None)
        read = self._read.get(names[0]) if len(names) == 1 else None
        if part.program is not None and read is not None:
            # A kernel judges all rows in less time than selecting candidates takes.
            where = read.rows
        else:
            where = self.candidates.positions
        n = len(self.candidates) if where is None else len(where)
        found = self._values(names, where, coded=True)
        truth = part.judge_all(batches_of_rows(found, n))
        self.candidates.keep(truth.to_keep, where)
        if truth.may_raise is None or where is None:
            return truth.may_raise
        may_raise = np.zeros(len(self.candidates), np.bool_)
        may_raise[where] = truth.may_raise
        return may_raise

    def expression_of(self, node: Node) -> tuple[Expression | None, Node | None]:
        """Split a condition into the part that the decoder can judge, and the rest; see `split`."""
        if not uses_polars(8 * self.candidates.count, self.reader):
            return None, node
        return split(node, self.decoder_schema)

    @property
    def decoder_schema(self) -> pa.Schema:
        """The columns of which Polars' decoder can judge conditions."""
        leaves = self.leaves.items()
        return pa.schema([(name, leaf.arrow) for name, leaf in leaves if not leaf.is_int96])

    def filter_while_decoding(self, condition: Expression, names: Sequence[str]) -> bool:
        """Let the decoder leave out the rows for which a condition is not TRUE.

        Args:
            condition: The condition.
            names: The columns that it tests, which the files have.

        Returns:
            False if the columns were read before, or have different page boundaries; then nothing
            was done.

        Raises:
            SourceError: an offset index lists other pages.
        """
        if any(name in self._read for name in names):
            return False
        wanted = wanted_pages(self.candidate_groups(), names)
        placement = wanted[0].placement
        if any(one.placement.key != placement.key for one in wanted):
            return False
        keep = placement.keep(self.candidates.mask if self._is_sparse else None)
        with page_file(wanted, self.leaves, keep, self.path) as file:
            found = matching(file, condition, file.names)
        if found is None:
            return False
        rows = placement.in_windows(found.positions)
        for name in names:
            self._read[name] = _Read(found.columns, rows)
        self.candidates.keep_only(rows)
        return True

    def columns(self, names: Sequence[str]) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Return columns of the candidate rows, as the table has them."""
        return self._values(names, self.candidates.positions)

    def _values(
        self, names: Sequence[str], rows: Ints | None, *, coded: bool = False
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Return columns as the table has them, of some rows of the windows.

        Args:
            names: The columns.
            rows: The rows: the candidates, or all that the columns hold; None means all.
            coded: True if text may be a dictionary.
        """
        out = {}
        by_file: dict[int, list[str]] = {}
        for name in names:
            if self.is_stored(name):
                by_file.setdefault(id(self._read[name].values), []).append(name)
            else:
                out[name] = constant(self._windows, name, self.types[name], rows)
        for together in by_file.values():
            read = self._read[together[0]]
            keep = None
            if rows is not None and (read.rows is None or len(rows) < len(read.rows)):
                mask = self.candidates.mask
                keep = mask if read.rows is None else mask[read.rows]
            found = read.values.select(together, keep)
            for name in together:
                values = found.column(name)
                is_judged = coded and pa.types.is_dictionary(values.type)
                out[name] = values if is_judged else as_type(values, self.types[name])
        return out

    def fetch(self, names: Sequence[str], *, text: bool = False) -> None:
        """Read the candidate rows of columns.

        Args:
            names: The columns.
            text: True if text may be decoded as dictionaries, to be judged by distinct values.

        Raises:
            SourceError: the pages hold other rows than the footer says.
        """
        new = [name for name in names if name not in self._read]
        if own := [name for name in new if name in self.whole]:
            self._fetch_whole(own)
            new = [name for name in new if name not in self.whole]
        wanted = wanted_pages(self.candidate_groups(), new)
        together: dict[object, list[WantedColumn]] = {}
        for one in wanted:
            leaf = self.leaves[one.name]
            is_coded_text = self.types[one.name] == TEXTS
            is_text = leaf.physical == BYTE_ARRAY and leaf.arrow == self.types[one.name]
            one.text = (is_coded_text or (text and is_text)) and not self._is_sparse
            rows = tuple(part.rows for _, part, *_ in one.parts)
            key = one.name if one.text else (one.placement.key, rows, leaf.is_int96)
            together.setdefault(key, []).append(one)
        self._decode(list(together.values()))

    def _fetch_whole(self, names: Sequence[str]) -> None:
        from skipstone.bindings.tables.parquet.pages.nested.nested_pages import read_columns

        groups, schema = self.candidate_groups(), pa.schema([(n, self.types[n]) for n in names])
        found = read_columns(groups, schema, self._nested, self.candidates, limited=self._limited)
        self._read |= {name: _Read(v, self.candidates.positions) for name, v in found.items()}

    def _decode(self, wanted: Sequence[Sequence[WantedColumn]]) -> None:
        """Decode columns; those whose decoded rows are the same are decoded together."""
        rounds, reader = rounds_of(wanted), self.reader
        if len(rounds) > 1:
            reader = "polars" if uses_polars(unpacked(wanted), reader) else "arrow"

        def work(first: int, stop: int) -> None:
            for one in rounds[first:stop]:
                self._decode_round(one, reader)

        if all(w.group.ranges.local for w in self._windows):
            run_chunks(work, len(rounds), 1)
        else:  # a short file is read once, not for each group of columns
            read_wanted(itertools.chain(*wanted), REMOTE_GAP)
            map_requests(lambda i: work(i, i + 1), range(len(rounds)), at_once=ROUNDS_AT_ONCE)

    def _decode_round(self, wanted: Sequence[Sequence[WantedColumn]], reader: ReaderName) -> None:
        sparse = self._is_sparse
        mask = self.candidates.mask if sparse else None
        keeps = [of[0].placement.keep(mask) for of in wanted]
        with page_files(wanted, self.leaves, keeps, self.path) as files:
            coded = {
                columns[0].name
                for columns, file in zip(wanted, files, strict=True)
                if columns[0].text and is_coded(columns[0], file)
            }
            decoded = decode(files, reader, coded)
        for columns, keep, values in zip(wanted, keeps, decoded, strict=True):
            placement = columns[0].placement
            expected = placement.rows if keep is None else int(np.count_nonzero(keep))
            if values.rows != expected:
                raise SourceError(
                    f"{self.path}: expected {expected} rows, its pages have {values.rows}"
                )
            rows = self.candidates.positions if sparse else placement.covered(len(self.candidates))
            for c in columns:
                self._read[c.name] = _Read(values, rows)

    @property
    def _is_sparse(self) -> bool:
        return self.candidates.count < SPARSE * len(self.candidates)

    @property
    def path(self) -> str:
        """The path of a file, for messages."""
        return self._windows[0].group.path

    def candidate_groups(self) -> list[CandidateGroup]:
        """Return the row groups that hold candidate rows."""
        return candidate_groups(self._windows, self.candidates)

    def sample(self, count: int) -> PagedRowGroups:
        """Return a sample of the row groups, spread over all."""
        groups = list({id(w.group): w.group for w in self._windows}.values())
        return self.of(windows_over(groups[:: max(len(groups) // count, 1)]))

    def of(self, windows: Sequence[Window]) -> PagedRowGroups:
        """Return some ranges of rows as if nothing had been read."""
        part = PagedRowGroups(self._head, self.leaves, self.types, (), self.reader, self.whole)
        part._nested, part._limited = self._nested, self._limited
        part._open(list(windows))
        return part
