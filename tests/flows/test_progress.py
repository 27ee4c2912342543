"""The bars of a run: what is told to be left, on a clock of the test's own."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from dhca_inputs import Here
from e2e_runs import directory, go, settings_for
from rich.console import Console
from rich.progress import Progress

from flows.execution.expected_work import COUNTED, MEASURED, TEXT, expected_work
from flows.execution.progress import WHOLE, Bars, Expected, Tally, coarsely

EXPECTED: Expected = {"validate": (60.0, 0), "population groups": (20.0, 0), "totals": (10.0, 4), "spine": (10.0, 2)}


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def display(clock: Clock) -> Progress:
    console = Console(file=io.StringIO(), width=120)
    return Progress(console=console, get_time=clock, auto_refresh=False, speed_estimate_period=60)


def work(bars: Bars, clock: Clock, stage: str, pieces: int, seconds: float) -> None:
    """Let a stage of so many pieces pass."""
    bars.report(stage, 0, pieces)
    for done in range(1, pieces + 1):
        clock.now += seconds / pieces
        bars.report(stage, done, pieces)


def left(display: Progress) -> float:
    """The seconds that the bar of the whole run tells to be left."""
    task = next(task for task in display.tasks if task.description == WHOLE)
    assert task.time_remaining is not None
    return task.time_remaining


@pytest.mark.parametrize("pace", [0.5, 3.0])
def test_what_is_left_follows_the_pace_of_this_machine(display: Progress, clock: Clock, pace: float) -> None:
    """A machine that takes `pace` times the expected seconds for everything is told so much for the rest."""
    bars = Bars(display)
    bars.expect(lambda: EXPECTED)
    work(bars, clock, "validate", 20, 60 * pace)
    assert left(display) == pytest.approx(40 * pace, rel=0.1)
    work(bars, clock, "population groups", 5, 20 * pace)
    assert left(display) == pytest.approx(20 * pace, rel=0.15)


def test_a_resumed_run_has_its_first_stages_behind_it(display: Progress, clock: Clock) -> None:
    bars = Bars(display)
    bars.expect(lambda: EXPECTED)
    work(bars, clock, "digest", 7, 5.0)  # no stage that an estimate knows
    bars.report("population groups", 0, 5)
    assert display.tasks[0].completed == 60.0


def test_levels_that_have_not_begun_are_not_taken_for_done(display: Progress, clock: Clock) -> None:
    bars = Bars(display)
    bars.expect(lambda: EXPECTED)
    work(bars, clock, "totals", 1, 1.0)  # one level of one piece, of four pieces in all
    assert display.tasks[0].completed == 60.0 + 20.0 + 10.0 / 4


def test_nothing_is_told_before_it_can_be_known(display: Progress, clock: Clock) -> None:
    bars = Bars(display)
    known: list[Expected | None] = [None]
    bars.expect(lambda: known[0])
    work(bars, clock, "validate", 2, 2.0)
    assert display.tasks[0].total is None
    known[0] = EXPECTED
    work(bars, clock, "population groups", 2, 2.0)
    assert display.tasks[0].total == 100.0


def test_levels_that_report_at_once_share_a_bar(display: Progress) -> None:
    bars = Bars(display)
    threads = [threading.Thread(target=bars.report, args=("totals", 0, 1)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [task.total for task in display.tasks] == [20]


def test_the_work_expected_of_a_run_counts_its_persons_and_groups(example: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, params=example / "params", data=example / "data")
    run = directory(settings)
    assert expected_work(run, settings.jurisdiction, False, False) is None
    go(settings, Here(), before="population groups")  # type: ignore[arg-type]
    expected = expected_work(run, settings.jurisdiction, True, False)
    assert expected is not None
    assert set(expected) == {"validate", "population groups", *MEASURED, "spine", "release"}
    lines = (example / "data/person-records.txt").read_bytes().count(b"\n") - 1
    assert expected["validate"][0] / expected["population groups"][0] == pytest.approx(TEXT / COUNTED)
    assert expected["validate"][0] == pytest.approx(TEXT * lines / 1e6, rel=0.1)


def test_what_the_server_is_told_hides_the_number_of_persons() -> None:
    """Persons fewer or more by a few change neither what is foretold nor any percentage."""

    def told(persons: int) -> tuple[Expected, list[float | None]]:
        expected = {"validate": (persons * 5.5e-7, 0), "population groups": (persons * 1.25e-7, 3), "totals": (2.0, 4)}
        tally, shares = Tally(), []
        tally.expect(lambda: expected)
        for stage in expected:
            tally.report(stage, 0, 2)
            tally.report(stage, 1, 2)
            shares.append(tally.share())
        return coarsely(expected), shares

    assert told(1_100_000) == told(1_100_001) == told(1_700_000)
    assert told(3) == told(200_000)
    assert told(1_100_000) != told(300_000_000), "a bar of the whole run still knows what is long"
