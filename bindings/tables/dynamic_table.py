"""What tables say of dynamic filters: which columns they take, and whether they want any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipstone.ir.session import Session

if TYPE_CHECKING:
    import pyarrow as pa


class DynamicTable:
    """A table whose plans can be filtered by joins.

    Attributes:
        dynamic_filtering: Whether they are; None: as the environment variable SKIPSTONE_DYNAMIC_FILTERING says, else they are.
    """

    schema: pa.Schema
    dynamic_filtering: bool | None = None

    def accepted_filter_fields(
        self, candidates: Sequence[str], case_sensitive: bool = False
    ) -> list[str]:
        """Those of some columns that a dynamic filter may be compared with: columns whose values have an order, partition columns or not.

        Args:
            candidates: Names; a struct's field is `a.b`.
            case_sensitive: Whether names must match in case.

        Source: Flink FLIP-248, `SupportsDynamicFiltering.listAcceptedFilterFields`, which takes partition columns only.
        """
        from skipstone.bindings.filters.scan import accepted

        return accepted(self.schema, candidates, Session(case_sensitive=case_sensitive))
