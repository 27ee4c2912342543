"""The temporary Prefect server is its command's alone: its address, its database, its end."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import httpx
import psutil
import pytest

from flows.execution.prefect_server import DATABASE, TEMPLATES


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.ci
def test_only_its_run_is_answered_and_a_killed_one_leaves_no_trace_in_what_is_configured(tmp_path: Path) -> None:
    """Neither in a database that environment, files or profile name, nor in a home whose own database is damaged."""
    home, here, scratch = (tmp_path / name for name in ("home", "here", "scratch"))
    for folder in (home, here, scratch):
        folder.mkdir()
    lite = "sqlite+aiosqlite:///" + str(tmp_path / "configured")
    (home / DATABASE).write_text("damaged")
    (home / "profiles.toml").write_text(
        f'active = "own"\n[profiles.own]\nPREFECT_SERVER_ALLOW_EPHEMERAL_MODE = "true"\n'
        f'PREFECT_API_DATABASE_CONNECTION_URL = "{lite}-profile.db"\n'
    )
    (here / "prefect.toml").write_text(f'[server.database]\nconnection_url = "{lite}-file.db"\n')
    (here / ".env").write_text(f"PREFECT_SERVER_DATABASE_CONNECTION_URL={lite}-env.db\n")
    before = files(tmp_path)
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from flows.execution import prefect_server\n"
        "prefect_server.start_server(Path(sys.argv[1]))\n"
        "from prefect import flow\n"
        "@flow\n"
        "def wait():\n"
        "    server = prefect_server._server\n"
        "    print(server.pid, server.url, server.password, flush=True)\n"
        "    time.sleep(600)\n"
        "with prefect_server.temporary_server():\n"
        "    wait()\n"
    )
    environment = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_API_DATABASE_CONNECTION_URL": "postgresql+asyncpg://das@127.0.0.1:1/prefect",
        "TMPDIR": str(scratch),
    }
    command = [sys.executable, "-c", program, str(tmp_path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=here) as killed:
        assert killed.stdout
        process, url, password = killed.stdout.readline().split()
        server = psutil.Process(int(process))
        for auth, status in ((None, 401), (("das", "guess"), 401), (tuple(password.split(":")), 200)):
            assert httpx.post(f"{url}/flow_runs/filter", json={}, auth=auth, timeout=60).status_code == status
        (own,) = scratch.glob("das-prefect-*")
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        assert b"Running" in (own / DATABASE).read_bytes() + (own / f"{DATABASE}-wal").read_bytes()
        killed.send_signal(signal.SIGKILL)
    server.wait(60)
    assert {name: text for name, text in files(tmp_path).items() if not name.startswith("state/")} == before


@pytest.mark.parametrize(
    "failure",
    [
        "no start",
        pytest.param("no space", marks=pytest.mark.ci),
        pytest.param("an end before the flow's", marks=pytest.mark.ci),
        pytest.param("an end before the second flow", marks=pytest.mark.slow),
    ],
)
def test_a_server_that_fails_is_said_with_its_last_lines(failure: str, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from flows.execution import prefect_server\n"
        "def fail(*_):\n"
        "    raise OSError('no room for it')\n"
        "if sys.argv[1] == 'no start':\n"
        "    prefect_server._prepare_database = fail\n"
        "prefect_server.CLIENT['PREFECT_CLIENT_MAX_RETRIES'] = '0'\n"
        "prefect_server.start_server(Path(sys.argv[2]))\n"
        "from prefect import flow\n"
        "@flow\n"
        "def late():\n"
        "    if sys.argv[1] == 'no space':\n"
        "        import httpx\n"
        "        raise httpx.ReadError('as of a server that cannot write')\n"
        "    os.kill(prefect_server._server.pid, signal.SIGKILL)\n"
        "try:\n"
        "    if 'second' in sys.argv[1]:\n"
        "        with prefect_server.temporary_server():\n"
        "            os.kill(prefect_server._server.pid, signal.SIGKILL)\n"
        "    with prefect_server.temporary_server():\n"
        "        late()\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error, prefect_server._server.home)\n"
    )
    words = [sys.executable, "-c", program, failure, str(tmp_path)]
    said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    if failure == "no start":
        assert said.startswith("Failed the temporary Prefect server ended; it printed: ")
        assert " / OSError: no room for it" in said
    elif failure == "no space":
        seen = "a request to the temporary Prefect server failed (ReadError); it printed nothing; "
        assert re.match(rf"Failed {re.escape(seen)}[\d,]+ MiB are free in \S+ ", said)
    else:
        assert said.startswith("Failed the temporary Prefect server ended; it printed nothing; ")
    assert not Path(said.split()[-1]).exists()


@pytest.mark.slow  # as long as the migrations of Prefect's database take
def test_a_template_is_made_once_for_a_version(tmp_path: Path) -> None:
    """By the first of two servers, of which the second has a copy of what it made."""
    homes = [tmp_path / "first", tmp_path / "second"]
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from flows.execution import prefect_server\n"
        "state, *homes = map(Path, sys.argv[1:])\n"
        "prefect_server._take_own_settings(homes[0], 'das:x')\n"
        "sys.prefix = '/proc'\n"  # an installation that cannot be written
        "for home in homes:\n"
        "    prefect_server._prepare_database(home / prefect_server.DATABASE, state)\n"
        "    print(*os.listdir(state / prefect_server.TEMPLATES))\n"
    )
    kept = tmp_path / "state" / TEMPLATES
    kept.parent.mkdir(0o700)
    for folder in (kept, *homes):
        folder.mkdir(parents=True)
    foreign, template = "3.0.0.db", f"{version('prefect')}.db"
    (kept / foreign).write_text("no database")
    words = [sys.executable, "-c", program, kept.parent, *homes]
    result = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert [set(line.split()) for line in result.splitlines()] == [{foreign, template}] * 2
    for home in homes:
        with closing(sqlite3.connect(home / DATABASE)) as database:
            assert database.execute("SELECT COUNT(*) FROM alembic_version").fetchall() == [(1,)]
            assert database.execute("SELECT COUNT(*) FROM flow_run").fetchall() == [(0,)]
    assert (homes[1] / DATABASE).read_bytes() == (kept / template).read_bytes()
