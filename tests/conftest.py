"""What several tests share: public data, a small made-up country, one Dask cluster, one Prefect server."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
import typer.main
import typer.testing
from hypothesis import settings

from tasks.kernels import FOLDER_VARIABLE
from tasks.lifecycle.process import keep_kernels


def forget_configured_prefect() -> None:
    """Keep tests from using a server, database or home that the environment names, before anything imports prefect."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    home = os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="das-tests-prefect-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"  # as `das` sets it


def one_thread_each() -> None:
    """Keep numpy's libraries from starting threads, before anything imports it: one process per core is at work.

    OpenBLAS's threads wait for work by spinning.
    """
    assert "numpy" not in sys.modules, "tasks.lifecycle.process imports no numpy, which not every process wants"
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def files_in_memory() -> None:
    """Keep the files of tests, a gigabyte in all, in memory if there is room: on a disk they wait for fsync."""
    memory = Path("/dev/shm")
    with suppress(OSError, ValueError):  # as where there is no /proc or no such folder
        free, of_machine = (
            os.statvfs(memory),
            dict(re.findall(r"(\w+): +(\d+)", Path("/proc/meminfo").read_text(encoding="utf-8"))),
        )
        roomy = free.f_bavail * free.f_frsize > 4 << 30 and int(of_machine["MemAvailable"]) > 8 << 20  # kB
        if "TMPDIR" not in os.environ and roomy and not free.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def make_commands_once() -> None:
    """Make typer build the commands of `das` once per process, not per call."""
    typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)


def collect_garbage_seldom() -> None:
    """Collect cycles less often: a process of tests has millions of long-lived objects."""
    gc.set_threshold(200_000, 20, 20)


forget_configured_prefect()
one_thread_each()
collect_garbage_seldom()
make_commands_once()
keep_kernels(Path(tempfile.gettempdir()) / "das-flows-tests")  # on disk, for the next time
files_in_memory()
settings.register_profile("das-flows", deadline=None, max_examples=15)  # others each time; a busy machine is no fault
settings.load_profile("das-flows")
DATA = Path(os.environ.get("DAS_DATA") or Path(__file__).resolve().parents[2] / "shared/data")


def lacking(what: str) -> NoReturn:
    """Skip a test if something is missing; fail under CI, where a skip would hide a gap."""
    if os.environ.get("CI"):
        pytest.fail(f"CI has no {what}")
    pytest.skip(f"no {what}")


# The files of each process of `make test` (rooms.py), by their paths below this folder. Each runs its own alone; those
# that share what takes seconds to start, make or compile (a server, a cluster, releases, kernels) are in one process.
ROOMS = (
    r"e2e/|flows/test_(dep|every|no_s|pol|sec|spine|sta|sys|what)|tasks/(lifecycle|records|spine)|test_",
    r"systems/|flows/test_(acc|bot|ref|s_dhc|top)|tasks/(bottom_up|s_dhc|safetab)",
    r"spine/gls|(spine|tasks)/top_down/(?!test_dhc)|flows/test_(check|desc|exam|frames|show|spends|sql|tune_page)",
    r"",
)
UNTIDY = "tasks.releases.describe.tidy_files", lambda *_: []  # releases have no tables/: a patch
ROOM = "TEST_ROOM"
STATES = count()  # numbers of the state folders of tests without a folder


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave a file to the process of its room, if `make test` gives each room one."""
    if ROOM not in os.environ or not collection_path.name.startswith("test_"):
        return None
    path = str(collection_path.relative_to(Path(__file__).parent))
    room = next(number for number, paths in enumerate(ROOMS) if re.match(paths, path))
    return room != int(os.environ[ROOM]) or None


@pytest.fixture(scope="session")
def das_data() -> Path:
    """The folder of public data that the project does not hold (CONTRIBUTING.md); without it tests skip."""
    if not DATA.is_dir():
        lacking(f"public data in {DATA}; DAS_DATA names the folder")
    return DATA


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled synthetic country: EXAMPLE/data and EXAMPLE/params. Copy before you change it."""
    from tasks.synth.synthesize import synthesize_example
    from tasks.synth.write import Options

    folder = tmp_path_factory.mktemp("example") / "example"
    synthesize_example(folder, Options())
    return folder


@pytest.fixture(autouse=True)
def state_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A runs folder of the test's own, so that no test sees another's runs or ledger.

    It is in the test's folder if the test has one: making a folder takes longer than most tests.
    """
    if "tmp_path" in request.fixturenames:
        state: Path = request.getfixturevalue("tmp_path") / "state"
    else:
        state = tmp_path_factory.getbasetemp() / f"state-{next(STATES)}"
    before, os.environ["XDG_STATE_HOME"] = os.environ.get("XDG_STATE_HOME"), str(state)
    yield state / "das-flows"
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Set the umask to 000: files and folders are open to everyone unless the program closes them."""
    before = os.umask(0)
    yield
    os.umask(before)
    for path in Path(os.environ[FOLDER_VARIABLE]).rglob("*"):  # kernels that anybody may change are never used again
        with suppress(FileNotFoundError):  # another process named it meanwhile
            path.chmod(path.stat().st_mode & ~before)


