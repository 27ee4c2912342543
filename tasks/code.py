"""Which das-flows a process runs: two checkouts of one version need not be the same code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tasks.errors import Failed

HOME = Path(__file__).resolve().parents[1]
ROOMS = ("flows", "tasks", "privacy", "spine")


@cache
def code_digest() -> str:
    """SHA-256 over the names and SHA-256s of the package's .py files, once a process."""
    files = sorted(path.relative_to(HOME) for room in ROOMS for path in (HOME / room).rglob("*.py"))
    listed = "".join(f"{sha256((HOME / path).read_bytes()).hexdigest()}  {path.as_posix()}\n" for path in files)
    return sha256(listed.encode()).hexdigest()


def with_code(code: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker whose code has this digest, be it one that came later. Raises Failed in another."""
    if code_digest() != code:
        raise Failed("a worker has another das-flows than this one; give all the same and resume")
    return function(*arguments)
