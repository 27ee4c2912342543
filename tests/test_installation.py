"""Another package that Python finds before one of das-flows' own is reported in one line, before anything runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DAS = Path(sys.executable).with_name("das")


def foreign(folder: Path, package: str, *, module: bool = False) -> Path:
    """A folder with another package, or module, of that name."""
    place = folder / "foreign"
    file = place / f"{package}.py" if module else place / package / "__init__.py"
    file.parent.mkdir(parents=True)
    file.write_text("def task(): ...\n")
    return place


def start(words: list[str], first: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that looks for packages in the folder `first` first."""
    environment = {**os.environ, "PYTHONPATH": str(first)}
    return subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("package", ["flows", "tasks", "privacy", "spine"])
def test_das_says_which_package_hides_its_own(tmp_path: Path, package: str) -> None:
    ended = start([str(DAS), "--help"], foreign(tmp_path, package), tmp_path)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"refused: Python finds another package named {package} before das-flows' own: ")
    assert f"{tmp_path}/foreign/{package}/__init__.py instead of {ROOT / package}" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_module_or_a_bare_folder_is_told_as_well(tmp_path: Path) -> None:
    ended = start([str(DAS), "--help"], foreign(tmp_path, "spine", module=True), tmp_path)
    assert f"{tmp_path}/foreign/spine.py instead of" in ended.stderr
    (tmp_path / "privacy").mkdir()  # hides a package that is installed with --editable
    ended = start([str(DAS), "--help"], tmp_path, tmp_path)
    assert f"{tmp_path}/privacy instead of" in ended.stderr


def test_das_runs_where_nothing_is_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "taskset.py").touch()
    ended = start([str(DAS), "--help"], tmp_path, tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_an_interrupt_while_modules_are_imported_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    ended = start([str(DAS), "--help"], tmp_path, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_prefect_is_told_when_it_loads_a_flow(tmp_path: Path) -> None:
    """As a worker does with the entrypoint of deploy/prefect.yaml, here from a folder with another `tasks`."""
    entrypoint = f"{ROOT}/flows/prefect_flows.py:detailed_dhca"
    load = f"from prefect.flows import load_flow_from_entrypoint as load; load('{entrypoint}', False)"
    place = foreign(tmp_path, "tasks")
    ended = start([sys.executable, "-c", load], place, place)
    assert ended.returncode != 0
    assert "Python finds another package named tasks before das-flows' own" in ended.stderr


def test_a_container_installs_a_part_of_what_is_tested() -> None:
    """Every version and hash of deploy/requirements.lock is in requirements.lock, and no tool of the tests is there."""
    tested, installed = (
        set(re.split(r"\n(?=\S)", (ROOT / name).read_text().strip()))
        for name in ("requirements.lock", "deploy/requirements.lock")
    )
    assert installed < tested
    names = {entry.partition("==")[0] for entry in installed}
    assert {"pytest", "mypy", "ruff", "moto"} & names == set()
    assert {"prefect", "distributed", "numpy", "setuptools"} <= names
