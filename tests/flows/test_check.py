"""`das check`: a release that is what it says passes, and whatever was changed in one is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.commands.check import SYSTEMS
from tasks.lifecycle.manifest import MANIFEST, read_manifest, write_manifest
from tests.flows.conftest import Das


@pytest.fixture
def release(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "release"))


def rewrite(release: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Write the manifest anew over the files as they are now, as a forger would."""
    manifest = read_manifest(release)
    del manifest["files"]
    change(manifest)
    (release / MANIFEST).unlink()
    write_manifest(release, manifest)


def faults(das: Das, release: Path) -> list[str]:
    """What is found, after `das check` has left as it must."""
    code, out, _ = das("check", release, "--json")
    told = [fault for each in json.loads(out)["checks"] for fault in each["faults"]]
    assert code == bool(told)
    return told


def with_column(path: Path, name: str, change: Callable[[int], int]) -> None:
    table = pq.read_table(path)
    at = table.column_names.index(name)
    values = table[name].to_pylist()
    values[0] = change(values[0])
    pq.write_table(table.set_column(at, table.field(at), pa.array(values, table.field(at).type)), path)


def test_a_release_is_what_its_manifest_says(das: Das, release: Path) -> None:
    assert faults(das, release) == []


def test_a_changed_a_missing_and_a_foreign_file_are_named(das: Das, release: Path) -> None:
    first, other, *_ = sorted((release / "t1").iterdir())
    first.write_text(first.read_text() + "\n")
    other.unlink()
    (release / "more").write_text("")
    expected = {f"t1/{first.name} was changed", f"t1/{other.name} is missing", "more is not of this release"}
    assert set(faults(das, release)) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told["spent"]["bounded"].update(epsilon_at_delta=1.0), "epsilon is"),
        (lambda told: told["spent"]["unbounded"].update(decimal=0.1), "is not 0.1"),
        (lambda told: next(iter(told["levels"].values())).update(stability=1), "stage_2: "),
        (lambda told: next(iter(told["levels"].values()))["groups_published"].update(age23=999), "it is {"),
    ],
)
def test_what_a_forged_manifest_says_is_computed_again(
    das: Das, release: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    rewrite(release, change)
    assert any(said in fault for fault in faults(das, release))


@pytest.mark.parametrize(("table", "column"), [("t1", "COUNT"), ("t2", "COUNT"), ("t1", "MOE"), ("t2", "MOE")])
def test_a_forged_count_or_margin_is_found(das: Das, release: Path, table: str, column: str) -> None:
    path = next(path for path in sorted((release / "parquet" / table).iterdir()) if pq.read_metadata(path).num_rows)
    with_column(path, column, lambda value: value + 1)
    rewrite(release)
    assert faults(das, release)


def test_what_is_no_release_is_refused(das: Das, tmp_path: Path) -> None:
    code, _, err = das("check", tmp_path)
    assert code == 1
    assert "holds no manifest.json" in err
    for text in ("[]", "{", '{"files": {}}', '{"files": {}, "spent": null, "release": "x"}'):
        (tmp_path / MANIFEST).write_text(text)
        code, _, err = das("check", tmp_path)
        assert code == 1, text
        assert "is no manifest of a release" in err


def test_every_kind_of_release_has_its_checks() -> None:
    from tasks.bottom_up import release as bottom_up
    from tasks.detailed_dhca import manifest as detailed
    from tasks.top_down import manifest as top_down

    sources = [Path(module.__file__).read_text() for module in (bottom_up, detailed, top_down) if module.__file__]
    for name in SYSTEMS:
        assert any(f'"release": "{name}"' in source for source in sources)
