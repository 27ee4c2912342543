"""A census with Prefect and Dask: killed in its second product it goes on; every input is checked before a charge."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import dhca_inputs
import dhcb_inputs
import pytest
from dhc_chain import check_chain, synthesize
from dhca_inputs import mark_synthetic
from e2e_runs import das, das_process, digest, hold

from flows import census as census_flow
from flows.execution.census_plan import CensusSettings, read_census
from flows.execution.settings import keep_settings
from privacy.accounting.ledger import Account, Ledger
from privacy.noise.randomness import RunSecret
from tasks.errors import Refused
from tasks.lifecycle.run_directory import locked
from tasks.records.marks import MARK_FILE
from tests.conftest import UNTIDY
from tests.e2e.test_interrupted import STOP
from tests.systems import cases
from tests.systems.in_process import patch_flows

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("no_server")]
PLAN = """
name = "small"
out = "releases"
accounts = { person = "persons", household = "households" }

[[products]]
system = "detailed-dhca"
params = "a/params"
data = "a/data"
spine = false

[[products]]
system = "bottom-up"
table = "t/table.csv"
declaration = "t/declaration.json"
epsilon = "1/2"
"""
HOUSEHOLDS = """
[[products]]
system = "detailed-dhcb"
params = "b/params"
data = "b/data"
totals = "releases/detailed-dhca"
"""
A, B, T = "small-detailed-dhca-us", "small-detailed-dhcb-us", "small-bottom-up"


class Home:
    """A folder, always at the same path, with two products of the same places, and accounts that can pay."""

    def __init__(self, folder: Path, text: str = PLAN) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        persons = dhca_inputs.Inputs(persons=dhca_inputs.people(60))
        persons.config |= dict.fromkeys(dhca_inputs.BUDGETS[3:], 0)
        persons.write(folder / "a")
        households = dhcb_inputs.HouseholdInputs(totals=[])
        kept = [f"privacy_budget_h_{table}_level_1_usa" for table in ("t3", "t4")]
        households.config |= dict.fromkeys(set(dhcb_inputs.BUDGETS) - {*kept}, 0)
        households.write(folder / "b")
        (folder / "t").mkdir()
        cases.bottom_up(folder / "t")
        (folder / "plan.toml").write_text(text)
        self.out, self.runs = folder / "releases", folder / "state/runs"
        self.ledger = Ledger(folder / "ledger.sqlite")
        self.ledger.open_account(Account("persons", "zcdp", Fraction(100)))
        self.ledger.open_account(Account("households", "zcdp", Fraction(100), "household"))
        self.words = ["census", "run", folder / "plan.toml", "--ledger", self.ledger.path]
        self.words += ["--runs-folder", folder / "state", "--workers", "1"]

    @property
    def settings(self) -> CensusSettings:
        """The settings of the flow."""
        places = {"plan": self.words[2], "ledger": self.ledger.path, "runs_folder": self.runs.parent}
        return CensusSettings(**{name: str(place) for name, place in places.items()})

    def charged(self) -> dict[str, str]:
        """The runs that were charged, with their status."""
        return {row.run: row.status for account in ("persons", "households") for row in self.ledger.rows(account)}

    def left(self) -> list[str]:
        """The runs that have a confidential directory."""
        return sorted(path.name for path in self.runs.glob("[!.]*"))


WAITS = """
import time
from pathlib import Path
import flows.census

def answer(*_):
    Path({asked!r}).touch()
    while not Path({go!r}).exists():
        time.sleep(0.05)
    return True

