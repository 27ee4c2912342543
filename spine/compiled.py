"""Compilation of kernels: cached on disk, without any reordering or fusing of floating-point operations.

numba by default keeps IEEE arithmetic operation by operation, so vectorized loops give the same bits on every CPU. Sums
that must be fast are written as four interleaved sums in the source, rather than reordered by the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit
from numba.core.registry import cpu_target
from numba.extending import overload

cpu_target.typing_context.refresh()  # what numba loads at the first kernel: processes forked after this import have it
cpu_target.target_context.refresh()

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: Any = {"error_model": "numpy", "boundscheck": False}

if TYPE_CHECKING:

    def compiled(function: F) -> F:
        """Compile a kernel at its first call, and cache it."""
        return function
else:
    compiled = njit(cache=True, nogil=True, **OPTIONS)


def implements(generic: Callable[..., Any], kind: type) -> Callable[[F], F]:
    """Return a decorator: kernels that call `generic` with a `kind` (a NamedTuple) first run the decorated function.

    The function is chosen when a kernel is compiled. A kernel that gets the function as an argument could not be
    cached, because numba identifies a function from another process by its address only.
    """

    def decorate(function: F) -> F:
        def choose(*arguments: Any) -> F | None:
            return function if getattr(arguments[0], "instance_class", None) is kind else None

        choose.__signature__ = signature(function)  # type: ignore[attr-defined]
        overload(generic, jit_options=OPTIONS)(choose)
        return compiled(function)

    return decorate
