"""The contract of a run, for every system: one charge, one release, whatever stops it; refused before it is charged."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from e2e_runs import digest

from flows.execution.settings import RESERVATION
from privacy.accounting.ledger import Account
from privacy.noise.query_noise import QueryNoise
from tasks.errors import Failed, Refused
from tasks.records.files import read_bytes
from tasks.records.marks import MARK_FILE
from tasks.releases.datapackage import Resource, read_package
from tasks.releases.manifest import read_manifest
from tests.conftest import UNTIDY
from tests.systems import in_process
from tests.systems.cases import CANARY, Case
from tests.systems.conftest import Finished, Home, every

Finish = Callable[[Case], Finished]
NewHome = Callable[..., Home]


@every()
def test_a_run_is_charged_once_for_what_its_release_says(finished: Finish, case: Case) -> None:
    """Started again it gives back its release; another run finds no budget."""
    run = finished(case)
    home, manifest = run.home, read_manifest(run.release)
    (row,) = home.rows()
    charged = manifest["spent"]["charged"]
    assert (row.status, row.run) == ("released", manifest["run"])
    assert (row.amount, charged["exact"]) == (Fraction(charged["exact"]), str(row.amount))
    assert row.amount * 2 > Fraction(case.total), "the account can pay a second run"
    assert home.left() == [home.release]
    sentence = manifest["spent"]["relations"][0]["sentence"]
    assert sentence in " ".join(run.ended.err.replace("│", " ").split()), "said before anything is drawn"
    told = "".join(path.read_text(errors="replace") for path in run.release.rglob("*") if path.is_file())
    for secret in (bytes(range(32)).hex(), row.secret_digest, row.input_digest):
        assert secret not in told + run.ended.out + run.ended.err
    before = digest(home.release)
    assert home.run().code == 0
    assert (digest(home.release), home.rows()) == (before, [row])
    again = home.run(run_id="other", out="more")
    assert (again.code, "too little budget left" in again.err) == (1, True)
    assert home.rows() == [row]
    assert not (home.folder / "more").exists()


@every()
@pytest.mark.parametrize("stages", ["drawn", "commit", pytest.param("others", marks=pytest.mark.ci)])
def test_a_run_that_is_killed_in_a_stage_ends_in_one_charge_and_the_same_bytes(
    finished: Finish, case: Case, stages: str
) -> None:
    run = finished(case)
    home, expected = run.home, digest(run.release, reservation=False)
    assert {case.drawn, "commit"} <= run.killed.keys()
    others = [stage for stage in run.killed if stage not in (case.drawn, "commit")]
    for stage in others if stages == "others" else [getattr(case, stages, stages)]:
        home.put_back(run.killed[stage])
        charged = len(home.rows())
        ended = home.resume()
        assert ended.code == 0, f"killed in {stage}: {ended.err}"
        assert "earlier run" not in ended.err  # it is the run itself
        assert digest(home.release, reservation=False) == expected, f"killed in {stage}"
        assert [row.status for row in home.rows()] == ["released"]
        assert home.left() == [home.release]
        if stage != RESERVATION:
            drawn = min([*run.killed].index(each) for each in (case.drawn, "measure") if each in run.killed)
            assert charged == (stage in [*run.killed][drawn:])  # a declaration's answers are written while it estimates


@every(but="other")
def test_a_run_keeps_the_options_that_it_began_with(finished: Finish, case: Case) -> None:
    """It has a secret, which only its owner may read, for one release; and once released it is given for no other."""
    run = finished(case)
    home = run.home
    home.put_back(run.killed[case.drawn])
    assert (home.directory / "secret").stat().st_mode & 0o777 == 0o600
    ended = home.run(more=case.other)
    assert (ended.code, "began with another" in ended.err) == (1, True), ended.err
    assert home.resume().code == 0
    ended = home.run(more=case.other)
    assert f"run {home.rows()[0].run} was released with another configuration" in ended.err
    assert digest(home.release, reservation=False) == digest(run.release, reservation=False)
    assert len(home.rows()) == 1


@every()
def test_a_charged_run_needs_no_record_and_draws_the_same_noise_again(finished: Finish, case: Case) -> None:
    """As after a reboot: what its stages wrote is lost, except the reservation and what was counted before it."""
    run = finished(case)
    home = run.home
    home.put_back(run.killed["commit"])
    shutil.rmtree(home.directory / "noisy", ignore_errors=True)
    for name in case.records:
        (home.folder / name).unlink()
    ended = home.resume()
    assert ended.code == 0, ended.err
    assert digest(home.release) == digest(run.release)


@every()
def test_a_mark_that_was_taken_away_exempts_nothing(
    new_home: NewHome, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when the input was validated, and the run stopped before it drew anything."""

    def stop(stage: str) -> None:
        if stage == RESERVATION:
            raise Failed("stopped")

    home = new_home(case)
    home.mark()
    with monkeypatch.context() as patch:
        patch.setattr(in_process, "before_stage", [stop])
        assert home.run(account=None).code == 3
    (mark,) = home.folder.rglob(MARK_FILE)
    text = mark.read_bytes()
    mark.unlink()
    ended = home.resume()
    assert ended.code == 1
    assert re.search("marked synthetic when it was validated, and is not now|needs an account", ended.err), ended
    assert not (home.directory / "secret").exists()
    mark.write_bytes(text)
    assert home.resume().code == 0
    assert home.rows() == []


