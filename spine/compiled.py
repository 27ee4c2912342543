"""How kernels are compiled: cached on disk, and without any reordering or fusing of floating-point operations.

numba's default keeps IEEE arithmetic operation by operation, so vectorized loops give the same bits on every CPU; sums
that should be fast are written as four interleaved sums, in the source and not by the compiler's leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:

    def compiled(function: F) -> F:
        """Compile a kernel at its first call, and cache it."""
        return function
else:
    from numba import njit

    compiled = njit(cache=True, error_model="numpy", boundscheck=False)

__all__ = ["cast", "compiled"]
