"""Who watches a run: a terminal's bars, or, in a worker of the Prefect server, nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from flows.terminal import err
from tasks import workers

_watcher: workers.Progress = workers.silent


def report(stage: str, done: int, total: int) -> None:
    """Tell whoever watches that `done` of `total` pieces of a stage are finished."""
    _watcher(stage, done, total)


@contextmanager
def watched(watcher: workers.Progress) -> Iterator[None]:
    """Let `watcher` hear of the runs that start within the block."""
    global _watcher
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


@contextmanager
def bars(title: str) -> Iterator[None]:
    """Show one bar a stage on the terminal."""
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err) as display:
        err.print(f"[bold]{title}[/]")
        known: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            name = stage.partition(" (")[0]
            if name not in known:
                known[name] = display.add_task(name, total=0)
            bar = known[name]
            if done == 0:
                display.update(bar, total=(display.tasks[bar].total or 0) + total)
            else:
                display.advance(bar)

        with watched(show):
            yield
