"""Flows of a command without a server: they run on a machine's loopback or disk as little as on its network."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import httpx
import psutil
import pytest

from flows.execution.fork_server import variables
from flows.execution.no_server import Records, is_without_server, without_server
from privacy.accounting.ledger import Account, Ledger
from tasks.bottom_up.example import make_example
from tasks.records.marks import MARK_FILE
from tests.flows.conftest import Das

PROGRAM = """
import os, sys, psutil
from flows.execution.no_server import is_without_server, without_server
from prefect import flow, get_client, runtime, task
@task
def fails():
    raise ValueError("as a stage")
@flow(flow_run_name="inner")
def inner():
    fails.submit().result()
@flow
def outer():
    own = psutil.Process()
    print(runtime.flow_run.scheduled_start_time.tzinfo, own.net_connections(), own.children())
    try:
        inner()
    except ValueError as error:
        print(error)
        return "released"
with without_server():
    print(is_without_server(), outer())
print(is_without_server())
"""


def run(environment: dict[str, str], folder: Path) -> list[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")} | environment
    words = [sys.executable, "-c", PROGRAM]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=own, cwd=folder).stdout.splitlines()


@pytest.mark.ci
def test_flows_in_flows_run_without_a_socket_a_process_or_a_database(tmp_path: Path) -> None:
    """Whatever database environment, files and profile name: it may be an office's."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    lite = "sqlite+aiosqlite:///" + str(tmp_path / "configured")
    (home / "profiles.toml").write_text(
        f'active = "own"\n[profiles.own]\nPREFECT_SERVER_ALLOW_EPHEMERAL_MODE = "true"\n'
        f'PREFECT_API_DATABASE_CONNECTION_URL = "{lite}-profile.db"\n'
    )
    (here / "prefect.toml").write_text(f'[server.database]\nconnection_url = "{lite}-file.db"\n')
    (here / ".env").write_text(f"PREFECT_SERVER_DATABASE_CONNECTION_URL={lite}-env.db\n")
    database = {"PREFECT_API_DATABASE_CONNECTION_URL": "postgresql+asyncpg://das@127.0.0.1:1/prefect"}
    for of_profile in ({}, database):
        said = run({"PREFECT_HOME": str(home), **of_profile}, here)
        assert said == ["UTC [] []", "as a stage", "True released", "False"]
    assert [*tmp_path.glob("configured*")] == [*home.glob("*.db*")] == []


@pytest.mark.usefixtures("shared_cluster")
def test_a_dry_run_of_a_command_needs_no_server(das: Das, tmp_path: Path) -> None:
    """On data without a mark, whose charge it shows."""
    made = make_example(tmp_path, 200, states=2, counties=1)
    (tmp_path / MARK_FILE).unlink()
    ledger = Ledger(tmp_path / "state/ledger.sqlite")
    ledger.path.parent.mkdir(0o700)
    ledger.open_account(Account("own", "puredp", Fraction(1)))
    children = psutil.Process().children()
    words = [made.table, made.declaration, tmp_path / "out", "--epsilon", 1, "--account", "own", "--dry-run"]
    code, out, _ = das("bottom-up", "run", *words, "--runs-folder", tmp_path / "state")
    *_, spends, end = out.splitlines()
    assert (code, spends.partition(": ")[0], end) == (0, "a person replaced", "nothing was charged")
    assert ledger.spent("own") == {}
    assert psutil.Process().children() == children, "no server was started"


@pytest.mark.parametrize("by", ["environment", pytest.param("profile", marks=pytest.mark.slow)])
def test_a_configured_server_is_used(by: str, tmp_path: Path) -> None:
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    url = "http://127.0.0.1:1/api"
    (tmp_path / "profiles.toml").write_text(f'active = "office"\n[profiles.office]\nPREFECT_API_URL = "{url}"\n')
    named = {"environment": {"PREFECT_API_URL": url}, "profile": {"PREFECT_HOME": str(tmp_path)}}[by]
    try:
        with variables(named):
            refresh_global_settings_context()
            with without_server():
                assert (is_without_server(), get_current_settings().api.url) == (False, url)
    finally:
        refresh_global_settings_context()


def test_a_request_that_no_flow_makes_is_not_answered() -> None:
    """A later version of Prefect may make one; no wrong answer may decide how a run goes on."""
    with pytest.raises(NotImplementedError, match=r"^GET variables/name: "):
        Records().handle_request(httpx.Request("GET", "http://prefect.invalid/api/variables/name"))