# Refused before the charge.


def refused(home: Home, ended: Any, why: str) -> None:
    """A run was refused: exit code 1, one line, no charge, no release, and no value of a record outside."""
    assert ended.code == 1, ended
    line = ended.err.splitlines()[-1]
    assert line.startswith("refused: ")
    assert why in line
    assert CANARY not in ended.out + ended.err
    assert home.rows() == []
    assert not any((home.folder / "out").glob("**/*"))
    assert not any((home.folder / "state").glob("runs/*/secret"))


@every()
def test_a_faulty_record_is_refused_before_the_charge(new_home: NewHome, case: Case) -> None:
    home = new_home(case)
    case.fault(home.folder)
    refused(home, home.run(), "")
    if "validate" not in case.cannot:
        ended = home.das("validate", *home.paths, *home.options, "--runs-folder", home.folder / "validated")
        assert (ended.code, CANARY in ended.out + ended.err) == (1, False)


@every()
def test_a_run_that_cannot_pay_is_refused_before_the_charge(new_home: NewHome, case: Case) -> None:
    home = new_home(case, total="1/1000000")
    refused(home, home.run(), "too little budget left")
    unit = " --unit household" * (case.unit == "household")
    opens = f"needs an account: give --account NAME (das ledger open NAME{unit} --definition {case.definition} --total "
    refused(home, home.run(account=None), opens)
    refused(home, home.run(account="nobody's"), "there is no account nobody's")


@every()
def test_an_output_that_holds_something_is_refused_and_left(new_home: NewHome, case: Case) -> None:
    home = new_home(case)
    path = home.release / "mine.txt"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    ended = home.run()
    assert (ended.code, "is not empty" in ended.err, home.rows()) == (1, True, [])
    assert [each.name for each in (home.folder / "out").rglob("*")] == [case.out, "mine.txt"]


@every()
def test_records_in_another_order_are_data_that_was_charged(finished: Finish, case: Case) -> None:
    home = finished(case).home
    home.put_back(finished(case).killed["commit"])
    (row,) = home.rows()
    for name in case.records:
        header, *lines = (home.folder / name).read_text().splitlines()
        assert lines != lines[::-1]
        (home.folder / name).write_text("\n".join([header, *lines[::-1], ""]))
    home.ledger.open_account(Account("second", case.definition, Fraction(case.total), case.unit))
    again = home.run(account="second", run_id="again", out="more")
    assert (again.code, "charged to another account before, account" in again.err) == (1, True), again.err
    assert (home.ledger.row("again"), home.rows()) == (None, [row])


# What a release depends on.


def tables(release: Path) -> dict[str, Resource]:
    """The tables of a release in Parquet, or in text where that is all, by name; tables/ is made of them."""
    found = read_package(release, read_manifest(release)["files"])
    twins = {one.twin for one in found if one.twin}
    assert twins <= {one.name for one in found}
    return {one.name: one for one in found if not (one.twin or one.is_tidy)}


