"""US and Puerto Rico of one command are charged and released both or not at all, and known by their own persons."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e_runs import ACCOUNT, FEW_LEVELS, das, das_process, digest, open_account, real_data, reconfigure, settings_for

import flows.detailed_dhca
from flows.dry_run import dry_run
from flows.execution import approval, safetab
from flows.execution.settings import load_settings
from flows.prefect_flows import detailed_dhca
from privacy.accounting.ledger import Ledger
from tasks.lifecycle.run_directory import RunDirectory
from tasks.safetab import validation
from tests.conftest import UNTIDY
from tests.systems.in_process import flow

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("shared_cluster", "prefect_server")]
PR, STATE = "72", "TABBLKST"


class Home:
    """A folder with data of both jurisdictions, and an account."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger: Ledger = open_account(folder)

    def run(self, run: str, *words: object, account: str = ACCOUNT, out: str = "") -> int:
        """Run `das run` over both; out: of a folder within OUT."""
        inputs = (self.folder / "params", self.folder / "data", self.folder / f"out-{run}" / out)
        return das("run", *inputs, "--account", account, "--run-id", run, "--no-spine", *self.where, *words)

    def resume(self, run: str) -> int:
        return das("run", "--resume", run, *self.where)

    @property
    def where(self) -> tuple[object, ...]:
        return ("--ledger", self.ledger.path, "--runs-folder", self.folder / "state")

    def released(self, run: str) -> list[str]:
        """The jurisdictions that were released."""
        return sorted(path.parent.name for path in (self.folder / f"out-{run}").rglob("manifest.json"))

    def charged(self) -> list[str]:
        """The runs with a row, in any account."""
        return [row.run for account in self.ledger.accounts() for row in self.ledger.rows(account.name)]

    def directories(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "state/runs").iterdir() if path.is_dir())

    def change(self, of_pr: bool, column: str, value: str, rows: int = 5) -> None:
        """Set a value in the first persons of a jurisdiction."""
        path = self.folder / "data/person-records.txt"
        header, *lines = path.read_text().splitlines()
        names = header.split("|")
        state = names.index(STATE)
        for number, line in enumerate(lines):
            fields = line.split("|")
            if rows and (fields[state] == PR) == of_pr:
                fields[names.index(column)] = value
                lines[number] = "|".join(fields)
                rows -= 1
        path.write_text("\n".join([header, *lines]) + "\n")


