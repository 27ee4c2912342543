"""The geographic spine of a run: from a block table to the directory that holds its optimized spine and its report.

Public data only. The stages are plain functions of paths and settings, so that they run in this process, in a Dask
worker, or spread over workers by state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from distributed import Client

from spine.allocations import Allocation
from spine.settings import SpineSettings
from tasks.inputs.blocks.columns import GRFC, Columns
from tasks.inputs.blocks.geography import needed
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.workers import ended, submit
from tasks.spine.first_pass import summarize_state
from tasks.spine.prepare import prepare
from tasks.spine.summary import SpineSummary
from tasks.spine.write import Each, write_spine


def spine_columns_missing(grfc_header: list[str], settings: SpineSettings) -> list[str]:
    """Return the GRF-C columns that a spine with these settings needs and this header lacks."""
    return [name for name in needed(GRFC, settings) if name not in grfc_header]


def optimize_spine(
    geography: Path | str,
    out: Path,
    settings: SpineSettings,
    *,
    allocation: Allocation | None = None,
    columns: Columns | None = None,
    states: Sequence[int] = (),
    marginals: Sequence[str] = (),
    county: str | None = None,
    extra: str | None = None,
    each: Each | None = None,
) -> SpineSummary:
    """Build, measure and optimize the spine of a block table and write it to the directory `out`.

    geography: GRF-C, P.L. 94-171 or CSV, a file or directory (`tasks.inputs.blocks.geography`). allocation: of the
    privacy-loss budget; the production run's where none is given. states: only these FIPS codes. marginals: cells to
    report standard errors of. county: the five-digit county to draw. extra: a table of prims and living quarters by
    block (`tasks.inputs.blocks.extra`). each: how to map a function over states; one after the other here.
    Refused for bad input, and for an `out` that holds something.
    """
    prepared = prepare(
        geography,
        out,
        settings,
        allocation=allocation,
        columns=columns,
        states=states,
        marginals=marginals,
        county=county,
        extra=extra,
    )
    each = each or in_turn
    with prepared.discarding():
        summaries = list(each(summarize_state, [(path, prepared.plan) for path in prepared.paths]))
        return write_spine(prepared, summaries, each)


def over(client: Client | None) -> Each:
    """Return a function that maps over states: on a client's workers, or, without a client, in this process."""
    return in_turn if client is None else on_client(client)


def in_turn(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
    """Call a function with each tuple of arguments, in this process."""
    return (function(*each) for each in arguments)


def on_client(client: Client, told: Callable[[int, int], None] = lambda done, total: None) -> Each:
    """Call functions on a Dask client's workers; they must see the paths (a shared file system).

    Progress reports how many states of a pass are done. An exception of a call is raised after all have ended.
    Raises Failed if the cluster is lost.
    """

    def each(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
        futures = [submit(client, function, *argument) for argument in arguments]
        told(0, len(futures))
        results: dict[Any, Any] = {}
        problems = []
        try:
            for done, (future, result, problem) in enumerate(ended(client, futures), start=1):
                results[future] = result
                problems += [problem] if problem else []
                told(done, len(futures))
        except OSError as lost:  # of Dask's connections: what the calls raise is among the problems
            raise Failed(f"spine: the connection to the workers was lost ({type(lost).__name__})") from None
        if problems:
            raise problems[0]
        return [results[future] for future in futures]

    return each
