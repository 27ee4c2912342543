"""The environment of a run's process: its code, its libraries, its compiled kernels; and no core dumps.

Two checkouts of one version may have different code, so a digest of the sources identifies the code.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import tasks
from tasks.errors import Failed, Refused
from tasks.kernels import FOLDER_VARIABLE, kernels_loaded
from tasks.lifecycle.private_folder import check_private, is_as_safe_as, make_private

HOME = Path(tasks.__file__).resolve().parents[1]  # from the package, so that this file may move
PACKAGES = ("flows", "tasks", "privacy", "spine")
DEPLOYMENT = HOME / "flows/deploy"  # in a checkout a link
ENVIRONMENT_FOLDER = "share/das-flows"  # below a virtual environment
KERNELS = "from spine.compiled import"  # appears in every file with kernels
CONSTANTS = re.compile(r"^from ((?:spine|tasks)\.\S+) import (?:\([^)]*|.*)\b[A-Z][A-Z0-9_]+\b", re.M)
PR_SET_PDEATHSIG = 1  # prctl(2)


@cache
def code_digest() -> str:
    """Return the SHA-256 over the names and SHA-256s of the packages' .py files, computed once per process.

    Those of deploy/ are left out: only a wheel has them among its packages.

    Raises Failed if a package has no files: the digest of nothing would be the same in every version.
    """
    files: list[Path] = []
    for package in PACKAGES:
        sources = [path for path in (HOME / package).rglob("*.py") if DEPLOYMENT not in path.parents]
        if not sources:
            raise Failed(f"the package {package} has no source files in {HOME}: install das-flows from its own files")
        files += sources
    return _digest(files)


def _digest(files: Iterable[Path]) -> str:
    named = sorted((path.relative_to(HOME), path) for path in files)
    listed = "".join(f"{sha256(path.read_bytes()).hexdigest()}  {name.as_posix()}\n" for name, path in named)
    return sha256(listed.encode()).hexdigest()


@cache
def code_names() -> dict[str, str]:
    """Return names for this code: its version, `code_digest`, and a checkout's git commit, with `-dirty` if changed.

    Raises Failed as `code_digest` does.
    """
    names = {"version": version("das-flows"), "digest": code_digest()}
    return names | ({"commit": commit} if (commit := _commit()) else {})


def _commit() -> str:
    """Return the git commit of this checkout; empty for an installed package, or if git fails."""
    if not (HOME / ".git").exists():
        return ""
    git = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(git, cwd=HOME, capture_output=True, text=True, check=True, timeout=10, env=clean)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and LIBRARIES as this process first found them."""
    from tasks.releases.manifest import LIBRARIES  # numpy with it, which not every process wants

    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def no_core_dumps() -> None:
    """Forbid core dumps of this process and of its children: their memory holds persons and the run's secret.

    The kernel then writes none. The limit does not bind a handler to which it pipes dumps (core(5)): systemd-coredump
    respects it; other handlers may not, and must be switched off where real data is processed (docs/privacy.md).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def end_with_parent(number: int) -> None:
    """Make the kernel send this process a signal when its parent process ends, for any reason."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def cache_folders(name: str, state: Path) -> list[Path]:
    """Return the folders of a cache, in the installation and below `state`, that no other user can have changed.

    numba's cache is code: numba unpickles its index and runs the functions that this names.
    """
    folders, environment = list[Path](), Path(sys.prefix)
    installed = environment / ENVIRONMENT_FOLDER / name  # may not exist yet; shared by all users of the environment
    if sys.prefix != sys.base_prefix and is_as_safe_as(environment, installed):
        folders.append(installed)
    with suppress(Refused):
        check_private(state, may_be_link=True)
        if is_as_safe_as(state, state / name):
            folders.append(state / name)
    return folders


def keep_kernels(state: Path) -> Path:
    """Set the folder where numba caches the kernels of this process and its children; return it.

    The folder is in the virtual environment, shared by every run from there. If the environment is read-only, or others
    can have changed its kernels, the folder is below `state` and starts as a copy of the environment's: numba does not
    use a folder that it cannot write. numba compares a kernel's cache with the kernel's own file only, not with other
    files whose functions are compiled into it, so each version of the kernels' sources has its own folder. Call this
    before any kernel is imported, because numba reads the setting once; later calls raise RuntimeError. Raises Refused
    if others could have changed the folder below `state`.
    """
    if kernels_loaded():
        raise RuntimeError("keep_kernels comes before the import of spine.compiled")
    name = f"kernels/{_kernels_version()}"
    folder, caches = state / name, cache_folders(name, state)
    installed = next((cache for cache in caches if cache != folder), None)
    if installed and os.access(sys.prefix, os.W_OK):
        folder = installed
    else:
        with suppress(OSError):
            make_private(state, may_be_link=True)
        if folder not in caches:
            raise Refused(f"another user could have changed the compiled kernels in {folder}: remove that folder")
        if installed and not folder.exists():
            from tasks.lifecycle.files import atomic_path  # numpy with it, which not every process wants

            with suppress(OSError), atomic_path(folder) as copy:
                shutil.copytree(installed, copy)
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder


def use_kernels(state: Path) -> None:
    """Call `keep_kernels`, unless this process or its parent has: for stages, before they import kernels."""
    if not kernels_loaded() and Path(os.environ.get(FOLDER_VARIABLE, "")).name != _kernels_version():
        keep_kernels(state)


@cache
def _kernels_version() -> str:
    """Return a short digest of the files with kernels, and of those whose constants are compiled into them.

    Computed once per process, because every piece of work needs it.
    """
    places = ("spine/**/*.py", "tasks/**/compiled_*.py", "tasks/synth/**/*.py")
    sources = {path: path.read_text("utf-8") for place in places for path in HOME.glob(place)}
    kernels = {path: source for path, source in sources.items() if KERNELS in source}
    modules = {"spine.compiled"}.union(*map(CONSTANTS.findall, kernels.values()))
    constants = (HOME / f"{module.replace('.', '/')}.py" for module in modules)
    return _digest({*kernels, *(path for path in constants if path.exists())})[:16]
