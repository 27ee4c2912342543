"""The single entry point of das-flows: `das` starts here, and `import das_flows` has the names of docs/api.md.

`flows`, `tasks`, `privacy` and `spine` are short names, and Python imports the first package with such a name. The name
of this module is unique: before it imports any of these packages, it checks that no other package hides it.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
PACKAGES = ("flows", "tasks", "privacy", "spine")
OPEN = ("privacy", "spine", "spine.top_down", "spine.redistricting")  # this module has all their public names
NAMES = {
    "Budget": "flows.budget",
    "BudgetSpent": "flows.budget",
    "read_release": "flows.frames",
    "Refused": "tasks.errors",
    "top_down": "tasks.top_down.declared.in_memory",
}


def check_packages() -> None:
    """Raise ImportError if Python finds another package or module under the name of one of das-flows' packages."""
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None:
            raise ImportError(f"Python does not find {HOME / package}: install das-flows again")
        origin = spec.origin or next(iter(spec.submodule_search_locations or ()))  # a bare folder has no origin
        if Path(origin).resolve() != HOME / package / "__init__.py":
            raise ImportError(
                f"Python finds another package named {package} before das-flows' own: {origin} instead of "
                f"{HOME / package}. Remove it, take its folder from PYTHONPATH, or install das-flows in an environment "
                "of its own."
            )


def __getattr__(name: str) -> Any:
    """Import a name of the API on first access, so that programs load only what they use."""
    if not name.startswith("_"):
        check_packages()
        for module in [NAMES[name]] if name in NAMES else OPEN:
            if name in NAMES or name in import_module(module).__all__:
                return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; docs/api.md lists those that it has")


def __dir__() -> list[str]:
    check_packages()
    return sorted({*NAMES, *(name for module in OPEN for name in import_module(module).__all__)})


def use_utf8() -> None:
    """Restart this process in Python's UTF-8 mode unless file names and text are UTF-8 already.

    Otherwise Python and the libraries encode both by the locale, and a path stored by a run would name another file
    under another locale. The terminal keeps its encoding; characters that it lacks are shown as "?".
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":  # -E and -I ignore the variable
        os.environ["PYTHONUTF8"] = "1"
        if sys.stdout:
            os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    """Run `das`; exit with code 1 and one line if another package hides one of its packages."""
    use_utf8()
    try:
        check_packages()
    except ImportError as error:
        sys.exit(f"refused: {error}")
    from flows import LIBRARIES, importing

    for name, value in LIBRARIES.items():
        os.environ.setdefault(name, value)
    try:
        with importing():
            from flows.cli import main as das
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        das()
    finally:
        if "duckdb" not in sys.modules:  # at exit duckdb counts the remaining objects and prints a long complaint
            gc.freeze()  # the remaining objects end with the process; collecting them takes half a second
