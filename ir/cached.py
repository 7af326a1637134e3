"""`cached_property` without a lock: the one of Python 3.11 holds one for all instances of a class.

While one thread computed a value, all others waited for it, and the child of a fork waited forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """A property that is computed once an instance; two threads may compute it at once.

    Source: Python 3.12, `functools.cached_property`, which has no lock any more.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        # Not `setdefault`: a value that `super()` computes on the way has the same name.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
