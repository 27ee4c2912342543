"""`das bottom-up run`: a histogram of all factors with noise in every cell, and its marginals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.commands.fields import Chosen, Settings, check_needed, with_options
from flows.commands.options import RunOptions
from flows.commands.runner import FlowCommand, summary_lines
from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import err


@with_options
def run(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(BottomUpSettings, needed=False)],
    *,
    options: RunOptions,
) -> None:
    """Release a noisy histogram and its marginals. One epsilon pays for all cells; marginals are their sums.

    If a run stops, --resume ID continues it without spending again; its id is printed at the start. With --resume, only
    these options are allowed: --state, --ledger, --json, and, to continue on another cluster, --workers,
    --memory-limit, --scheduler, its certificates and --patience.

    **Example:** `das bottom-up run table.parquet domain.json out/ --epsilon 1/2 --account long-form-1960`
    """
    options.start_ahead("tasks.bottom_up.release")  # before these imports, which take a while
    COMMAND.run(context, options, chosen)


def _new_runs(options: RunOptions, chosen: Chosen) -> list[BottomUpSettings]:
    from flows.execution.settings import new_run_id
    from flows.reports.curator import spend_table

    check_needed(BottomUpSettings, chosen)
    settings = options.new_settings(BottomUpSettings, options.run_id or new_run_id("bottom-up"), chosen)
    err.print(spend_table({settings.folder.upper(): settings.design().mechanism.spend}))
    return [settings]


def _details(_settings: BottomUpSettings, manifest: Mapping[str, Any]) -> dict[str, Any]:
    if not manifest:
        return {}
    return {"cells": manifest["histogram"]["cells"], "groups": manifest["calibration"]["groups"]}


def _summary(runs: list[dict[str, Any]]) -> str:
    (facts,) = runs
    lines = summary_lines("BOTTOM-UP", facts)
    if "cells" in facts:
        lines.append(f"   cells    {facts['cells']:,}")
    cases: dict[str, list[str]] = {}
    for group in facts.get("groups", ()):
        cases.setdefault(group["case"], []).append(" ".join(value for name, value in group.items() if name != "case"))
    lines += [f"{case}: {len(groups)} groups" for case, groups in cases.items() if case != "inconsistent"]
    if dropped := cases.get("inconsistent"):
        lines.append(f"not reported, for their published total does not agree: {', '.join(dropped)}")
    return "\n".join(lines)


COMMAND = FlowCommand(SYSTEMS["bottom-up"], _new_runs, _details, lambda facts: facts[0], _summary)
