"""The progress of a run: bars on a terminal, and the artifacts that the Prefect server shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil, log2
from threading import Lock

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from flows.reports.terminal import err

Expected = Mapping[str, tuple[float, int]]  # by stage, in order: its expected core-seconds, and its pieces (0: unknown)

WHOLE = "whole run"
BY_PERSONS = ("validate", "population groups")  # stages whose work follows the number of persons
LEAST = 0.125  # core-seconds of such a stage that are told, those of 200,000 persons
_watchers: list[Bars | Tally] = []


def report(stage: str, done: int, total: int) -> None:
    """Report that `done` of `total` pieces of a stage are finished."""
    for watcher in list(_watchers):
        watcher.report(stage.partition(" (")[0], done, total)


def expect(expected: Callable[[], Expected | None]) -> None:
    """Set the function that estimates the run's work; it returns None as long as that is unknown."""
    for watcher in list(_watchers):
        watcher.expect(expected)


@contextmanager
def watched(watcher: Bars | Tally) -> Iterator[None]:
    """Have a run watched."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


class Tally:
    """The pieces of every stage, done and in all, and the share of the whole run that is done, as expected work."""

    def __init__(self) -> None:
        self.pieces: dict[str, tuple[int, int]] = {}
        self._ask: Callable[[], Expected | None] = lambda: None
        self._expected: Expected | None = None
        self._lock = Lock()  # stages of several levels report at once

    def expect(self, expected: Callable[[], Expected | None]) -> None:
        """Ask this for the expected work, until it can be known."""
        self._ask = expected

    def report(self, stage: str, done: int, total: int) -> None:
        """Count a piece of a stage, or, where `done` is 0, the pieces of one level more."""
        with self._lock:
            so_far, pieces = self.pieces.get(stage, (0, 0))
            self.pieces[stage] = (so_far, pieces + total) if done == 0 else (so_far + 1, pieces)

    def share(self) -> float | None:
        """Return the share of the whole run that is done; None before it can be known."""
        with self._lock:
            if not self._expected and (expected := self._ask()):
                self._expected = coarsely(expected)
            if not self._expected:
                return None
            work = sum(seconds for seconds, _ in self._expected.values())
            return sum(done_of(self._expected, self.pieces)) / work if work else None


def coarsely(expected: Expected) -> Expected:
    """Return expected work that tells only between which powers of two the number of persons lies, if it is large.

    Prefect stores what it is told, and the number is exact.
    """
    return {
        stage: (2.0 ** ceil(log2(max(seconds, LEAST))) if stage in BY_PERSONS else seconds, pieces)
        for stage, (seconds, pieces) in expected.items()
    }


def done_of(expected: Expected, pieces: Mapping[str, tuple[float, float]]) -> Iterator[float]:
    """Yield the expected core-seconds of what is done, by the pieces of each stage, done and in all.

    A stage whose successor has begun without it was done before.
    """
    order = list(expected)
    begun = max((order.index(stage) for stage in pieces if stage in expected), default=-1)
    for place, (stage, (seconds, known)) in enumerate(expected.items()):
        if stage in pieces:
            done, total = pieces[stage]
            yield seconds * min(1.0, done / max(total, known, 1))
        elif place < begun:
            yield seconds


@contextmanager
def bars(title: str) -> Iterator[None]:
    """Show one bar a stage on the terminal, and one of the whole run with what is left, where that is known."""
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        _Pieces(),
        TimeElapsedColumn(),
        _Left(),
    )
    with Progress(*columns, console=err, speed_estimate_period=60) as display:
        err.print(title, style="bold")
        watcher = Bars(display)
        try:
            with watched(watcher):
                yield
            watcher.finish()
        finally:
            watcher.stop()


class Bars:
    """The bars of one run.

    What is left is the expected work of all that is not done, at the pace of the last minute: an estimate that
    takes the machine as it is, and of the stages' costs only their ratios.
    """

    def __init__(self, display: Progress) -> None:
        self.display = display
        self._bars: dict[str, TaskID] = {}
        self._whole: TaskID | None = None
        self._ask: Callable[[], Expected | None] = lambda: None
        self._expected: Expected | None = None
        self._lock = Lock()  # stages of several levels report at once

    def expect(self, expected: Callable[[], Expected | None]) -> None:
        """Show a bar of the whole run, as soon as it can be known what that will take."""
        self._ask = expected
        self._whole = self.display.add_task(WHOLE, total=None)

    def report(self, stage: str, done: int, total: int) -> None:
        """Move the bar of a stage: by the pieces of one level more where `done` is 0, else by one piece."""
        with self._lock:
            if stage not in self._bars:
                self._bars[stage] = self.display.add_task(stage, total=0)
            bar = self._bars[stage]
            if done == 0:
                self.display.update(bar, total=(self.display.tasks[bar].total or 0) + total)
            else:
                self.display.advance(bar)
            self._expected = self._expected or self._ask()
            if self._whole is not None and self._expected:
                work = sum(seconds for seconds, _ in self._expected.values())
                tasks = {stage: self.display.tasks[bar] for stage, bar in self._bars.items()}
                pieces = {stage: (task.completed, task.total or 0) for stage, task in tasks.items()}
                self.display.update(self._whole, total=work, completed=sum(done_of(self._expected, pieces)))

    def finish(self) -> None:
        """Note that the run has ended well."""
        if self._whole is not None and self._expected:
            self.display.update(self._whole, completed=sum(seconds for seconds, _ in self._expected.values()))

    def stop(self) -> None:
        """Note that the run has ended, well or not, and show no more of what is left."""
        if self._whole is not None:
            self.display.stop_task(self._whole)


class _Pieces(MofNCompleteColumn):
    """Pieces done and in all; of the whole run, whose pieces are of unlike size, the share that is done."""

    def render(self, task: Task) -> Text:
        """Return the column's text."""
        if task.description != WHOLE:
            return super().render(task)
        return Text(f"{task.percentage:.0f}%" if task.total else "", style="progress.percentage")


class _Left(ProgressColumn):
    """About how long the whole run will go on."""

    max_refresh = 1.0

    def render(self, task: Task) -> Text:
        """Return the column's text."""
        if task.description != WHOLE or task.stop_time is not None or task.time_remaining is None:
            return Text()
        minutes, seconds = divmod(int(task.time_remaining), 60)
        return Text(f"about {minutes}:{seconds:02d} left" if minutes else f"about {seconds} s left")
