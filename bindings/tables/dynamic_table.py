"""The base class of tables that accept dynamic filters from joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipstone.ir.session import Session

if TYPE_CHECKING:
    import pyarrow as pa


class DynamicTable:
    """A table whose plans can be filtered by the keys of joins.

    Attributes:
        dynamic_filtering: Whether plans use dynamic filters. None follows the environment variable
            SKIPSTONE_DYNAMIC_FILTERING, which is on unless it is set.
    """

    schema: pa.Schema
    dynamic_filtering: bool | None = None

    def accepted_filter_fields(
        self, candidates: Sequence[str], case_sensitive: bool = False
    ) -> list[str]:
        """Return the columns among `candidates` that a dynamic filter may be compared with.

        These are the columns whose values have an order, partition columns or not.

        Args:
            candidates: Column names; `a.b` is a field of a struct.
            case_sensitive: Whether names must match in case.

        Source: Flink FLIP-248, `SupportsDynamicFiltering.listAcceptedFilterFields`, which takes
        partition columns only.
        """
        from skipstone.bindings.filters.scan import accepted

        return accepted(self.schema, candidates, Session(case_sensitive=case_sensitive))
