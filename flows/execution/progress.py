"""The progress of a run in pieces of work, as bars on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from flows.reports.terminal import err


class Bars:
    """Draws one bar for each stage. Levels of a stage report concurrently and share its bar."""

    def __init__(self, display: Progress) -> None:
        self.display = display
        self._bars: dict[str, TaskID] = {}
        self._pieces: dict[str, tuple[int, int]] = {}
        self._lock = Lock()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Count a finished piece of a stage or, if `done` is 0, add the pieces of another level."""
        with self._lock:
            if stage not in self._bars:
                self._bars[stage] = self.display.add_task(stage)
            so_far, pieces = self._pieces.get(stage, (0, 0))
            so_far, pieces = self._pieces[stage] = (so_far, pieces + total) if done == 0 else (so_far + 1, pieces)
            self.display.update(self._bars[stage], completed=so_far, total=pieces)


_shown: Bars | None = None


def report(stage: str, done: int, total: int) -> None:
    """Report that `done` of `total` pieces of a stage, or of one level of it, are finished."""
    if _shown is not None:
        _shown(stage.partition(" (")[0], done, total)


@contextmanager
def bars(title: str) -> Iterator[Progress]:
    """Show a bar for every stage on the terminal, with the elapsed time and the expected remaining time; yield them.

    Without a title the bars vanish at the end, and none is shown where standard error is a file.
    """
    global _shown
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = not title and not err.is_terminal
    with Progress(*columns, console=err, speed_estimate_period=60, transient=not title, disable=hidden) as display:
        if title:
            err.print(title, style="bold")
        before, _shown = _shown, Bars(display)
        try:
            yield display
        finally:
            _shown = before
