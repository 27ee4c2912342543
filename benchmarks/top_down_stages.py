"""Processor seconds of every stage of `das tda run`, one after the other in one process, kernels loaded before.

    python benchmarks/top_down_stages.py DATA RUNS [--only 06] [--measurements nmf]

DATA as `das tda synth` makes it (nothing is charged), RUNS a runs folder that a run has used: it has the compiled
kernels. Fit for a busy machine: processor seconds hardly depend on who else uses it. Start-up is left out.
Measurements in the layout of the Bureau's files are read back, up to the estimate.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from measure import arguments, bytes_below

from flows.execution.runner import InProcess
from flows.execution.top_down_settings import TopDownSettings
from tasks.lifecycle.files import remove
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.published.nmf.inventory import take_inventory
from tasks.top_down.published.open_published import find_published


class Here:
    """Stands for workers: every piece runs in this process, and its processor seconds are added up by stage."""

    count = 1

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.longest: dict[str, float] = {}

    def map(
        self, stage: str, run: RunDirectory, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> list[Any]:
        """Call the function for each argument, here."""
        results = []
        for each in arguments:
            start = time.process_time()
            results.append(function(run, *each))
            spent = time.process_time() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
            self.longest[stage] = max(self.longest.get(stage, 0.0), spent)
        return results


def main() -> None:
    words = arguments(__doc__)
    words.add_argument("data")
    words.add_argument("runs", type=Path)
    words.add_argument("--only", type=int, action="append", default=[])
    words.add_argument("--estimator", choices=("topdown", "gls"), default="topdown")
    words.add_argument("--measurements", choices=("parquet", "nmf", "none"), default="parquet")
    given = words.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.runs) as folder:
        settings = TopDownSettings.new(
            data=given.data,
            out=f"{folder}/out",
            runs_folder=str(given.runs),
            ledger=f"{folder}/ledger.sqlite",
            run_id=f"stages-{Path(folder).name}",
            states=tuple(given.only),
            estimator=given.estimator,
            measurements=given.measurements,
        )
        try:
            once(settings)
        finally:
            remove(settings.directory.path)


def read_back(run: TopDownRun, staged: Path, estimator: str) -> dict[str, Any]:
    """Read the files of a staged release as `das tda estimate` does; returns seconds and sizes."""
    here, directory = Here(), RunDirectory(run.path.with_name(f"{run.path.name}-back"))
    directory.create()
    start = time.process_time(), time.perf_counter()
    try:
        inventory, _ = take_inventory(staged)
        (published,) = find_published(staged / "nmf")
        published.read(directory.path, cast(Workers, here), {"estimator": estimator}, ())
        parts = [part for part in inventory.parts if part.kind == "DPQuery"]
        return {
            "processor_seconds": here.seconds | {"total": time.process_time() - start[0]},
            "seconds": time.perf_counter() - start[1],
            "rows": sum(part.rows for part in parts),
            "files_bytes": sum(part.path.stat().st_size for part in inventory.parts),
            "scratch_bytes": bytes_below(directory.path),
        }
    finally:
        remove(directory.path)


def once(settings: TopDownSettings) -> None:
    """One run; prints JSON."""
    here, run = Here(), settings.directory
    run.create()
    runner = InProcess(settings, cast(Workers, here), before="commit")
    start = time.process_time()
    runner.run()
    total = time.process_time() - start
    result: dict[str, Any] = {
        "states": run.validated.states,
        "blocks": sum(len(run.state(state).geography) for state in run.validated.states),
        "processor_seconds": here.seconds | {"elsewhere": total - sum(here.seconds.values()), "total": total},
        "longest_piece": here.longest,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "scratch_bytes": bytes_below(run.path),
        "release_bytes": bytes_below(runner.staged),
    }
    if run.design.measurements == "nmf":
        result["read_back"] = read_back(run, runner.staged, settings.estimator)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
