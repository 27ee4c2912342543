"""Annotations as the types that they stand for."""

from __future__ import annotations

from typing import Any, get_args, get_origin


def resolve_alias(kind: Any) -> Any:
    """Return the type that a lazy alias (PEP 695) stands for, with its arguments; any other type unchanged.

    Since numpy 2.5 NDArray is such an alias: the origin of NDArray[Any] is NDArray, not numpy.ndarray.
    """
    while hasattr(alias := get_origin(kind) or kind, "__value__"):
        kind = alias.__value__[arguments] if (arguments := get_args(kind)) else alias.__value__
    return kind
