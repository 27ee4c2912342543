"""Compilation of kernels: cached on disk, without any reordering or fusing of floating-point operations.

numba by default keeps IEEE arithmetic operation by operation, so vectorized loops give the same bits on every CPU. Sums
that must be fast are written as four interleaved sums in the source, rather than reordered by the compiler.

numba optimizes a function that others call, makes machine code of it, which Python could call, and optimizes it once
more in each of its callers. Here a kernel is a `Part` of the kernels that call it, and is optimized only there.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar, cast

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.types import unliteral
from numba.extending import overload

cpu_target.typing_context.refresh()  # what numba loads at the first kernel: processes forked after this import have it
cpu_target.target_context.refresh()

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: Any = {"error_model": "numpy", "boundscheck": False}


class PartLibrary(JITCodeLibrary):
    """The code of a part, linked with that of its own parts: not optimized with it, and not made machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class PartCompiler(Compiler):
    """The compiler of parts, which ends with the code that callers link."""

    def __init__(self, typing: Any, target: Any, _: Any, args: Any, result: Any, flags: Any, locals: Any) -> None:
        library: Any = PartLibrary(target.codegen(), "part")  # type: ignore[no-untyped-call]
        Compiler.__init__(self, typing, target, library, args, result, flags, locals)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True


class Part(CPUDispatcher):
    """A kernel as other kernels call it: numba is given its library in place of the address of machine code."""

    def add_overload(self, cres: Any) -> None:
        """Enter the kernel as compiled for some types."""
        self.overloads[tuple(cres.signature.args)] = cres
        self.targetctx.insert_user_function(cres.library, cres.fndesc, [cres.library])

    def get_overload(self, sig: Any) -> Any:
        """Return what lowering knows the kernel by that was compiled for some types."""
        overload: Any = self.overloads[tuple(sig)]
        return overload.library


class Kernel(CPUDispatcher):
    """A kernel as Python calls it."""

    def __init__(self, function: Any, locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(function, locals, targetoptions)
        self.part = Part(function, None, targetoptions, PartCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the part's signature for some arguments: a literal's type, or each literal would compile it anew."""
        named = {name: unliteral(kind) for name, kind in kws.items()}
        return self.part.get_call_template([unliteral(kind) for kind in args], named)

    def get_overload(self, sig: Any) -> Any:
        """Return what lowering knows the part by."""
        return self.part.get_overload(sig)


def compiled(function: F) -> F:
    """Compile a kernel at its first call, and cache it."""
    kernel: Any = Kernel(function, None, OPTIONS | {"nopython": True, "nogil": True, "no_cfunc_wrapper": True})
    kernel.enable_caching()
    return cast(F, kernel)


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
