"""The progress of a run: bars on a terminal; nothing in a worker of the Prefect server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
_watcher: Bars | None = None


def report(stage: str, done: int, total: int) -> None:
    """Report that `done` of `total` pieces of a stage are finished."""
    if _watcher:
        _watcher.report(stage.partition(" (")[0], done, total)


def expect(expected: Callable[[], Expected | None]) -> None:
    """Set the function that estimates the run's work; it returns None as long as that is unknown."""
    if _watcher:
        _watcher.expect(expected)


@contextmanager
def bars(title: str) -> Iterator[None]:
    """Show one bar a stage on the terminal, and one of the whole run with what is left, where that is known."""
    global _watcher
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        _Pieces(),
        TimeElapsedColumn(),
        _Left(),
    )
    with Progress(*columns, console=err, speed_estimate_period=60) as display:
        err.print(f"[bold]{title}[/]")
        before, _watcher = _watcher, Bars(display)
        try:
            yield
            _watcher.finish()
        finally:
            _watcher.stop()
            _watcher = before


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
                self.display.update(self._whole, total=work, completed=sum(self._done(self._expected)))

    def finish(self) -> None:
        """Note that the run has ended well."""
        if self._whole is not None and self._expected:
            self.display.update(self._whole, completed=sum(seconds for seconds, _ in self._expected.values()))

    def stop(self) -> None:
        """Note that the run has ended, well or not, and show no more of what is left."""
        if self._whole is not None:
            self.display.stop_task(self._whole)

    def _done(self, expected: Expected) -> Iterator[float]:
        """Yield the expected core-seconds of what is done.

        A stage whose successor has begun without it was done before.
        """
        order = list(expected)
        begun = max((order.index(stage) for stage in self._bars if stage in expected), default=-1)
        for place, (stage, (seconds, pieces)) in enumerate(expected.items()):
            if stage in self._bars:
                bar = self.display.tasks[self._bars[stage]]
                yield seconds * min(1.0, bar.completed / max(bar.total or 0, pieces, 1))
            elif place < begun:
                yield seconds


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
