"""The declarations that come with the program, by name."""

from __future__ import annotations

from pathlib import Path

import spine.declaration
from tasks.lifecycle.errors import Refused

SHIPPED = Path(spine.declaration.__file__).parent / "shipped"


def declarations() -> list[str]:
    """Return the names of the shipped declarations."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_declaration(name: str) -> str:
    """Return the path of a declaration: of a file or URL, or of one that is shipped under this name. Raises Refused."""
    if "/" in name or name.endswith((".toml", ".json")) or Path(name).exists():
        return name
    if name not in declarations():
        raise Refused(f"no declaration is shipped as {name}: give a file, or one of {', '.join(declarations())}")
    return str(SHIPPED / f"{name}.toml")
