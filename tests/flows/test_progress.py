"""Progress counts pieces on bars, with the time left on a clock of the test's own."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from flows.execution import progress
from flows.execution.progress import Bars, report


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


@pytest.mark.parametrize("pace", [0.5, 3.0])
def test_what_is_left_follows_the_pieces_that_are_done(display: Progress, clock: Clock, pace: float) -> None:
    bars = Bars(display)
    bars("validate", 0, 20)
    for done in range(1, 6):
        clock.now += pace
        bars("validate", done, 20)
    (task,) = display.tasks
    assert (task.completed, task.total) == (5, 20)
    assert task.time_remaining == pytest.approx(15 * pace, rel=0.1)
    assert TimeRemainingColumn().render(task).plain == f"0:00:{task.time_remaining:02.0f}"


def test_levels_that_report_at_once_share_a_bar(display: Progress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_shown", Bars(display))
    names = [f"totals ({region_type}, {level})" for region_type in ("USA", "STATE", "COUNTY") for level in (1, 2)]
    threads = [threading.Thread(target=report, args=(name, 0, 3)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(names[0], 1, 3)
    assert [(task.description, task.completed, task.total) for task in display.tasks] == [("totals", 1, 18)]
