"""Start `das`, once it is sure that no other package hides one of das-flows'. This module's name is das-flows' alone.

`flows`, `tasks`, `privacy` and `spine` are short names, and Python takes the first package of a name that it finds.
"""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

HOME = Path(__file__).resolve().parent
GARBAGE = 20_000  # objects after which Python looks for garbage: its 700 take a fifth of the time of imports
PACKAGES = ("flows", "tasks", "privacy", "spine")


def check_packages() -> None:
    """Raise ImportError where Python finds another package, or a module, by the name of one of das-flows'."""
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


def main() -> None:
    """Run `das`; leave with exit code 1 and one line where another package stands in its way."""
    try:
        check_packages()
    except ImportError as error:
        sys.exit(f"refused: {error}")
    gc.set_threshold(GARBAGE)
    from flows.cli import main as das

    try:
        das()
    finally:
        if "duckdb" not in sys.modules:  # it counts what is left at the end, and complains of it at length
            gc.freeze()  # what is left goes with the process; to look through it once more takes half a second
