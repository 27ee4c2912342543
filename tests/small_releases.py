"""One small release of every system, staged in this process."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import dhca_inputs
import dhcb_inputs
import top_down_inputs
from dhca_inputs import HERE
from s_dhc_households import configuration, country, random_units, write_configuration
from show_release import inputs

from flows.execution.runner import InProcess
from flows.execution.s_dhc_settings import SDhcSettings
from privacy.accounting.ledger import Account, Ledger
from tests.flows.conftest import bottom_up


def detailed_dhca(folder: Path, **options: Any) -> Path:
    """Two states, with the levels of the nation and of states by Regional groups."""
    made = inputs()
    made.config |= dict.fromkeys(dhca_inputs.BUDGETS[3:], 0)
    return dhca_inputs.stage_here(folder, made, **options)[1]


def detailed_dhcb(folder: Path, **options: Any) -> Path:
    """Two states, with the levels of the nation and of counties by Regional groups."""
    made = dhcb_inputs.HouseholdInputs()
    kept = {f"privacy_budget_h_{table}_level_1_{region}" for table in ("t3", "t4") for region in ("usa", "county")}
    made.config |= dict.fromkeys(set(dhcb_inputs.BUDGETS) - kept, 0)
    return dhcb_inputs.stage_here(folder, made, **options)[1]


def s_dhc(folder: Path, **options: Any) -> Path:
    """Two states and the nation."""
    country(random_units(60, ["01", "44"], seed=38)).write(folder / "data")
    config = write_configuration(folder / "config.json", configuration(["01", "44"]))
    Ledger(folder / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(2)))
    settings = SDhcSettings.new(
        config=str(config),
        data=str(folder / "data"),
        out=str(folder / "out"),
        jurisdiction="us",
        account="census",
        ledger=str(folder / "ledger.sqlite"),
        runs_folder=str(folder / "state"),
        run_id="run",
        **options,
    )
    settings.directory.create()
    runner = InProcess(settings, HERE, before="commit")
    runner.run()
    return runner.staged


def top_down(folder: Path, **options: Any) -> Path:
    """A state of the redistricting data: persons and units."""
    made = top_down_inputs.design(**options)
    return top_down_inputs.finish(top_down_inputs.begin(folder, top_down_inputs.country(folder, ("23",)), made), folder)


def declared(folder: Path, **options: Any) -> Path:
    """The small country of tests/declarations.py."""
    from tests.tasks.top_down.test_declared import run_at, write

    return run_at(folder, *write(folder), **options)[1]


SMALL: dict[str, Callable[[Path], Path]] = {
    "detailed_dhca": detailed_dhca,
    "detailed_dhcb": lambda folder: detailed_dhcb(folder, estimates=True),
    "s_dhc": lambda folder: s_dhc(folder, estimates=True),
    "bottom_up": lambda folder: bottom_up(folder, clip=False, marginals=((), ("SEX",), ("STATE",))),
    "top_down": top_down,
    "declared": declared,
}
