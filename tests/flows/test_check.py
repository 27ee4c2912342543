"""`das check`: a release that is what it says passes, and whatever was changed in one is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.commands.check import check
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST, read_manifest, write_manifest
from tests.flows.conftest import Das, processor_seconds


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


HOSTILE = ("1e999999999", "1/0", "9" * 990, "1/" + "9" * 990, "-1", "nan", "../../x", "x" * 5000, float("nan"), 1e999)
HOSTILE = (*HOSTILE, -1, 10**30, None, [], {}, [[]], True, "", {"decimal": 1})


def leaves(told: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of a manifest stands, less those that only others of their kind stand beside."""
    below = told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else []
    for name, value in list(below)[: 1 if path and path[-1] in ("levels", "files", "noise") else None]:
        yield (*path, name)
        yield from leaves(value, (*path, name))


def hold(release: Path, path: tuple[Any, ...], value: Any) -> None:
    """Check a release with one value of its manifest changed: it is refused in a line, or found, or does not matter."""
    manifest = read_manifest(release)
    told = manifest
    for name in path[:-1]:
        told = told[name]
    told[path[-1]] = value
    whole = (release / MANIFEST).read_bytes()
    (release / MANIFEST).write_text(json.dumps(manifest))
    try:
        with redirect_stdout(StringIO()), processor_seconds(20, (path, value)):
            check(release, as_json=True)
        said = ""
    except Refused as refused:
        said = str(refused)
    finally:
        (release / MANIFEST).write_bytes(whole)
    assert "\n" not in said, (path, value)


def test_a_value_that_nobody_means_is_refused_or_found(release: Path) -> None:
    all_of = list(leaves(read_manifest(release)))
    for number, path in enumerate(all_of[:: len(all_of) // 5]):
        hold(release, path, HOSTILE[number % len(HOSTILE)])
    level = next(iter(read_manifest(release)["levels"]))
    hold(release, ("levels", level, "queries", "stage_2", "budget"), "1e999999999")
    hold(release, ("levels", level, "queries", "total_only", "budget"), "1/" + "9" * 990)


@pytest.mark.long
@pytest.mark.parametrize("system", ["released", "top_down_released", "histogram"])
def test_every_value_of_a_manifest(request: pytest.FixtureRequest, tmp_path: Path, system: str) -> None:
    release = Path(shutil.copytree(request.getfixturevalue(system), tmp_path / "copy"))
    for number, path in enumerate(leaves(read_manifest(release))):
        hold(release, path, HOSTILE[number % len(HOSTILE)])


def test_a_table_that_is_none_is_refused_in_a_line(das: Das, release: Path) -> None:
    """Its digest may be right in a manifest that was made for it."""
    path = next((release / "parquet/t1").iterdir())
    for content in (b"", path.read_bytes()[:-1]):
        path.write_bytes(content)
        rewrite(release)
        code, _, err = das("check", release)
        (line,) = err.strip().splitlines()
        assert code == 1
        assert "is no manifest of a release" in line
