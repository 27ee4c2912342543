"""What Prefect records of a run: its log, and the state of one that has crashed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from dhca_inputs import Inputs, configuration, cut_files, people
from e2e_runs import FEW_LEVELS, open_account, settings_for
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun
from prefect.states import Crashed, Running, Scheduled

from flows.execution import run, states
from flows.execution.run import stage
from flows.prefect_flows import detailed_dhca
from tasks.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory


def enter(client: SyncPrefectClient, run: UUID, state: State[None]) -> State[None]:
    entered = client.set_flow_run_state(run, state, force=True).state
    assert entered is not None
    return entered


def begun(client: SyncPrefectClient, run: FlowRun) -> TaskRun:
    """A try of the run with a stage at work."""
    enter(client, run.id, Running())
    return client.create_task_run(stage, run.id, dynamic_key=str(run.run_count), name="totals", state=Running())


@pytest.mark.parametrize("logger", ["prefect.engine", "prefect.flow_runs"])
def test_a_refused_run_s_process_ends_its_log_with_the_sentence(logger: str) -> None:
    """The loggers with which Prefect's engine ends a process; any other error keeps its traceback."""
    found = []
    for error in (Refused("account a is not open"), KeyError("x")):
        record = logging.makeLogRecord({"msg": "Execution exited", "exc_info": (type(error), error, None)})
        assert logging.getLogger(logger).filter(record)
        found.append((record.getMessage(), record.exc_info is not None))
    assert found == [("refused: account a is not open", False), ("Execution exited", True)]


def test_a_hook_acts_only_on_the_crash_that_it_was_called_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's worker calls it seconds later: a Retry may be at work then, which goes on, charges and releases."""
    monkeypatch.setattr(states, "SERVER_LAG_SECONDS", 0)
    with get_client(sync_client=True) as client:
        settings = settings_for(tmp_path)
        settings.directory.create()
        parameters = {"settings": settings.model_dump(mode="json")}
        run = client.create_flow_run(detailed_dhca, parameters=parameters)
        first = begun(client, run)
        crash = enter(client, run.id, Crashed(message="killed."))
        enter(client, run.id, Scheduled(name="AwaitingRetry"))
        second = begun(client, run.model_copy(update={"run_count": 1}))

        states.close(detailed_dhca, run, crash)
        assert client.read_flow_run(run.id).state_type == StateType.RUNNING
        assert client.read_task_run(second.id).state_type == StateType.RUNNING

        crash = enter(client, run.id, Crashed(message="killed again."))
        states.close(detailed_dhca, run, crash)
        last = client.read_flow_run(run.id).state
        assert last is not None
        assert last.type == StateType.CRASHED
        assert str(last.message).startswith("killed again. nothing was charged; Retry continues")
        assert {client.read_task_run(task.id).state_type for task in (first, second)} == {StateType.CRASHED}


class InThisProcess:
    """Workers without a cluster, which tell the run of their pieces as those of a cluster do."""

    def __init__(self, _client: object, progress: Callable[[str, int, int], None], **_: object) -> None:
        self.progress, self.count = progress, 1

    def check(self) -> None:
        """Nothing to check."""

    def map(self, stage: str, run: RunDirectory, function: Callable[..., Any], arguments: Any) -> list[Any]:
        calls = list(arguments)
        results = [function(run, *call) for call in calls]
        self.progress(stage, len(calls), len(calls))
        return results


def test_the_log_of_a_run_says_what_an_operator_wants_and_nothing_that_follows_from_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that fill one chunk and such that fill 10 over the same public files leave the same lines."""
    monkeypatch.setattr("flows.execution.run.Workers", InThisProcess)
    client = SimpleNamespace(nthreads=lambda: {"a": 1, "b": 1})
    monkeypatch.setattr("flows.execution.run.open_cluster", lambda *_: nullcontext(client))
    cut_files(monkeypatch, 4096)
    logs = []
    for persons in (20, 300):
        folder = tmp_path / str(persons)
        Inputs(config=configuration(**FEW_LEVELS), persons=people(persons)).write(folder)
        open_account(folder)
        with caplog.at_level("INFO"):
            caplog.clear()
            detailed_dhca(settings_for(folder, "run-us"))
        ours = [record.getMessage() for record in caplog.records if record.pathname == run.__file__]
        logs.append([line.replace(str(folder), "…") for line in ours])
    few, many = (Counter(log) for log in logs)
    assert few == many
    told = "\n".join(few)
    assert "us: read 6 blocks of …/data/GRF-C.txt" in told
    assert "cluster: this machine, workers: 2" in told
    assert "us: rho 2 was charged to account census" in told
    assert "totals (State, Detailed): pieces done: 1" in told
    assert "released: …/out/us" in told
    assert "validate" not in told
