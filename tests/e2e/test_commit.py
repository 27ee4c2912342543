"""One charge, one release, never a second draw: runs that are killed, retried, changed or refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from dhca_inputs import BUDGETS, HERE, Inputs, configuration, edit, mark_synthetic
from e2e_runs import (
    ACCOUNT,
    at_once,
    bring_in,
    das,
    digest,
    directory,
    go,
    hold,
    killed,
    open_account,
    points_of,
    reconfigure,
    reserve,
    settings_for,
)

from flows.execution.safetab import check as detailed_check
from flows.execution.safetab_settings import DetailedDhcaSettings
from privacy.accounting.ledger import Ledger, LedgerUnusable, Row
from tasks.errors import Failed, Refused
from tasks.lifecycle import commit, reservation
from tasks.lifecycle.authorization import AUTHORIZATION, SECRET, read_secret_digest
from tasks.lifecycle.commit import move_into_place
from tasks.lifecycle.files import stamp
from tasks.lifecycle.staging import staging
from tasks.records.marks import MARK_FILE
from tasks.releases import manifest
from tasks.releases.manifest import release_digest
from tasks.safetab.count import count_population_groups
from tasks.safetab.persons.run import DetailedRun

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("untidy")]
COSTS = 2  # rho of a run of two levels
TWO_LEVELS = dict.fromkeys(BUDGETS, 0) | {BUDGETS[0]: 1, BUDGETS[5]: 1}


class Home:
    """A folder with all of a run, put back to where it was as often as one likes.

    It always lies at the same path, for the paths of the input are part of a run's settings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, folder.parent / f"{folder.name}-kept"
        self.settings = settings_for(folder, "run-us")
        self.run = directory(self.settings)
        self.place = folder / "out/us"
        self.ledger = Ledger(folder / "ledger.sqlite")

    def keep(self) -> None:
        """Remember how it is."""
        shutil.copytree(self.folder, self.kept)

    def put_back(self) -> None:
        """Make it as it was."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)

    def come_to(self, stage: str) -> None:
        """Go as far as before a stage from the beginning: the first time in earnest, then by a copy of all that was."""
        been = self.folder.parent / stage
        if been.exists():
            shutil.rmtree(self.folder)
            shutil.copytree(been, self.folder)
        else:
            self.go(before=stage)
            shutil.copytree(self.folder, been)

    def go(self, before: str | None = None, settings: DetailedDhcaSettings | None = None) -> Path | None:
        """Run or go on."""
        return go(settings or self.settings, HERE, before)

    @property
    def staged(self) -> Path:
        """The release, until it is moved into its place."""
        return staging(self.run, self.place.parent, "us")

    @property
    def row(self) -> Row:
        """The row of the run in the ledger."""
        row = self.ledger.row(self.run.id)
        assert row is not None
        return row

    def seal(self) -> str:
        """Go on until the staged release is sealed; returns its digest."""
        self.go(before="commit")
        self.ledger.seal(self.run.id, release_digest(self.staged))
        return digest(self.staged)

    def charges(self) -> int:
        """How often a run was charged."""
        (spent,) = set(self.ledger.spent(ACCOUNT).values()) or {Fraction(0)}
        assert spent % COSTS == 0
        return int(spent / COSTS)


@pytest.fixture(scope="module")
def same_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each test has its home, one after the other, so that copies of one serve the others."""
    return tmp_path_factory.mktemp("same") / "home"


@pytest.fixture
def home(same_place: Path) -> Iterator[Home]:
    """A run over real data of two levels, with an account and nothing done yet."""
    Inputs(config=configuration(**TWO_LEVELS)).write(same_place)
    open_account(same_place)
    made = Home(same_place)
    yield made
    shutil.rmtree(same_place)
    shutil.rmtree(made.kept, ignore_errors=True)


