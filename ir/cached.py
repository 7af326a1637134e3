"""`cached_property` without a lock.

In Python 3.11, `functools.cached_property` takes one lock for all instances of a class. While one
thread computed a value, all others waited for it, and the child of a fork waited forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """Property that is computed once per instance; two threads may compute it at the same time.

    Source: Python 3.12, `functools.cached_property`, which no longer has a lock.
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
        # Not `setdefault`: `super()` may have stored a value under the same name during the
        # computation.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