flows.census.answer = answer
"""


def test_a_census_is_carried_out_by_one_process_and_goes_on_if_that_is_killed_in_its_second_product(
    tmp_path: Path, shared_cluster: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another is refused by name even while the first waits for an answer and holds the lock of no run."""
    home = Home(tmp_path / "home")
    with monkeypatch.context() as patch:  # the same run by itself, under the same secret
        patch.setattr(RunSecret, "generate", classmethod(lambda kind: kind(bytes(range(32)))))
        patch_flows(patch)
        inputs = [home.out.parent / "t" / name for name in ("table.csv", "declaration.json")]
        words = ["bottom-up", "run", *inputs, home.out / "bottom-up", "--epsilon", "1/2", "--account", "persons"]
        assert das(*words, "--run-id", T, *home.words[3:]) == 0
    releases = [home.out / place for place in ("detailed-dhca/us", "bottom-up/bottom-up")]
    expected = digest(releases[1], reservation=False)

    home = Home(tmp_path / "home")
    stop = STOP.format(stage="measure", moment="after", number=int(signal.SIGKILL))
    asked, go = tmp_path / "asked", tmp_path / "go"
    waits = WAITS.format(asked=str(asked), go=str(go))
    process = das_process(*home.words, first=f"{stop}\n{waits}")
    while not asked.exists() and process.poll() is None:
        time.sleep(0.05)
    code, left = das(*home.words), home.left()
    go.touch()
    output, _ = process.communicate(timeout=240)
    assert (code, "census small is in use by another process" in capfd.readouterr().err) == (1, True)
    assert left == sorted([A, T]), "what the other has prepared"
    assert process.returncode == -signal.SIGKILL, output
    assert home.charged() == {A: "released", T: "reserved"}
    assert home.left() == [T]
    assert (home.out / "index.html").read_text().count("not yet released") == 1
    first = digest(releases[0])

    capfd.readouterr()
    assert das(*home.words) == 0
    assert "this run charges" not in capfd.readouterr().err, "what was agreed to before"
    assert digest(releases[0]) == first
    assert digest(releases[1], reservation=False) == expected
    assert home.charged() == {A: "released", T: "released"}
    assert home.left() == []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(*UNTIDY)
    return Home(tmp_path / "home", PLAN.replace("\n[[products]]", f"{HOUSEHOLDS}\n[[products]]", 1))