def test_a_link_planted_once_the_release_is_in_place_keeps_no_secret(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others may write in OUT, the name of the staging folder is free again after the rename."""

    def planted(staged: Path, place: Path) -> None:
        move_into_place(staged, place)
        staged.symlink_to(tmp_path)

    monkeypatch.setattr(commit, "move_into_place", planted)
    home.go()
    assert home.row.status == "released"
    assert not home.run.path.exists()
    assert home.place.is_dir()
    assert home.staged.is_symlink()


@pytest.mark.slow
def test_killed_at_any_step_of_the_reservation_a_run_is_charged_once_and_keeps_its_secret(home: Home) -> None:
    home.go(before="reserve budget")
    home.keep()
    points = points_of(home.folder.parent, reserve, home.settings)
    met = set()
    for point in points:
        home.put_back()
        killed(point, reserve, home.settings)
        row, before = home.ledger.row(home.run.id), read_secret_digest(home.run)
        if row is not None:
            assert row.secret_digest == before, f"a charge without its secret: killed at {point}"
        state = (row is not None, before is not None, (home.run / AUTHORIZATION).exists())
        reserve(home.settings)
        assert home.row.secret_digest == read_secret_digest(home.run)
        assert home.charges() == 1
        assert row in (None, home.row), f"a second secret for a row: killed at {point}"
        if state not in met:
            met.add(state)
            assert home.go() == home.place
            assert home.charges() == 1
    assert met >= {(False, False, False), (False, True, False), (True, True, False)}


@pytest.mark.slow
def test_killed_at_any_step_of_the_commit_a_run_gives_its_one_release(home: Home) -> None:
    home.come_to("commit")
    home.keep()
    points = points_of(home.folder.parent, bring_in, home.settings)
    expected = digest(home.place)
    met = set()
    for point in points:
        home.put_back()
        killed(point, bring_in, home.settings)
        row = home.row
        assert not home.place.exists() or digest(home.place) == expected, f"half a release: killed at {point}"
        assert row.status != "released" or home.place.exists(), f"released, but absent: killed at {point}"
        left = {path.name for path in home.run.path.rglob("*")} if home.run.path.exists() else set()
        assert left <= {"lock"} or "settings.json" in left, f"left, and cannot be resumed: killed at {point}"
        met.add((row.status, home.place.exists(), (home.run / SECRET).exists()))
        assert home.go() == home.place, f"killed at {point}"
        assert digest(home.place) == expected, f"another release: killed at {point}"
        assert home.charges() == 1
        assert [path.name for path in home.place.parent.iterdir()] == ["us"]
        assert not home.run.path.exists()
        assert home.row.status == "released"
    assert met == {
        ("reserved", False, True),
        ("sealed", False, True),
        ("sealed", True, True),
        ("released", True, True),
        ("released", True, False),
    }


def test_a_sealed_release_is_not_written_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry under another version of some library would write other bytes; what was sealed is released."""
    home.come_to("commit")
    expected = home.seal()
    monkeypatch.setattr("tasks.lifecycle.commit.version", lambda library: "another")
    assert home.go() == home.place
    assert digest(home.place) == expected


def test_a_sealed_release_that_was_damaged_is_written_again(home: Home) -> None:
    home.come_to("commit")
    expected = home.seal()
    edit(home.staged / "t1/usa-1.csv", lambda text: text[: len(text) // 2])
    assert home.go() == home.place
    assert digest(home.place) == expected


@pytest.mark.parametrize("missing", [False, True], ids=["changed", "missing"])
def test_a_release_that_is_not_whole_is_never_committed(home: Home, missing: bool) -> None:
    """Its row stays and its secret too, so that it is drawn again, the same."""

    def damage(path: Path) -> None:
        path.unlink() if missing else edit(path, lambda text: text[: len(text) // 2])

    home.come_to("commit")
    expected = digest(home.staged)
    damage(home.staged / "t1/usa-1.csv")
    with pytest.raises(Failed, match="staged release is incomplete"):
        bring_in(home.settings)
    assert home.row.status == "reserved"
    assert home.seal() == expected
    os.rename(home.staged, home.place)
    damage(home.place / "t1/usa-1.csv")
    with pytest.raises(Refused, match="but is not whole: move it away and resume"):
        home.go()
    assert (home.run / SECRET).exists()
    shutil.rmtree(home.place)
    assert home.go() == home.place
    assert digest(home.place) == expected
    damage(home.place / "t1/usa-1.csv")
    with pytest.raises(Refused, match="but is not whole: put back what it made"):
        home.go()


@pytest.mark.parametrize("moved", [False, True], ids=["staged", "at its place"])
def test_a_charged_run_whose_row_is_lost_gives_no_release(
    home: Home, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    home.come_to("commit")
    if moved:
        home.seal()
        os.rename(home.staged, home.place)
    kept = {path: path.read_bytes() for path in (home.ledger.path, home.ledger.journal)}
    lost_row(home, monkeypatch)
    for goes_on in (lambda: bring_in(home.settings), home.go):
        with pytest.raises(Refused, match=r"ledger\.sqlite has no row"):
            goes_on()
        assert home.place.exists() == moved
        assert (home.run / SECRET).exists()
        assert home.ledger.rows(ACCOUNT) == []
    for path, content in kept.items():
        path.write_bytes(content)
    assert home.go() == home.place
    assert home.charges() == 1


def files_of(run: DetailedRun, *folders: str) -> dict[str, tuple[int, int]]:
    """The whole files below these folders of a run; one that is written again has another stamp."""
    paths = [path.relative_to(run.path) for folder in folders for path in (run / folder).rglob("*.*")]
    return {str(path): stamp(run / path) for path in paths if not any(part.startswith(".") for part in path.parts)}


def count(settings: DetailedDhcaSettings) -> None:
    """The population groups, as the flow counts them, one partition per tract."""
    count_population_groups(directory(settings), HERE, settings.jurisdiction, blocks_each=1)


def test_a_run_killed_among_its_partitions_counts_only_the_others(home: Home) -> None:
    home.go(before="population groups")
    home.keep()
    renames = [
        at for at in points_of(home.folder.parent, count, home.settings) if at[0].startswith("replace in files.py")
    ]
    home.put_back()
    killed(renames[len(renames) // 2], count, home.settings)
    done = files_of(home.run, "records", "counts")
    home.go(before="reserve budget")
    after = files_of(home.run, "records", "counts")
    assert after.items() > done.items(), "counted again, or nothing was left to count"
    assert any(name.startswith("counts") for name in done)


def other_version(home: Home, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reservation, "NOISE_SCHEME_VERSION", reservation.NOISE_SCHEME_VERSION + 1)


def other_parameters(home: Home, patch: pytest.MonkeyPatch) -> None:
    reconfigure(home.folder / "params", privacy_budget_p_stage_1_fraction=0.5)


def other_persons(home: Home, patch: pytest.MonkeyPatch) -> None:
    edit(home.folder / "data/person-records.txt", lambda text: text[: text.rindex("\n", 0, -1) + 1])


def other_geography(home: Home, patch: pytest.MonkeyPatch) -> None:
    edit(home.folder / "data/GRF-C.txt", lambda text: text.replace("00900", "00901"))


def lost_secret(home: Home, patch: pytest.MonkeyPatch) -> None:
    (home.run / SECRET).unlink()


def other_secret(home: Home, patch: pytest.MonkeyPatch) -> None:
    (home.run / SECRET).write_bytes(bytes(32))


def lost_row(home: Home, patch: pytest.MonkeyPatch) -> None:
    """The ledger is put back, with its journal, from a backup that is older than the run."""
    lose_ledger(home)
    open_account(home.folder)


def lose_ledger(home: Home) -> None:
    """Nothing is left of the ledger, nor of its journal."""
    home.ledger.path.unlink()
    home.ledger.journal.unlink()


def restored(home: Home, patch: pytest.MonkeyPatch) -> None:
    """The ledger is lost, and made again from its journal."""
    home.ledger.path.unlink()
    home.ledger.restore()


def abandoned(home: Home, patch: pytest.MonkeyPatch) -> None:
    home.ledger.abandon(home.run.id)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (other_version, "another noise scheme"),
        (other_parameters, "parameters of run run-us have changed"),
        (other_persons, "input of run run-us has changed"),
        (other_geography, "input of run run-us has changed"),
        (lost_secret, "secret of run run-us is gone"),
        (other_secret, "secret of run run-us is gone"),
        (lost_row, "was authorized, but the ledger"),
        (restored, "from its journal, which has no digests"),
        (abandoned, "was abandoned"),
    ],
)
def test_a_run_that_is_not_the_one_that_was_reserved_draws_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, change: Callable[[Home, pytest.MonkeyPatch], None], says: str
) -> None:
    home.come_to("totals")
    change(home, monkeypatch)
    secret, rows = read_secret_digest(home.run), home.ledger.rows(ACCOUNT)
    with pytest.raises(Refused, match=says):
        home.go()
    assert (read_secret_digest(home.run), home.ledger.rows(ACCOUNT)) == (secret, rows)
    assert not (home.run / "noisy").exists()
    assert not home.place.parent.exists()


@pytest.mark.parametrize(
    "name", ["coterminous", "params", *(pytest.param(name, marks=pytest.mark.slow) for name in ("account", "out"))]
)
def test_a_run_with_a_secret_keeps_its_settings(home: Home, name: str) -> None:
    home.come_to("totals")
    other = False if name == "coterminous" else str(home.folder / "other")
    resumes = f"das run --resume run-us --runs-folder {home.run.runs_folder}"
    with pytest.raises(Refused, match=f"began with another {name}: continue with {resumes}"):
        home.go(settings=home.settings.model_copy(update={name: other}))
    assert home.go(settings=home.settings.model_copy(update={"blocks_each": 1})) == home.place
    assert home.charges() == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({BUDGETS[0]: float("inf")}, "infinite"),
        ({BUDGETS[0]: 0, BUDGETS[5]: 0}, "no population group level"),
        ({"privacy_defn": "puredp", BUDGETS[0]: 60}, "has too little budget left"),
    ],
)
def test_without_budget_there_is_no_secret(home: Home, changes: dict[str, float], says: str) -> None:
    reconfigure(home.folder / "params", **changes)
    with pytest.raises(Refused, match=says):
        home.go()
    assert not (home.run / SECRET).exists()
    assert home.ledger.rows(ACCOUNT) == []


def test_without_a_ledger_there_is_no_secret(home: Home) -> None:
    lose_ledger(home)
    with pytest.raises(Refused, match="there is no ledger"):
        home.go()
    assert not (home.run / SECRET).exists()
    Path(home.settings.ledger).write_text("not a database, for the disk was full or worse", encoding="utf-8")
    with pytest.raises(Failed, match="cannot be used"):
        home.go()
    assert not (home.run / SECRET).exists()


def test_runs_that_race_for_the_rest_of_an_account_pass_it_never(home: Home) -> None:
    lose_ledger(home)
    open_account(home.folder, total=COSTS * 2 + 1)
    racing = [home.settings.model_copy(update={"run_id": f"run-{number}"}) for number in range(3)]
    for settings in racing:
        home.go(settings=settings, before="reserve budget")
    codes = at_once(reserve, [(settings,) for settings in racing])
    assert sorted(code == 0 for code in codes) == [False, True, True]
    assert home.charges() == 2
    assert [code == 0 for code in codes] == [(directory(settings) / SECRET).exists() for settings in racing]


def test_data_that_was_run_under_a_mark_is_never_drawn_for_again(home: Home) -> None:
    mark = home.folder / "data" / MARK_FILE
    mark_synthetic(mark.parent)
    assert home.go() == home.place
    mark.unlink()
    again = home.settings.model_copy(update={"run_id": "again-us", "out": str(home.folder / "again")})
    with pytest.raises(Refused, match="was run as synthetic or public before"):
        home.go(settings=again)
    assert not (directory(again) / SECRET).exists()
    assert home.charges() == 0


@pytest.mark.parametrize("inside", ["run-us/out", "run-us", ".", "other/../run-us/out"])
def test_no_release_is_made_where_its_run_directory_will_be_removed(home: Home, inside: str) -> None:
    out = home.settings.runs / inside
    with pytest.raises(Refused, match="is among the confidential run directories"):
        home.go(settings=home.settings.model_copy(update={"out": str(out)}))
    assert home.ledger.rows(ACCOUNT) == []


def test_a_released_run_gives_back_its_release(home: Home) -> None:
    home.come_to("commit")
    home.go()
    before = digest(home.place)
    assert home.go() == home.place
    assert digest(home.place) == before
    assert home.charges() == 1
    shutil.rmtree(home.place)
    with pytest.raises(Refused, match="its release is not at"):
        home.go()
    assert home.charges() == 1


@pytest.mark.parametrize(
    ("change", "ended"),
    [
        (other_parameters, True),
        ("coterminous", False),
        ("spine", True),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((other_parameters, False), ("coterminous", True))),
    ],
)
def test_a_released_run_is_not_given_back_for_another_request(
    home: Home, monkeypatch: pytest.MonkeyPatch, change: Callable[[Home, pytest.MonkeyPatch], None] | str, ended: bool
) -> None:
    """For other parameters, or other options where the parameters are the same."""
    home.come_to("commit")
    home.go() if ended else home.seal()
    before = (home.folder / "params/config.json").read_text()
    option = change if isinstance(change, str) else ""
    if not isinstance(change, str):
        change(home, monkeypatch)
    was = getattr(home.settings, option, None)
    asked = home.settings.model_copy(update={option: not was} if option else {})
    with pytest.raises(Refused, match="another configuration"):
        home.go(settings=asked)
    told = [f"{option} {was}, not {not was}"] if option else []
    assert asked.differences(manifest.read_manifest(home.place if ended else home.staged)) == told
    assert home.place.exists() == ended
    assert (home.run / SECRET).exists() != ended
    (home.folder / "params/config.json").write_text(before)
    assert home.go() == home.place
    assert home.charges() == 1


def test_what_has_reached_its_place_is_ended_whoever_asks(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret is left behind for parameters that have changed since."""
    home.come_to("commit")
    home.seal()
    os.rename(home.staged, home.place)
    other_parameters(home, monkeypatch)
    with pytest.raises(Refused, match="another configuration"):
        home.go()
    assert not (home.run / SECRET).exists()
    assert home.row.status == "released"


def test_a_ledger_that_cannot_be_written_when_the_release_is_in_place_is_named(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its disk is read-only by then, also for the run that is resumed."""
    home.come_to("commit")
    home.seal()
    os.rename(home.staged, home.place)

    def readonly(*_: object) -> None:
        raise LedgerUnusable("the ledger cannot be used: attempt to write a readonly database")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "release", readonly)
        with pytest.raises(Failed, match=r"^commit: the ledger cannot be used: attempt to write a readonly database$"):
            home.go()
    assert home.go() == home.place
    assert home.row.status == "released"


@pytest.mark.parametrize("sealed", [False, True], ids=["reserved", "sealed"])
def test_only_what_the_ledger_sealed_is_taken_for_the_release_of_a_charged_run(home: Home, sealed: bool) -> None:
    """A run of the same id in another runs folder has released into the same OUT, or somebody has made it up."""
    home.come_to("commit")
    if sealed:
        home.seal()
    expected = digest(home.staged)
    shutil.copytree(home.staged, home.place)
    edit(home.place / "manifest.json", lambda text: text.replace('"run"', '"made": "up",\n "run"'))
    fault = "is not what the ledger sealed" if sealed else "the ledger has sealed no release of it"
    with pytest.raises(Refused, match=f"has the id of run run-us, but {fault}: move it away and resume"):
        home.go()
    assert home.row.status == ("sealed" if sealed else "reserved")
    with pytest.raises(Refused, match=f"but {fault}: move it away and resume"):
        bring_in(home.settings)
    assert (home.run / SECRET).exists()
    shutil.rmtree(home.place)
    assert home.go() == home.place
    assert digest(home.place) == expected
    assert home.charges() == 1


def test_changed_data_under_the_same_account_is_said_to_the_curator_alone(
    home: Home, prefect_server: None, capfd: pytest.CaptureFixture[str]
) -> None:
    home.go()
    other_persons(home, pytest.MonkeyPatch())
    again = home.settings.model_copy(update={"run_id": "again-us", "out": str(home.folder / "again")})
    home.go(settings=again, before="commit")
    home.ledger.seal("again-us", release_digest(staging(directory(again), Path(again.out), "us")))
    assert das("run", "--resume", "again-us", "--runs-folder", again.runs_folder) == 0
    output, logged = capfd.readouterr()
    assert "warning: the files that run again-us read are not those of run-us, charged to the same account" in output
    assert "is not that of" not in logged
    assert das("ledger", "show", "--ledger", again.ledger) == 0
    rows = [line.split("│") for line in capfd.readouterr().out.splitlines() if "-us" in line and "01 02" in line]
    assert [(row[1].strip(), row[4].strip()) for row in rows] == [("run-us", "1"), ("again-us", "2 changed")]
    released = b"".join(path.read_bytes() for path in (home.folder / "again").rglob("*") if path.is_file())
    assert b"is not that of" not in released


@contextmanager
def worked_on(home: Home) -> Iterator[None]:
    """Another process works on the run."""
    process = hold(home.run.path)
    try:
        yield
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize(
    "gone",
    [("params", "data"), *(pytest.param((name,), marks=pytest.mark.slow) for name in ("params", "data"))],
    ids=" and ".join,
)
def test_a_run_goes_on_from_its_own_copy_when_its_inputs_are_gone(home: Home, gone: tuple[str, ...]) -> None:
    home.come_to("totals")
    for name in gone:
        shutil.rmtree(home.folder / name)
    assert detailed_check(home.settings), "what is checked before a cluster is started"
    assert home.go() == home.place
    assert home.charges() == 1


def finish(settings: DetailedDhcaSettings) -> None:
    """The rest of a run, as far as it comes."""
    go(settings, HERE)


@pytest.mark.parametrize("runs", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_runs_at_once_into_one_place_give_one_release_and_none_is_lost(home: Home, runs: int) -> None:
    racing = [home.settings.model_copy(update={"run_id": f"run-{number}"}) for number in range(runs)]
    for settings in racing:
        home.go(settings=settings, before="commit")
    codes = at_once(finish, [(settings,) for settings in racing])
    assert codes.count(0) == 1
    first = racing[codes.index(0)]
    assert manifest.read_manifest(home.place)["run"] == first.run_id
    status = {row.run: row.status for row in home.ledger.rows(ACCOUNT)}
    assert status.pop(str(first.run_id)) == "released"
    assert set(status.values()) <= {"reserved", "sealed"}
    for settings in racing:
        if settings is not first:
            with pytest.raises((Failed, Refused), match=r"did not make; move it away|is not empty: choose"):
                home.go(settings=settings)
            home.place.rename(home.folder / f"away-{settings.run_id}")
            assert home.go(settings=settings) == home.place
    assert {row.status for row in home.ledger.rows(ACCOUNT)} == {"released"}
    assert home.charges() == len(racing)
    assert [path.name for path in home.place.parent.iterdir()] == ["us"]


def test_two_processes_never_work_on_one_run(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    home.come_to("totals")
    with worked_on(home):
        with pytest.raises(Refused, match="in use by another process"):
            home.go()
        assert das("runs", "discard", home.run.id, "--runs-folder", home.settings.runs_folder) == 1
        assert "in use by another process" in capfd.readouterr().err
    assert home.go() == home.place, "the lock of a process that died holds nobody up"


def test_a_discarded_run_stays_charged(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    home.come_to("commit")
    assert das("runs", "list", "--runs-folder", home.settings.runs_folder) == 0
    assert "detailed-dhca" in capfd.readouterr().out
    assert das("runs", "discard", home.run.id, "--runs-folder", home.settings.runs_folder) == 0
    assert not home.run.path.exists()
    assert list(home.place.parent.iterdir()) == []
    assert home.charges() == 1
    with pytest.raises(Refused, match="was abandoned"):
        home.go()
    assert not (home.run / SECRET).exists()


def test_the_flow_itself_is_refused_what_the_stages_are(home: Home, prefect_server: None) -> None:
    """The flow calls the stages as `go` does: without an account it draws nothing, and a refusal is not retried."""
    from flows.prefect_flows import detailed_dhca  # with Prefect, which the processes that tests start can do without

    with pytest.raises(Refused, match="this data needs an account"):
        detailed_dhca(home.settings.model_copy(update={"account": None}))
    assert not (home.run / SECRET).exists()
