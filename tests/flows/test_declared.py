"""`das tda` with `--declaration`, and the flow `declared`: one charge, the same bytes after a stop."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from declarations import declare_blocks

from flows.frames import read_release
from privacy.accounting.composition import read_spend
from privacy.accounting.ledger import Account, Ledger, Request
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.marks import MARK_FILE
from tasks.releases.manifest import read_manifest, release_digest, write_manifest
from tasks.top_down.declared.synth import synthesize_records
from tests.flows.conftest import Das, Refuse

pytestmark = pytest.mark.usefixtures("stages_here")
EXAMPLE = "example-viviendas"
LEVELS = ("pais", "region", "provincia", "comuna", "zona")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Records of the example, marked as made up."""
    made: Path = synthesize_records(EXAMPLE, tmp_path / "records", seed=1)["data"]
    return made


@pytest.fixture
def tda(das: Das, tmp_path: Path) -> Das:
    """Call `das tda ARGUMENTS` on the example; returns exit code, standard output and standard error."""

    def call(command: str, *words: object) -> tuple[int, str, str]:
        return das(
            "tda", command, *words, "--declaration", EXAMPLE, "--workers", 1, "--runs-folder", tmp_path / "state"
        )

    return call


def test_records_become_a_release_that_has_its_own_words(
    tda: Das, das: Das, refused: Refuse, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = tda("validate", records)
    assert (code, out.strip()) == (0, "No findings.")
    code, out, _ = tda("run", records, tmp_path / "out", "--json")
    facts = json.loads(out)
    assert (code, facts["synthetic"], facts["region"]) == (0, True, "declared")
    release = tmp_path / "out/declared"
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["spent"]["relations"][0]["sentence"].startswith("a dwelling replaced by another of its comuna")
    totals = pd.read_csv(release / "comuna.csv", sep="|", dtype=str)
    counts = totals.assign(COUNT=totals["COUNT"].astype(int)).groupby(["region", "provincia", "comuna"])["COUNT"].sum()
    declared = pd.read_csv(Path("spine/declaration/shipped/example-comunas.csv"), dtype=str)
    assert counts.to_dict() == {tuple(row[:3]): int(row[3]) for row in declared.itertuples(index=False)}
    every, one = read_release(release), read_release(release, "comuna")
    assert list(every.level.unique()) == [*LEVELS]
    assert (set(one.level), one["count"].sum()) == ({"comuna"}, every[every.level == "comuna"]["count"].sum())
    _, shown, _ = das("show", release, "--table", "cells-comuna", "--json")
    assert "Without noise, because declared: the number of dwellings of every comuna" in json.loads(shown)["reading"]
    assert "Every other count has noise." in json.loads(shown)["reading"]
    page = das("show", release, "--region", "111")[1]
    assert ("Comuna 111" in page, "371" in page) == (True, True), page
    assert das("tda", "estimate", release, tmp_path / "again", "--workers", 1)[0] == 0
    assert (tmp_path / "again/declared/zona.csv").read_bytes() == (release / "zona.csv").read_bytes()
    assert das("check", tmp_path / "again/declared")[0] == 0
    refused("das tda estimate alone reads them", "tda", "import", release, tmp_path / "more")

    def stops(_source: object, _workers: object, staged: Path) -> None:
        staged.mkdir(parents=True)
        (staged / "zona.csv").touch()
        raise Refused("the disk is full")

    monkeypatch.setattr("tasks.top_down.declared.release.write_release", stops)
    refused("the disk is full", "tda", "estimate", release, tmp_path / "half", "--workers", 1)
    assert not (tmp_path / "half").exists()
    page = (release / "report.html").read_text()
    for words in ("comuna", "ocupacion", "dwellings", "epsilon 10", "exact: declared"):
        assert words in page
    assert "persons" not in page.replace("What is true\nof many persons", "")


@pytest.mark.ci
def test_estimates_over_the_tree_of_the_example_country_are_made_again_from_their_measurements(
    das: Das, tmp_path: Path
) -> None:
    records = synthesize_records("example-districts", tmp_path / "records", seed=1)["data"]
    words = (
        "--declaration",
        "example-districts",
        "--estimator",
        "gls",
        "--workers",
        1,
        "--runs-folder",
        tmp_path / "state",
    )
    assert das("tda", "run", records, tmp_path / "out", *words)[0] == 0
    release = tmp_path / "out/declared"
    assert das("check", release)[0] == 0
    assert das("tda", "estimate", release, tmp_path / "again", "--workers", 1)[0] == 0
    for name in ("zone.csv", "margins/zone.parquet"):
        assert (tmp_path / "again/declared" / name).read_bytes() == (release / name).read_bytes()


def test_explain_rounds_an_upper_bound_up(das: Das, tmp_path: Path) -> None:
    text = Path("spine/declaration/shipped/example-districts.toml").read_text(encoding="utf-8")
    for table in Path("spine/declaration/shipped").glob("*.csv"):
        shutil.copy(table, tmp_path)
    (tmp_path / "own.toml").write_text(text.replace('budget = "2"', 'budget = "1"'))
    assert "rho 1, epsilon 10.035 at delta 1e-10" in das("tda", "explain", tmp_path / "own.toml")[1]  # 10.03434


def test_options_of_the_redistricting_data_and_records_of_another_table_are_refused(
    tda: Das, refused: Refuse, records: Path, tmp_path: Path
) -> None:
    code, _, err = tda("run", records, tmp_path / "out", "--spine", "aian")
    assert (code, "a declaration says it" in " ".join(err.replace("│", "").split())) == (2, True)
    state = ("--runs-folder", tmp_path / "state")
    refused(
        "P02",
        "tda",
        "run",
        records.parent / MARK_FILE,
        tmp_path / "out",
        "--declaration",
        EXAMPLE,
        *state,
        findings=True,
    )
    refused("no declaration is shipped as", "tda", "explain", "example-nobody")
    for name in ("dhc-persons-us", "dhc-households-pr"):
        refused("das tda declare DATA OUT --redistricting RELEASE writes both", "tda", "explain", name)
    refused("das tda declare DATA OUT writes both", "tda", "explain", "pl94-units-us")


def test_the_truth_and_the_pages_of_a_declaration(tda: Das, das: Das, records: Path, tmp_path: Path) -> None:
    assert tda("truth", records, tmp_path / "truth")[0] == 0
    release = tmp_path / "truth/declared"
    table = pd.read_csv(release / "pais.csv", sep="|", dtype={"COUNT": int})
    exact = pd.read_csv(records, dtype=str).groupby(["P02", "P03A", "P03B"]).size()
    assert sorted(table["COUNT"]) == sorted(exact)
    assert das("show", release, "--export", tmp_path / "pages")[0] == 0
    page = (tmp_path / "pages/table-cells-comuna.html").read_text()
    for words in ("Dwellings by comuna", 'con moradores <span class="code">1</span>', EXAMPLE):
        assert words in page
    assert '98 <span class="code">98</span>' not in page


def test_a_release_of_blocks_names_the_states_that_were_charged(das: Das, tmp_path: Path) -> None:
    """So that a ledger that charged others is found."""
    declaration, header = declare_blocks(tmp_path, "31", "46"), ",".join(BLOCK_COLUMNS)
    (tmp_path / "records.csv").write_text(f"{header},SEX\n" + "31,001,000100,1001,1\n" * 5)
    book = Ledger(tmp_path / "ledger.sqlite")
    book.open_account(Account("census", "zcdp", Fraction(2)))
    words = ("--declaration", declaration, "--account", "census", "--ledger", book.path, "--workers", 1)
    words = (*words, "--runs-folder", tmp_path / "state")
    assert das("tda", "run", tmp_path / "records.csv", tmp_path / "out", *words)[0] == 0
    release = tmp_path / "out/declared"
    manifest = read_manifest(release)
    assert manifest["states"] == ["31", "46"] == [*book.spent("census")]
    assert das("check", release)[0] == das("ledger", "check", release, "--ledger", book.path)[0] == 0
    other = Ledger(tmp_path / "other.sqlite")
    other.open_account(Account("census", "zcdp", Fraction(2)))
    spend = read_spend(manifest["spent"])
    row = other.reserve(Request(manifest["run"], "census", ("46",), spend, "1" * 64, "2" * 64, 1, ()), lambda: "3" * 64)
    write_manifest(release, manifest | {"journal": row.journal})
    other.seal(manifest["run"], release_digest(release))
    other.release(manifest["run"], release_digest(release))
    code, out, _ = das("ledger", "check", release, "--ledger", other.path)
    assert (code, "its states are not the row's" in out) == (1, True)
    write_manifest(release, read_manifest(release) | {"states": ["46"]})
    assert "states has 1 entries, not 2" in das("check", release, "--json")[1]
