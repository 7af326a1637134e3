"""The inputs of a kernel, and the statistics that they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.simplify import TRUE
from skipstone.ir.types import DType
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import Mask, Plane, Todo, Words, unpack
from skipstone.kernels.run.compile_cache import Shape
from skipstone.kernels.run.guard import ChecksummedFile, Guard

if TYPE_CHECKING:
    from skipstone.kernels.gpu.resident import Resident

Key: TypeAlias = Path | Node


class PackedStatistics(Protocol):
    """Statistics of n containers in the form that kernels use."""

    @property
    def files(self) -> Sequence[ChecksummedFile]:
        """The files that hold its arrays."""
        ...

    @property
    def num_containers(self) -> int:
        """The number of containers."""
        ...

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        ...

    def column(self, key: Key, dtype: DType) -> Column:
        """Return packed statistics of a column with its bounds read as `dtype`.

        A call's statistics are derived.
        """
        ...

    def rows_plane(self) -> Plane:
        """Return the plane of containers that may hold rows."""
        ...

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return for each container if its column holds only these axis values.

        Returns:
            true: only these values. false: none of them. null: unknown. None: unknown for all.
        """
        ...


@dataclass
class Launch:
    """The inputs of a kernel.

    Attributes:
        n: The number of containers.
        roots: For each root of the program a node over ARRAY, PARAM, SET and PLANE inputs, or TRUE
            or FALSE.
        arrays: Bounds, each of shape (n,), in host memory or on a device (see `host_twin`).
        planes: Words, each of shape (ceil(n / 64),).
        params: Literals, as NumPy scalars of the type of the array that they are compared with.
        sets: Sorted literals of IN lists.
        guards: Guards of arrays and planes that come from a file; call `verify` before they are
            read.
        files: The files that hold the source's arrays; call `check_files` after they are read.
        resident: The device that holds the statistics; copies of the inputs are cached there.
        host_twin: Makes the same launch in host memory; set if some arrays are only on the device.
        failed: The error that kept the launch in host memory, though its bounds are on the device.
        compiled: The kernel of Numba, once it was found.
        interpreted, unpacked: The kernels of NumPy for bits and for masks, once they were made.
        device_texts: By variant the text of the device's kernel, and the words that one of its
            blocks judges, once they were written.
    """

    n: int
    roots: tuple[Node, ...] = ()
    arrays: list[npt.NDArray[np.generic]] = field(default_factory=list)
    planes: list[Words] = field(default_factory=list)
    params: list[np.generic] = field(default_factory=list)
    sets: list[npt.NDArray[np.generic]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    files: Sequence[ChecksummedFile] = ()
    resident: Resident | None = None
    host_twin: Callable[[], Launch] | None = None
    failed: SkipstoneError | None = None
    compiled: Callable[..., int] | None = None
    interpreted: Callable[..., Any] | None = None
    unpacked: Callable[..., Any] | None = None
    device_texts: dict[str, tuple[str, int]] = field(default_factory=dict)

    @cached_property
    def key(self) -> Shape:
        """The key of the kernel of Numba."""
        return Shape(self.shape)

    @cached_property
    def answers(self) -> tuple[bool | None, ...]:
        """For each root its constant answer, or None if it must be computed."""
        return tuple(r == TRUE if r.op is Op.LITERAL else None for r in self.roots)

    @cached_property
    def plane_bytes(self) -> list[npt.NDArray[np.uint8]]:
        """The planes as bytes of 8 containers each."""
        return [p.view(np.uint8)[: (self.n + 7) >> 3] for p in self.planes]

    @cached_property
    def plane_masks(self) -> list[Mask]:
        """The planes as masks of shape (n,)."""
        return [unpack(p, self.n) for p in self.planes]

    @cached_property
    def scalars(self) -> list[npt.NDArray[np.generic]]:
        """The literals as arrays without dimensions.

        NumPy compares with them in two thirds of the time that it needs for its scalars.
        """
        return [np.asarray(p) for p in self.params]

    @cached_property
    def padded_arrays(self) -> list[npt.NDArray[np.generic]]:
        """The arrays, repeated up to 64 containers if there are fewer."""
        return self.arrays if self.n >= 64 else [np.resize(a, 64) for a in self.arrays]

    @property
    def on_host(self) -> Launch:
        """The same launch with its inputs in host memory."""
        return self if self.host_twin is None else self.host_twin()

    def verify(self, todo: Todo = None) -> None:
        """Verify the inputs that come from files, before a kernel reads them.

        Args:
            todo: The numbers of the words of containers to judge; None means all.

        Raises:
            StatisticsError: a file is damaged where they are read.
        """
        for guard in self.guards:
            guard.verify(todo)

    def check_files(self) -> None:
        """Check the files of the inputs, after a kernel read them.

        Raises:
            StatisticsError: a file was changed.
        """
        for file in self.files:
            file.check()

    @property
    def shape(self) -> tuple[Node, ...]:
        """The key of a kernel's text: operations, input numbers and NumPy types."""
        return self.roots

    @property
    def nbytes(self) -> int:
        """The number of bytes that the kernel must read."""
        return sum(a.nbytes for a in (*self.arrays, *self.planes, *self.sets))


def group_alike(launches: Sequence[Launch]) -> list[list[int]]:
    """Group the numbers of launches that differ only in literals.

    Launches of one group have the same shape, arrays, planes and sets.
    """
    found: dict[Any, list[int]] = {}
    for i, launch in enumerate(launches):
        found.setdefault(
            (launch.shape, *(id(a) for a in (*launch.arrays, *launch.planes, *launch.sets))), []
        ).append(i)
    return list(found.values())
