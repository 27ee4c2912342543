"""Where compiled kernels are kept: in the state directory, a folder for each version of their source.

numba caches a kernel beside its own file's time and size, but compiles what it calls into it: after a change in another
file it would go on with the old code. A folder named by the digest of all of them cannot.
"""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from pathlib import Path

import spine
import tasks

SPINE, TASKS = Path(spine.__file__).parent, Path(tasks.__file__).parent
WHERE = "NUMBA_CACHE_DIR"


def keep_kernels(state: Path) -> Path:
    """Make compiled kernels be cached below `state` in this process and those it starts; return the folder.

    Call it before anything imports a kernel: RuntimeError after that, for numba looks once.
    """
    if "spine.compiled" in sys.modules:
        raise RuntimeError("keep_kernels comes before the import of spine.compiled")
    folder = state / "kernels" / version()
    os.environ[WHERE] = str(folder)
    return folder


def use_kernels(state: Path) -> None:
    """Do what `keep_kernels` does, unless this process or its parent has: for stages, before they import any."""
    if "spine.compiled" not in sys.modules and Path(os.environ.get(WHERE, "")).name != version():
        keep_kernels(state)


def version() -> str:
    """Return a short digest of the source of all kernels."""
    sources = sha256()
    for path in sorted([SPINE / "compiled.py", *SPINE.glob("top_down/*.py"), *TASKS.glob("*/compiled_*.py")]):
        sources.update(sha256(path.read_bytes()).digest())
    return sources.hexdigest()[:16]
