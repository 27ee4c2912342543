"""The code that a process runs, and its libraries: two checkouts of one version need not have the same code."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tasks
from tasks.lifecycle.errors import Failed

HOME = Path(tasks.__file__).resolve().parents[1]  # of the package, so that this file may move
PACKAGES = ("flows", "tasks", "privacy", "spine")
LIBRARIES = ("numpy", "scipy", "pyarrow", "python-flint", "cryptography")  # what stages compute and write with


@cache
def code_digest() -> str:
    """Return the SHA-256 over the names and SHA-256s of the packages' .py files, once a process.

    Raises
    ------
    Failed
        where a package has no file: a digest of nothing would be the same in every version.
    """
    files = []
    for package in PACKAGES:
        sources = sorted(path.relative_to(HOME) for path in (HOME / package).rglob("*.py"))
        if not sources:
            raise Failed(f"the package {package} has no source files in {HOME}: install das-flows from its own files")
        files += sources
    files.sort()
    listed = "".join(f"{sha256((HOME / path).read_bytes()).hexdigest()}  {path.as_posix()}\n" for path in files)
    return sha256(listed.encode()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of LIBRARIES that this process found first."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def with_code(code: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker whose code has this digest. Raises Failed on any other."""
    if code_digest() != code:
        raise Failed(
            "a worker runs different code from this process: install the same das-flows everywhere, then resume"
        )
    return function(*arguments)
