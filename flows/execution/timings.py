"""Where the time of a run went: seconds, processor, memory, pieces and compiled kernels of each stage.

STATE/timings/RUN.json outlives the run's directory. It is confidential, as what depends on the data is: Prefect and
logs get nothing of it. `das runs show ID --timings` shows it, and `das run --timings` at the end of a run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from tasks.lifecycle.costs import Cost, account, peak_memory
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import atomic_path
from tasks.lifecycle.private_folder import check_private, make_private

FOLDER = "timings"
CLUSTER = "start of the workers"


@dataclass
class _Stage:
    """A stage, all of its levels together."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    flow: float = 0.0
    costs: list[Cost] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": round(_covered(self.spans), 4),
            "processor_of_workers": round(sum(cost.processor for cost in self.costs), 4),
            "processor_of_flow": round(self.flow, 4),
            "compiling": round(sum(cost.compiled for cost in self.costs), 4),
            "memory_of_a_worker": max((cost.memory for cost in self.costs), default=0),
            "pieces": len(self.costs),
        }


class Timings:
    """The timings of one try of a run. Stages are timed in threads of their own."""

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._lock = Lock()
        self._began = datetime.now(UTC)
        self._begin = time.monotonic(), time.process_time()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same, and whose time and pieces count as the stage's, whatever the level.

        Only the calling thread's processor time counts, as other stages run at the same time.
        """

        def call(*arguments: Any) -> Any:
            stage = self._stage(name)
            token = account.set(stage.costs.append)
            begin, processor = time.monotonic(), time.thread_time()
            try:
                return function(*arguments)
            finally:
                account.reset(token)
                with self._lock:
                    stage.spans.append((begin, time.monotonic()))
                    stage.flow += time.thread_time() - processor

        return call

    def _stage(self, name: str) -> _Stage:
        with self._lock:
            return self._stages.setdefault(name.partition(" (")[0], _Stage())

    def as_json(self) -> dict[str, Any]:
        """Return the try: its stages, and the flow's process as a whole."""
        begin, processor = self._begin
        return {
            "began": self._began.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - begin, 4),
            "processor_of_flow": round(time.process_time() - processor, 4),
            "memory_of_flow": peak_memory(),
            "stages": {name: stage.as_json() for name, stage in self._stages.items()},
        }


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the seconds in which at least one of the spans was under way."""
    covered, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


@contextmanager
def kept(state: Path, run: str) -> Iterator[Timings]:
    """Keep the timings of a try of a run, however it ends; a run does not fail because of them."""
    timings = Timings()
    try:
        yield timings
    finally:
        with suppress(OSError, ValueError, Refused):
            tries = [*load_timings(state, run), timings.as_json()]
            make_private(state, may_be_link=True)
            make_private(state / FOLDER)
            with atomic_path(timings_path(state, run)) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_text(json.dumps({"run": run, "tries": tries}, indent=1))


def timings_path(state: Path, run: str) -> Path:
    """Return the file of a run's timings."""
    return state / FOLDER / f"{run}.json"


def load_timings(state: Path, run: str) -> list[dict[str, Any]]:
    """Return the timings of every try of a run, the first try first; none where none were kept.

    Raises Refused as `check_private` for the state folder.
    """
    check_private(state, may_be_link=True)
    try:
        tries: list[dict[str, Any]] = json.loads(timings_path(state, run).read_text())["tries"]
    except (OSError, ValueError, KeyError):  # not there, or not whole: no run fails because of it
        return []
    return tries
