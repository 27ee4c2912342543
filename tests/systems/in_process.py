"""What a flow does with a run's settings, in this process: no Prefect server, no cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dhca_inputs import HERE

from flows.execution.runner import InProcess
from flows.execution.settings import RunSettings, keep_settings
from flows.execution.systems import SYSTEMS
from tasks.errors import all_or_none
from tasks.lifecycle.commit import check_out, finish_released
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.run_directory import locked

NO_CLUSTER = {  # what starts a server or a cluster: what it is replaced by
    "flows.commands.options.start_fork_server": lambda *_: None,
    "flows.execution.no_server.without_server": nullcontext,
    "flows.execution.cluster.open_cluster": lambda *_: nullcontext(),
    "flows.commands.options.Workers": lambda *_, **__: HERE,
}
before_stage: list[Callable[[str], None]] = []  # what is told of each stage before it runs


def patch_flows(patch: pytest.MonkeyPatch) -> None:
    """Have commands run their stages in this process."""
    for name, instead in NO_CLUSTER.items():
        patch.setattr(name, instead)
    for name, system in SYSTEMS.items():
        patch.setitem(SYSTEMS, name, replace(system, flow=f"{__name__}:flow"))


class Stages(InProcess[Any]):
    """The stages of a part of a run, one after the other, guarded as under Prefect."""

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        for tell in before_stage:
            tell(name.partition(" (")[0])
        return guard(name, self.directory, lambda _run: function())


def flow(settings: RunSettings) -> list[str]:
    """Carry out a run as `flows.execution.run.carry_out`; return the paths of its releases."""
    parts = settings.parts
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(locked(part.directory))
        places = [_finished(part) for part in parts]
        todo = [part for part, place in zip(parts, places, strict=True) if place is None]
        for part in todo:
            check_out(part.directory, Path(part.out), part.folder)
            keep_settings(part.directory, part)
        all_or_none({part.folder: part.check for part in todo})
        runners = [Stages(part, HERE) for part in todo]
        for runner in runners:
            runner.parts = runners
        places += [runner.run() for runner in runners]
    return [str(place) for place in places if place]


def _finished(settings: RunSettings) -> Path | None:
    asked = settings.configuration_digest, settings.differences
    return finish_released(settings.directory, Path(settings.out), settings.folder, settings.charging, *asked)