@pytest.mark.usefixtures("stages_here")
def test_every_input_is_validated_before_the_first_charge(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    cases.faulty("t/table.csv", ",", "COUNTY")(home.out.parent)
    assert das(*home.words) == 1
    out, err = capfd.readouterr()
    assert "products.2 (bottom-up) was refused" in err
    assert cases.CANARY not in out + err
    assert home.charged() == {}
    assert not home.out.exists()
    assert home.left() == [T], "the curator's report"


@pytest.mark.usefixtures("stages_here")
def test_a_product_waits_for_the_release_that_it_reads(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    """A released one is not released again, also if its end was killed, nor with another configuration.

    The question before a second census says what the data was charged.
    """
    assert das(*home.words) == 0
    page = (home.out / "index.html").read_text()
    places = ["detailed-dhca/us", "bottom-up/bottom-up", "detailed-dhcb/us"]
    assert re.findall('href="(.*)/report.html"', page) == places
    manifest = json.loads((home.out / places[2] / "manifest.json").read_text())
    assert A in json.dumps(manifest["totals"])
    released = digest(home.out)
    assert das(*home.words) == 0
    assert digest(home.out) == released
    for product in read_census(home.settings).products:  # what a kill within the end of its run leaves
        for part in product.parts:
            with locked(part.directory):
                keep_settings(part.directory, part)
    assert home.left() == sorted([A, B, T])
    assert das(*home.words) == 0
    assert digest(home.out) == released, "the page too has each product"
    assert home.left() == []
    plan = home.out.parent / "plan.toml"
    plan.write_text(plan.read_text().replace('"1/2"', '"1/3"'))
    assert das(*home.words) == 1
    assert f"run {T} was released with another configuration" in capfd.readouterr().err
    assert home.charged() == dict.fromkeys((A, B, T), "released")
    plan.write_text(plan.read_text().replace('"releases"', '"elsewhere"'))
    assert das(*home.words) == 1
    assert f"run {T} was released, but its release is not at {home.out.parent}/elsewhere" in capfd.readouterr().err
    assert home.left() == []
    plan.write_text(PLAN.replace('"small"', '"again"').replace('"releases"', '"second"'))
    assert das(*home.words) == 0
    said = " ".join(capfd.readouterr().err.split())
    assert f"the data of again-detailed-dhca-us was charged rho 3 by run {A}" in said
    assert f"the data of again-bottom-up was charged rho 0.125 by run {T}" in said


@pytest.mark.usefixtures("stages_here")
def test_a_flow_that_nobody_agrees_to_charges_nothing(home: Home) -> None:
    with pytest.raises(Refused, match="the charges were not agreed to: nothing was charged"):
        census_flow.census(home.settings)
    assert home.charged() == {}
    assert home.left() == []


@pytest.mark.usefixtures("stages_here")
def test_a_refused_census_leaves_a_run_alone_that_another_process_has(
    home: Home, capfd: pytest.CaptureFixture[str]
) -> None:
    other = hold(home.runs / A)
    (home.runs / A / "work").touch()
    assert das(*home.words) == 1
    assert f"run {A} is in use by another process" in capfd.readouterr().err
    assert (home.runs / A / "work").exists()
    assert home.left() == [A]
    assert home.charged() == {}
    other.kill()
    other.join()


OF_PUERTO_RICO = """
name = "pr"
out = "releases"
accounts = {{ person = "persons", household = "households" }}

[[products]]
name = "households"
system = "declared"
data = "{made}/dhc/households.txt"
declaration = "dhc-households-pr.json"

[[products]]
name = "units"
system = "declared"
data = "{made}/dhc/units.txt"
declaration = "dhc-units-pr.json"

[[products]]
name = "persons"
system = "declared"
data = "{made}/dhc/persons.txt"
declaration = "dhc-persons-pr.toml"

[[products]]
name = "redistricting"
system = "top-down"
jurisdiction = "pr"
data = "{made}/tda"
"""


@pytest.mark.slow
def test_the_dhc_of_puerto_rico_is_released_by_a_census(
    tmp_path: Path, shared_cluster: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Declarations name the releases that the census makes; a faulty table of theirs is found before a charge."""
    made, mine = synthesize(tmp_path), tmp_path / "census"
    for name in ("dhc", "tda"):
        (made / name / MARK_FILE).unlink()
    releases = mine / "releases"
    words = ["--redistricting", releases / "redistricting/pr", "--units", releases / "units/declared"]
    assert das("tda", "declare", made / "dhc", mine, *words, "--jurisdiction", "pr") == 0
    (mine / "census.toml").write_text(OF_PUERTO_RICO.format(made=made))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("persons", "zcdp", Fraction(10)))
    ledger.open_account(Account("households", "zcdp", Fraction("7.7005"), "household"))
    words = ["census", "run", mine / "census.toml", "--ledger", ledger.path, "--runs-folder", tmp_path / "state"]

    blocks, households = (mine / "blocks.txt").read_text(), (made / "dhc/households.txt").read_text()
    (mine / "blocks.txt").write_text(blocks.replace("|hu|", "|homes|"))
    assert das(*words) == 1
    assert "no column hu" in capfd.readouterr().err
    (mine / "blocks.txt").write_text(blocks)
    (made / "dhc/households.txt").write_text(households.replace("HHTYPE", "TYPE"))
    assert das(*words) == 1
    assert "no column HHTYPE" in capfd.readouterr().err
    (made / "dhc/households.txt").write_text(households)
    assert ledger.books().runs == {}

    assert das(*words, "--workers", "1") == 0, capfd.readouterr().err
    check_chain(releases / "redistricting/pr", releases / "persons/declared", releases / "households/declared", {"72"})
    assert ledger.books().remaining("households", ["72"])[1] == 0, "both together spend what production did"
    assert {*ledger.spent("persons")} == {*ledger.spent("households")} == {"72"}
    assert das("check", releases / "households/declared") == 0
    assert das("check", releases / "persons/declared") == 0


@pytest.mark.usefixtures("shared_cluster")
def test_a_mark_that_is_gone_when_a_product_runs_is_no_agreement_to_charge_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a product that waits, whose data was marked when the charges were agreed to."""
    persons, _, _ = PLAN.partition('[[products]]\nsystem = "bottom-up"')
    Path(home.settings.plan).write_text(persons + HOUSEHOLDS, encoding="utf-8")
    mark = home.out.parent / "b/data" / MARK_FILE
    mark_synthetic(mark.parent)
    write_page = census_flow.write_page

    def and_remove_the_mark(*about: Any) -> Path:
        mark.unlink(missing_ok=True)
        return write_page(*about)

    monkeypatch.setattr(census_flow, "write_page", and_remove_the_mark)
    assert das(*home.words) == 1
    assert "but what was agreed to is nothing" in capfd.readouterr().err
    assert home.charged() == {A: "released"}
