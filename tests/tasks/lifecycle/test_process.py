"""Compiled kernels are kept with the environment or where the state is, one folder a version of their source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.kernels import FOLDER_VARIABLE
from tasks.lifecycle import process

CODE = """
import sys
from pathlib import Path
sys.prefix = sys.argv[2]  # stands for a virtual environment
from tasks.lifecycle.process import keep_kernels
folder = keep_kernels(Path(sys.argv[1]))
import numpy as np
from spine.top_down.projection import folded
assert folded(np.ones(100)) == 100
print(folder)
"""


@pytest.mark.ci
@pytest.mark.parametrize("virtual", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_kernels_are_cached_with_the_environment_or_below_the_state(virtual: bool, tmp_path: Path) -> None:
    """Those of an installation that may not be written, as set-up makes them for every user, are copied."""
    state, environment = tmp_path / "state", tmp_path / "environment"
    environment.mkdir()
    command = [sys.executable, "-c", CODE, str(state), str(environment) if virtual else sys.base_prefix]

    def run(first: str = "") -> tuple[Path, int]:
        """The folder, and how many kernels were compiled."""
        command[2] = f"{first}\n{CODE}\nprint(sum(folded.stats.cache_misses.values()))"
        folder, compiled = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return Path(folder), int(compiled)

    made, compiled = run()
    assert made.parent == (environment / process.ENVIRONMENT_FOLDER if virtual else state) / "kernels"
    assert compiled > 0
    if virtual:
        assert run("import os; os.access = lambda *_: False") == (state / "kernels" / made.name, 0)
    else:
        assert run() == (made, 0)


STAGES = """
import sys
import flows.bottom_up, flows.detailed_dhca, flows.detailed_dhcb, flows.s_dhc, flows.top_down
import tasks.top_down.declared.explain, tasks.top_down.declared.in_memory, tasks.top_down.declared.synth
print("spine.compiled" in sys.modules)
"""


@pytest.mark.ci
def test_no_stage_imports_a_kernel_before_their_folder_is_chosen() -> None:
    assert subprocess.run([sys.executable, "-c", STAGES], capture_output=True, text=True).stdout == "False\n"


def test_another_source_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts that holds kernels, or constants that they use; another does not."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    monkeypatch.delitem(sys.modules, "spine.compiled", raising=False)
    monkeypatch.setattr(process, "HOME", tmp_path)
    monkeypatch.setattr(process, "_kernels_version", process._kernels_version.__wrapped__)
    kernel = "from spine.compiled import compiled\nfrom tasks.system.layout import (\n    Field,\n    WIDTH,\n)\n"
    seen = {process.keep_kernels(tmp_path)}
    for name, start, versions in (
        ("spine/compiled.py", "", 2),
        ("spine/room/kernel.py", kernel, 2),
        ("tasks/system/compiled_counts.py", kernel, 2),
        ("tasks/system/layout.py", "", 2),
        ("spine/room/plain.py", "from spine.compiled_not import x\n", 0),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        before = len(seen)
        for source in ("x = 1", "x = 2"):
            (tmp_path / name).write_text(start + source)
            seen.add(process.keep_kernels(tmp_path))
        assert len(seen) - before == versions


def test_every_file_with_kernels_enters_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that numba made of an older source raises where a type of its arguments has another name now."""
    entered: set[Path] = set()
    monkeypatch.setattr(process, "_digest", lambda paths: entered.update(paths) or "")
    process._kernels_version.__wrapped__()
    files = (path for room in ("flows", "privacy", "spine", "tasks") for path in process.HOME.glob(f"{room}/**/*.py"))
    assert {path for path in files if f"\n{process.KERNELS} compiled" in path.read_text("utf-8")} <= entered


def test_too_late_is_said(tmp_path: Path) -> None:
    import spine.compiled  # noqa: F401

    with pytest.raises(RuntimeError, match="before the import"):
        process.keep_kernels(tmp_path)


def test_kernels_stay_where_a_process_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.delitem(sys.modules, "spine.compiled", raising=False)
    monkeypatch.setenv(FOLDER_VARIABLE, "elsewhere")
    process.use_kernels(tmp_path / "first")
    first = os.environ[FOLDER_VARIABLE]
    assert Path(first).is_relative_to(tmp_path / "first")
    process.use_kernels(tmp_path / "second")
    assert os.environ[FOLDER_VARIABLE] == first