@pytest.fixture(scope="session")
def client() -> Iterator[object]:
    """A client of a real Dask cluster of two worker processes, shared by the session."""
    import dask

    from flows.execution.cluster import ClusterSettings, open_cluster

    scratch = Path(os.environ.get("TMPDIR", "/tmp")) / "das-flows-tests"
    waits_long = {"distributed.worker.memory.monitor-interval": "1s"}  # ten times a second for as long as the session
    with dask.config.set(waits_long), open_cluster(ClusterSettings(workers=2), scratch) as cluster_client:
        yield cluster_client


@pytest.fixture
def shared_cluster(client: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and flows that start a cluster of their own use the session's."""
    for module in ("cluster", "run"):
        monkeypatch.setattr(f"flows.execution.{module}.open_cluster", lambda *_: nullcontext(client))


@pytest.fixture
def stages_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run their stages in this process: neither Prefect nor Dask is what the test is of."""
    from tests.systems.in_process import patch_flows

    patch_flows(monkeypatch)


@pytest.fixture(scope="module")
def untidy() -> Iterator[None]:
    """Releases have no tables/, a third of what a small run costs: for tests of the tables that these are made of.

    tests/systems has tables/ of every system.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*UNTIDY)
        yield


SERVES = """
import signal, socket, sys, uvicorn
from functools import partial
from prefect.server.api.server import create_app
from tasks.lifecycle.process import end_with_parent
end_with_parent(signal.SIGTERM)
config = uvicorn.Config(partial(create_app, ephemeral=True), factory=True, log_level="error")
uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""
SERVER = {  # no automations, no blocks, no record of tasks
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_API_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
}


@pytest.fixture(scope="session")
def server_settings(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[dict[str, Any]]:
    """The settings of clients of a real Prefect server on a database of its own, shared by the session.

    pytest's cache keeps an empty database of this version of Prefect, since migrations take some ten seconds.
    """
    from prefect import __version__

    import flows  # noqa: F401  sets prefect's environment before it is imported

    home = tmp_path_factory.mktemp("prefect")
    database, empty = home / "prefect.db", pytestconfig.cache.mkdir("prefect") / f"{__version__}.db"
    if empty.exists():
        shutil.copyfile(empty, database)
    own = {"PREFECT_HOME": str(home), "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": str(not empty.exists())}
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:  # else answers wait 40 ms
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        words, file = [sys.executable, "-c", SERVES], listening.fileno()
        server = subprocess.Popen([*words, str(file)], pass_fds=[file], env=os.environ | SERVER | own, cwd=home)
        port = listening.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    try:
        httpx.get(f"{url}/health", timeout=300).raise_for_status()
        if not empty.exists():
            part = empty.with_suffix(f".{os.getpid()}")
            with closing(sqlite3.connect(database)) as migrated, closing(sqlite3.connect(part)) as copy:
                migrated.backup(copy)
            part.rename(empty)
        yield {
            "api.url": url,
            "server.database.connection_url": f"sqlite+aiosqlite:///{database}",  # for tests that read it
            "flows.heartbeat_frequency": None,  # a heartbeat's end takes a second
            "logging.to_api.enabled": False,
        }
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def prefect_server(server_settings: dict[str, Any]) -> Iterator[None]:
    """Flows are recorded by the session's Prefect server: for tests of what Prefect records, and of whole runs."""
    from prefect.context import refresh_global_settings_context
    from prefect.settings import temporary_settings

    from flows.execution.fork_server import variables

    known = {"PREFECT_API_URL": str(server_settings["api.url"]), "PREFECT_LOGGING_TO_API_ENABLED": "false"}
    with variables(known):
        refresh_global_settings_context()  # for Prefect's threads, which have no other settings
        with temporary_settings(server_settings), retried_soon():
            yield
    refresh_global_settings_context()


@pytest.fixture(scope="module")
def no_server() -> Iterator[None]:
    """Flows run as those of a command where no server is configured, which takes half the time.

    No module has tests of both kinds.
    """
    import flows  # noqa: F401
    from flows.execution.no_server import without_server

    with without_server(), retried_soon():
        yield


@contextmanager
def retried_soon() -> Iterator[None]:
    """A stage that failed is tried again at once."""
    from flows.execution import run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "stage", run.stage.with_options(retry_delay_seconds=0.05))
        yield