@pytest.fixture
def home(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(*UNTIDY)
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", **FEW_LEVELS)
    return Home(tmp_path)


@pytest.mark.parametrize(
    ("bad", "name", "other"), [("us", "US", "PR"), pytest.param("pr", "PR", "US", marks=pytest.mark.ci)]
)
def test_faults_of_one_leave_neither_released_nor_charged(
    home: Home, capfd: pytest.CaptureFixture[str], bad: str, name: str, other: str
) -> None:
    home.change(bad == "pr", "QAGE", "9Q7Z")
    assert home.run("a") == 1
    out, err = capfd.readouterr()
    said = err.replace("\n", " ")
    assert f"refused: {name} was refused: the input does not pass validation" in said
    assert said.rstrip().endswith(f"; so {other} is not released")
    assert out.count("Invalid values found") == 1
    assert "US not released (run a-us)" in out
    assert "PR not released (run a-pr)" in out
    assert "9Q7Z" not in out + err
    assert (home.released("a"), home.charged(), home.directories()) == ([], [], [f"a-{bad}"])


@pytest.mark.ci
def test_one_reading_validates_both_and_each_is_digested_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[Any] = []
    monkeypatch.setattr(validation, "digest_by_workers", lambda *_: again.append(1))
    assert home.run("a") == 0
    assert (home.released("a"), home.charged(), home.directories()) == (["pr", "us"], ["a-us", "a-pr"], [])
    assert again == []


@pytest.mark.ci
def test_persons_are_known_again_when_those_of_the_other_jurisdiction_were_mended(
    home: Home, capfd: pytest.CaptureFixture[str]
) -> None:
    home.change(False, "QAGE", "9Q7Z")
    reconfigure(home.folder / "params", run_us=False)
    assert home.run("a") == 0
    assert (home.released("a"), home.charged()) == (["pr"], ["a-pr"])
    reconfigure(home.folder / "params", run_us=True)
    home.change(False, "QAGE", "40")
    open_account(home.folder, name="other")
    capfd.readouterr()
    assert home.run("b", account="other") == 1
    err = capfd.readouterr().err.replace("\n", " ")
    assert f"refused: run b-pr: this data was charged to another account before, {ACCOUNT}" in err
    assert (home.released("b"), home.charged()) == ([], ["a-pr"])
    assert home.run("c", "--second-account", account="other") == 0
    assert home.charged() == ["a-pr", "c-us", "c-pr"]


def failing(monkeypatch: pytest.MonkeyPatch, stage: str) -> Callable[[], None]:
    """Have a stage that all SafeTabs share fail; returns what mends it."""
    whole = getattr(safetab, stage)

    def fail(run: Any, **_: Any) -> None:
        raise ValueError

    monkeypatch.setattr(safetab, stage, fail)
    return lambda: monkeypatch.setattr(safetab, stage, whole)


def test_a_run_that_stops_before_its_charge_resumes_with_both(
    home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = failing(monkeypatch, "count_population_groups")
    assert home.run("a") == 3
    err = capfd.readouterr().err.replace("\n", " ")
    assert "nothing was charged; nothing is lost; continue with: das run --resume a-pr" in err
    assert (home.charged(), home.directories()) == ([], ["a-pr", "a-us"])
    mend()
    assert home.resume("a-us") == 0
    assert (home.released("a"), home.charged(), home.directories()) == (["pr", "us"], ["a-us", "a-pr"], [])


@pytest.mark.ci
@pytest.mark.parametrize(("fails", "released"), [("a-us", []), ("a-pr", ["us"])])
def test_a_run_that_stops_after_its_charge_resumes_with_what_is_not_released(
    home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fails: str, released: list[str]
) -> None:
    equate = flows.detailed_dhca.equate_coterminous

    def fail(run: Any, **arguments: Any) -> Any:
        if run.id == fails:
            raise ValueError
        return equate(run, **arguments)

    monkeypatch.setattr(flows.detailed_dhca, "equate_coterminous", fail)
    assert home.run("a", out="{date}") == 3
    out, err = capfd.readouterr()
    err = err.replace("\n", " ")
    assert re.findall("(US|PR) released", out) == [name.upper() for name in released]
    assert f"was charged to account {ACCOUNT}; nothing is lost; continue with: das run --resume a-pr" in err
    assert (home.released("a"), home.charged()) == (released, ["a-us", "a-pr"])
    monkeypatch.setattr(flows.detailed_dhca, "equate_coterminous", equate)
    assert home.resume("a-pr") == 0
    assert (home.released("a"), home.charged(), home.directories()) == (["pr", "us"], ["a-us", "a-pr"], [])


@pytest.mark.ci
def test_a_run_whose_runs_folder_goes_away_after_its_charge_is_said_to_be_charged(
    home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its volume, which has the ledger too, is unmounted."""
    reconfigure(home.folder / "params", run_us=False)
    state = home.folder / "state"
    state.mkdir(0o700)
    for file in home.folder.glob("ledger.sqlite*"):
        file.rename(state / file.name)
    home.ledger = Ledger(state / "ledger.sqlite")

    def unmount(_run: Any, **_: Any) -> None:
        state.rename(home.folder / "away")
        raise ValueError

    equate = flows.detailed_dhca.equate_coterminous
    monkeypatch.setattr(flows.detailed_dhca, "equate_coterminous", unmount)
    assert home.run("a") == 3
    err = capfd.readouterr().err.replace("\n", " ")
    assert f" was charged to account {ACCOUNT}, but now there is no ledger {home.ledger.path}; continue" in err
    (home.folder / "away").rename(state)
    monkeypatch.setattr(flows.detailed_dhca, "equate_coterminous", equate)
    assert home.resume("a-pr") == 0
    assert (home.released("a"), home.charged()) == (["pr"], ["a-pr"])


def test_resumed_by_either_part_a_run_is_not_charged_where_the_other_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = failing(monkeypatch, "_validate")
    assert home.run("a") == 3
    mend()
    home.change(False, "QAGE", "9Q7Z")
    assert home.resume("a-pr") == 1
    assert (home.charged(), home.directories()) == ([], ["a-us"])
    assert das("runs", "discard", "a-us", *home.where) == 0
    assert home.directories() == []


def test_without_a_part_that_was_discarded_a_run_goes_on(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    mend = failing(monkeypatch, "count_population_groups")
    assert home.run("a") == 3
    mend()
    assert das("runs", "discard", "a-us", *home.where) == 0
    assert home.resume("a-pr") == 0
    assert (home.released("a"), home.charged(), home.directories()) == (["pr"], ["a-pr"], [])


def test_one_approval_is_asked_for_both(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(*, wait_for_input: Any, **_: Any) -> Any:
        asked.append(wait_for_input._description)
        return wait_for_input(answer="approve", name="A. Curator", reason="as decided")

    monkeypatch.setattr(approval, "suspend_flow_run", answer)
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    settings = settings_for(home.folder, "a-us", both=True, approval=True)
    assert detailed_dhca(settings) == [f"{home.folder}/out/us", f"{home.folder}/out/pr"]
    (question,) = asked
    assert [line for line in question.splitlines() if "release:" in line] == [
        f"* release: {home.folder}/out/us",
        f"* release: {home.folder}/out/pr",
    ]
    approved = [(act["act"], act["run"]) for act in home.ledger.acts()[1:5]]
    assert approved == [("approved", "a-us"), ("approved", "a-pr"), ("reserved", "a-us"), ("reserved", "a-pr")]


def test_an_approval_is_of_one_charge(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run waits for its answer the machine starts again, and config.json asks for more."""
    asked: dict[str, str] = {}
    approved = set[str]()

    class Suspended(BaseException):
        """The process ends."""

    def answer(*, wait_for_input: Any, key: str, **_: Any) -> Any:
        asked[key] = wait_for_input._description
        if key not in approved:
            raise Suspended
        return wait_for_input(answer="approve", name="A. Curator", reason="as decided")

    monkeypatch.setattr(approval, "suspend_flow_run", answer)
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    settings = settings_for(home.folder, "a-pr", approval=True)
    boot = settings.directory / "boot"
    with pytest.raises(Suspended):
        detailed_dhca(settings)
    (first,) = asked
    approved.add(first)
    boot.write_text("another")
    reconfigure(home.folder / "params", privacy_budget_p_level_2_pr_state=50)
    with pytest.raises(Suspended):
        detailed_dhca(settings)
    assert home.charged() == []
    (second,) = asked.keys() - {first}
    assert "rho 1.25," in asked[first]
    assert "rho 50.25," in asked[second]
    approved.add(second)
    assert detailed_dhca(settings) == f"{home.folder}/out/pr"
    assert [str(row.amount) for row in home.ledger.rows(ACCOUNT)] == ["201/4"]


def test_a_dry_run_of_both_says_what_each_would_spend_and_leaves_nothing(home: Home) -> None:
    settings = settings_for(home.folder, "a-us", both=True).model_copy(update={"run_id": None})
    message = dry_run(settings, return_state=True).message
    assert message is not None
    spent = rf"would spend rho [\d.]+, charged to account {ACCOUNT}; its release: {re.escape(str(home.folder))}/out"
    assert re.fullmatch(f"a run of US {spent}/us; a run of PR {spent}/pr; nothing was charged", message)
    assert (home.charged(), home.directories(), home.released("")) == ([], [], [])


KILL = "import os, flows.detailed_dhca as f, tasks.lifecycle.commit as c\n"
KILL += "def kill(*a, **b): os.kill(os.getpid(), 9)\n"
SECOND = """
move, moved = c.move_into_place, []
def second(*places):
    moved.append(places)
    kill() if len(moved) == 2 else move(*places)
c.move_into_place = second
"""


@pytest.mark.ci
def test_a_run_of_both_that_is_killed_gives_one_charge_and_one_release_of_each(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the reservation and between its two releases; undisturbed, the charge has the same bytes."""
    monkeypatch.undo()  # the processes that are killed make tables/
    out, kept = home.folder / "out-a", tmp_path.with_name(f"{tmp_path.name}-kept")
    inputs = (home.folder / "params", home.folder / "data", out)
    begin = ("run", *inputs, "--account", ACCOUNT, "--run-id", "a", "--no-spine", "--workers", 1, *home.where)

    def dies(first: str, *words: object) -> None:
        process = das_process(*words, first=KILL + first)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == -9, output

    dies("f.measure_totals = kill", *begin)
    assert home.charged() == ["a-us", "a-pr"]
    rows = [home.ledger.row(f"a-{name}") for name in ("us", "pr")]
    assert len({row.secret_digest for row in rows if row}) == 2
    shutil.copytree(home.folder, kept)
    dies(SECOND, "run", "--resume", "a-us", *home.where)
    assert [row.status for row in home.ledger.rows(ACCOUNT)] == ["released", "sealed"]
    assert home.resume("a-pr") == 0
    assert (home.released("a"), home.charged(), home.directories()) == (["pr", "us"], ["a-us", "a-pr"], [])
    assert [row.status for row in home.ledger.rows(ACCOUNT)] == ["released", "released"]
    released = digest(out)
    shutil.rmtree(home.folder)
    shutil.copytree(kept, home.folder)
    settings = load_settings(RunDirectory(home.folder / "state/runs/a-us"))
    assert settings is not None
    assert flow(settings) == [str(out / "us"), str(out / "pr")]
    assert digest(out) == released