def rows_of(release: Path, table: Resource) -> pd.DataFrame:
    """All rows of a table; not to be changed."""
    return _rows(release, tuple(path for path, _ in table.files()), table.delimiter if table.is_text else "")


@cache
def _rows(release: Path, paths: tuple[str, ...], delimiter: str) -> pd.DataFrame:
    parts = [
        pd.read_csv(release / path, sep=delimiter, dtype=str, keep_default_na=False)
        if delimiter
        else pq.read_table(release / path).to_pandas()
        for path in paths
    ]
    return pd.concat(parts, ignore_index=True)


@every()
def test_releases_of_neighbours_differ_in_their_counts_alone(finished: Finish, new_home: NewHome, case: Case) -> None:
    """Of two inputs, one record apart, under the same noise: the same files, words, rows and statements."""
    one, other = finished(case), new_home(case, "other")
    case.add(other.folder)
    ended = other.run()
    assert ended.code == 0, ended.err
    home = str(one.home.folder), str(other.folder)
    assert (ended.out.replace(*home[::-1]), ended.err.replace(*home[::-1])) == one.ended[1:]
    stated = [read_manifest(release) for release in (one.release, other.release)]
    assert [*stated[0]["files"]] == [*stated[1]["files"]]
    for manifest in stated:
        for name in ("files", "journal", "solved", "failed"):
            manifest.pop(name, None)
        for product in manifest.get("products", {}).values():  # how its estimates were solved
            del product["solved"], product["failed"]
    assert stated[0] == stated[1]
    found = [tables(release) for release in (one.release, other.release)]
    assert found[0] == found[1]
    counts = 0
    for name, table in found[0].items():
        first, second = (rows_of(release, table) for release in (one.release, other.release))
        assert [*first.columns] == [*second.columns]
        if any(fnmatchcase(name, pattern) for pattern in case.estimated):
            continue
        noisy = [each.name for each in table.columns if each.role in ("count", "estimate") or each.type == "any"]
        pd.testing.assert_frame_equal(first.drop(columns=noisy), second.drop(columns=noisy))
        counts += int((first[noisy].astype(str) != second[noisy].astype(str)).to_numpy().sum())
    assert counts, "the added record is counted nowhere"


@every(but="truth")
def test_a_truth_is_the_release_without_noise(new_home: NewHome, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    home = new_home(case)
    monkeypatch.setattr(*UNTIDY)
    with monkeypatch.context() as patch:
        patch.setattr(QueryNoise, "draw", lambda self, rows, width=1: np.zeros((len(rows), width), np.int64))
        patch.setattr(QueryNoise, "add_to", lambda *_: None)
        patch.setattr(QueryNoise, "draw_run", lambda self, start, stop, asked=None: np.zeros(stop - start, np.int64))
        assert home.run().code == 0
    to = home.folder / "truth"
    ended = home.das("truth", *home.paths, to, *home.options, *home.where)
    assert (ended.code, "only its curator may see its exact counts" in ended.err) == (1, True)
    assert not any(to.glob("*"))
    ended = home.das("truth", *home.paths, to, *home.options, "--i-am-the-curator", *home.where)
    assert (ended.code, "NOT PRIVATE" in ended.err) == (0, True), ended.err
    exact = to / case.out
    assert exact.stat().st_mode & 0o77 == 0
    manifest = read_manifest(exact)
    assert (bool(manifest["spent"]), "NOT_PRIVATE" in manifest, len(home.rows())) == (False, True, 1)
    with pytest.raises(Refused, match="exact counts of confidential records"):  # as the input of any command
        read_bytes(exact / next(iter(manifest["files"])))
    found, same = tables(home.release), 0
    for name, table in tables(exact).items():
        kept = [*table.key, *(each.name for each in table.with_role("count", "estimate", "declared", "name"))]
        first, second = rows_of(exact, table), rows_of(home.release, found[name])
        pd.testing.assert_frame_equal(first[kept], second[kept])
        same += len(first)
    assert same
