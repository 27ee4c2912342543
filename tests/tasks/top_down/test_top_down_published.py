"""An estimate from published measurements alone: the release again, byte by byte; a sentence for what is none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE
from top_down_inputs import begin, country, design, estimated, finish

from tasks.errors import Refused
from tasks.lifecycle.authorization import NoiseSource
from tasks.lifecycle.run_directory import RunDirectory
from tasks.releases.check import Check
from tasks.releases.manifest import released_files
from tasks.top_down.check.redistricting import checks
from tasks.top_down.published.open_published import find_published

pytestmark = pytest.mark.usefixtures("untidy")
CASES = [
    pytest.param(
        "us",
        ("23", "46"),
        {"kind": "optimized", "nation": True, "estimator": "gls", "measurements": "nmf"},
        marks=pytest.mark.ci,
    ),
    ("us", ("46",), {"kind": "optimized"}),
    pytest.param(
        "pr",
        ("72",),
        {"kind": "conventional", "definition": "puredp", "budget": Fraction(20)},
        marks=pytest.mark.slow,
    ),
]


def contents(folder: Path, apart: tuple[str, ...]) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path for path in released_files(folder)}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(apart)}


@pytest.mark.parametrize(("jurisdiction", "states", "options"), CASES)
def test_the_release_comes_out_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jurisdiction: str,
    states: tuple[str, ...],
    options: dict[str, object],
) -> None:
    data = country(tmp_path, states)
    staged = finish(begin(tmp_path / "run", data, design(jurisdiction, **options)), tmp_path / "run")  # type: ignore[arg-type]
    shutil.rmtree(tmp_path / "run/runs")
    geography = Path(shutil.copy(data / "GRF-C.txt", tmp_path))
    shutil.copy(data / "names.csv", tmp_path)
    shutil.rmtree(data)

    def draws(*_: object) -> None:
        raise AssertionError("an estimate draws nothing")

    monkeypatch.setattr(NoiseSource, "noise", draws)
    apart = (
        "manifest.json",
        "report.html",
        "README.txt",
        "datapackage.json",
        "dictionary.csv",
        "measurements/",
        "nmf/",
    )
    of_files = options.get("measurements") == "nmf"
    if of_files:
        (place,) = estimated(tmp_path / "again", staged, geography=geography, estimator="gls")
        apart += ("names.csv", "points.csv")  # these files have no names
    else:
        (place,) = estimated(tmp_path / "again", staged / "measurements")
    assert contents(place, apart) == contents(staged, apart)
    assert not (tmp_path / "again/runs/estimate-0").exists()
    manifest, of_run = (json.loads((folder / "manifest.json").read_text()) for folder in (place, staged))
    assert manifest["spent"] is None
    assert "ESTIMATE" in manifest
    assert "SYNTHETIC" in manifest
    for product, told in manifest["products"].items():
        assert told["solved"] == of_run["products"][product]["solved"]
    if of_files:
        assert (manifest["source"]["measured_by"], manifest["source"]["us_level_used"]) == ("run", True)
        assert "Census Bureau" not in manifest["ESTIMATE"]
        assert manifest["spine"]["digest"] == of_run["spine"]["digest"]
        assert not [check for check in checks(staged, of_run) if check.faults]
        check_layout(staged)
        check_finds_other_numbers(staged, of_run)
    if jurisdiction == "pr":
        (other,) = estimated(tmp_path / "gls", staged, estimator="gls", microdata="text")
        assert (other / "margins/persons/County/72.parquet").exists()
        assert (other / "mdf/72_persons.txt").exists()
        name = "histograms/persons/Tract/72.parquet"
        assert contents(other, apart)[name] != contents(staged, apart)[name]


def check_layout(staged: Path) -> None:
    """One part file a folder; every geounit in Constraint; a scan of both kinds at once, as other readers make it."""
    empty = 0
    for level in sorted(staged.glob("nmf/*/*.parquet")):
        own = staged / "invariants" / ("persons" if "Person" in str(level) else "units") / level.stem
        geounits = {code for path in own.glob("*") for code in pq.read_table(path)["geounit"].to_pylist()}
        parts = [path for path in level.glob("*/*") if path.is_dir()] or list(level.glob("*"))
        for folder in parts:
            files = list(folder.iterdir())
            empty += not files
            assert len(files) == 1 or (not files and folder.parent.name == "DPQuery")
        schema = pq.read_schema(next(level.rglob("Constraint/**/*.parquet")))
        table = pyarrow.dataset.dataset(level, schema, partitioning=None).to_table().to_pandas()
        declared = table[table["sign"].notna()]
        assert set(declared["geocode"]) == geounits
        assert list(map(len, table["value"])) == list(map(np.prod, table["query_shape"]))
        noisy = table[table["sign"].isna()]
        order = (
            noisy["geocode"].str[:3].map({code: at for at, code in enumerate(sorted(set(noisy["geocode"].str[:3])))})
        )
        assert noisy.assign(part=order).sort_values(["part", "geocode"], kind="stable").index.equals(noisy.index)
    assert empty


def check_finds_other_numbers(staged: Path, manifest: dict[str, Any]) -> None:
    """`das check` compares the files with the invariants and the laws."""
    for kind, column, change, fault in (
        (
            "Constraint",
            "value",
            lambda values: [values[0] + 1, *values[1:]],
            "rows of hhgq_total_lb are not what is declared",
        ),
        ("DPQuery", "variance", lambda variance: variance * 1.5, "answers have a law that is not in the manifest"),
    ):
        path = next(staged.glob(f"nmf/US_Person_PL_PROD/County.parquet/{kind}/State=023/*"))
        before = path.read_bytes()
        table = pq.read_table(path, partitioning=None)
        rows = table.to_pylist()
        rows[0][column] = change(rows[0][column])
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
        made = [check for check in checks(staged, manifest) if isinstance(check, Check)]
        found = [line for check in made if check.what == "nmf/ of persons" for line in check.faults]
        assert any(f"level County, state 23: 1 {fault}" in line for line in found), found
        path.write_bytes(before)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    made = design(products=("units",))
    return finish(begin(folder, country(folder, ("46",)), made), folder) / "measurements"


def rewritten(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def change_file(folder: Path) -> None:
        path = folder / f"units/{name}/46.parquet"
        pq.write_table(change(pq.read_table(path)), path)

    return change_file


def described(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def change_file(folder: Path) -> None:
        told = json.loads((folder / "design.json").read_text())
        change(told)
        (folder / "design.json").write_text(json.dumps(told))

    return change_file


def with_blocks(name: str, of: Callable[[pa.ChunkedArray], pa.Array]) -> Callable[[Path], None]:
    def change_file(folder: Path) -> None:
        table = pq.read_table(folder / "blocks/46.parquet")
        changed = table.set_column(table.column_names.index(name), name, of(table[name]))
        pq.write_table(changed, folder / "blocks/46.parquet")

    return change_file


def asks(told: dict[str, Any], queries: dict[str, str]) -> None:
    told["allocations"]["units"]["queries"]["Tract"] = queries


def with_column(name: str, of: Callable[[pa.Table], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, of(table))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def moved(folder: Path) -> Path:
    """Move a folder aside, as `elsewhere` in the measurements; returns where it was."""
    folder.rename(folder.parents[1] / "elsewhere")
    return folder


BAD = {
    "holds no noisy measurements": lambda folder: (folder / "design.json").unlink(),
    "design.json is not JSON": lambda f: (f / "design.json").write_text("{"),
    r"no measurements of a TopDown release \(KeyError": described(lambda told: told.pop("settings")),
    "does not say who measured": described(lambda told: told.update(source={"us_level_used": False})),
    "no state": described(lambda told: told.update(states=[])),
    "without a declared total of at least its facilities": described(lambda told: told.update(state_totals={"46": 1})),
    "design.json: estimator: not one of gls, topdown": described(lambda told: told.update(estimator="other")),
    r"products: not one of persons, units": described(lambda told: told.update(products=["houses"])),
    "not sorted codes of jurisdiction pr": described(lambda told: told.update(region="pr")),
    "another product, jurisdiction or levels": described(lambda told: told["settings"]["units"].update(region="pr")),
    "units are of another product, jurisdiction": described(lambda t: t["settings"]["units"].update(levels=["US"])),
    "products are units, units, each once": described(lambda told: told.update(products=["units", "units"])),
    "settings: fanout_cutoff: no int": described(lambda told: told["settings"]["units"].update(fanout_cutoff="12")),
    "is not for the levels": described(
        lambda told: told["allocations"]["units"].update(levels={"US": "1/2", "State": "1/2"})
    ),
    "must ask the query detailed": described(lambda told: asks(told, {"total": "1"})),
    "the axes are h1": described(lambda told: asks(told, {"detailed": "1/2", "age": "1/2"})),
    "settings: definition: not one of puredp, zcdp": described(
        lambda told: told["settings"]["units"].update(mechanism="pure")
    ),
    "allocations: definition: not one of": described(
        lambda told: told["allocations"]["units"].update(mechanism="none")
    ),
    "puredp and zcdp in one run": described(lambda told: told["allocations"]["units"].update(mechanism="puredp")),
    "a block has no living quarters": with_blocks("hu", lambda old: pa.array([0] * len(old))),
    "a column is not of whole numbers": with_blocks("hu", lambda old: pa.array([float("nan")] * len(old))),
    "not those of state 46, each once": with_blocks("geocode", lambda old: pa.array(old.to_pylist()[::-1])),
    "unknown AIANNH code": with_blocks("aiannh", lambda old: pa.array([9999] * (len(old) - 1) + [4990])),
    "jurisdiction: not one of pr, us": described(lambda told: told.update(region="../../elsewhere")),
    "not sorted codes of jurisdiction us": described(lambda told: told.update(states=["../46"])),
    r"design.json: products: not one of": described(lambda told: told.update(products=["../units"])),
    "allocations: budget: '1e999999999' is not a number": described(
        lambda told: told["allocations"]["units"].update(budget="1e999999999")
    ),
    r"a TopDown release \(OverflowError in design": described(lambda told: told.update(state_totals={"46": 1e999})),
    "design.json is a link, a folder or a device": lambda folder: pipe(folder / "design.json"),
    "design.json has 3,221,225,472 bytes, more than": lambda folder: os.truncate(folder / "design.json", 3 << 30),
    "blocks/46.parquet is a link, a folder": lambda folder: pipe(folder / "blocks/46.parquet"),
    "units/Block/46.parquet is a link, a folder": lambda f: pipe(f / "units/Block/46.parquet"),
    "Block/46.parquet is missing: Block is a link": lambda f: moved(f / "units/Block").symlink_to(f / "elsewhere"),
    "do not give the measured spine": described(lambda told: told.update(kind="conventional", geocodes="conventional")),
    "geocodes of the form None": described(lambda told: told.pop("geocodes")),  # an older release
    r"46.parquet is missing$": lambda folder: (folder / "units/County/46.parquet").unlink(),
    "0 answers to detailed of geounit": rewritten("Tract", lambda table: table.slice(1)),
    "2 answers to detailed of geounit": rewritten("Tract", lambda table: pa.concat_tables([table, table])),
    "with another share": rewritten("Tract", with_column("share", lambda table: pa.array(["1/7"] * len(table)))),
    "with another variance": described(lambda told: told["allocations"]["units"].update(budget="1")),
    "another variance than": rewritten(
        "County", with_column("variance_numerator", lambda table: pa.array(["7"] * len(table)))
    ),
    "which this level does not ask": rewritten(
        "County", with_column("query", lambda table: pa.array(["x"] * len(table)))
    ),
    "not lists of whole numbers": rewritten(
        "Tract", with_column("value", lambda table: pa.array([[0.5, float("nan")]] * len(table)))
    ),
    "an answer is missing": rewritten("Tract", with_column("value", lambda table: pa.array([[1, None]] * len(table)))),
    r"release \(ValueError\)": rewritten("Tract", with_column("share", lambda table: pa.array(["1/0"] * len(table)))),
    "answers to detailed with a value more than 40 standard deviations below 0, or above": rewritten(
        "Tract", with_column("value", lambda table: pa.array([[2**40, 0]] * len(table)))
    ),
    "of another length": rewritten("Block", with_column("value", lambda table: pa.array([[1]] * len(table)))),
    r"\(ValueError": rewritten("Block", with_column("geounit", lambda table: pa.array(["x"] * len(table)))),
    r"\(KeyError": rewritten("Block", lambda table: table.drop_columns(["share"])),
    r"\(ArrowInvalid": lambda folder: (folder / "units/Block/46.parquet").write_bytes(b"PAR1"),
}


@pytest.mark.parametrize("why", BAD)
def test_what_is_no_such_measurement_is_refused_in_a_sentence(tmp_path: Path, measured: Path, why: str) -> None:
    folder = tmp_path / "measurements"
    shutil.copytree(measured, folder)
    BAD[why](folder)
    with pytest.raises(Refused, match=why) as refused:
        estimated(tmp_path, folder)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_measurements_are_read_as_they_were_opened(tmp_path: Path, measured: Path) -> None:
    folder = tmp_path / "measurements"
    shutil.copytree(measured, folder)
    (opened,) = find_published(folder)
    digest = opened.digest("46")
    described(lambda told: told["state_totals"].update({"46": 10**6}))(folder)
    directory = RunDirectory(tmp_path / "runs/estimate")
    directory.create()
    assert opened.read(directory.path, HERE, {}).state("46").totals[46] < 10**6
    (changed,) = find_published(folder)
    assert opened.digest("46") == digest != changed.digest("46")
