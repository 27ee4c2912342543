"""What several tests share: the data at hand, a small made-up country, one Dask cluster, one Prefect server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from tasks.lifecycle.process import keep_kernels

os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"  # as `das` sets it, before prefect is imported
settings.register_profile("das-flows", deadline=None)  # a busy machine is no fault of an example
settings.load_profile("das-flows")
keep_kernels(Path(tempfile.gettempdir()) / "das-flows-tests")
DATA = Path(os.environ.get("DAS_DATA") or Path(__file__).resolve().parents[2] / "shared/data")


def lacking(what: str) -> NoReturn:
    """Skip a test for want of something that CI has; there its absence is a failure, for a skip proves nothing."""
    if os.environ.get("CI"):
        pytest.fail(f"CI has no {what}")
    pytest.skip(f"no {what}")


# What takes seconds to start, make or compile. In `make test` one process has all tests that use a row of these.
SHARED = {
    "services": {"prefect_server", "client", "fork_server"},
    "top_down": {"top_down_released"},
    "pages": {"released", "chromium"},
}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Put each test into a group of xdist's: what it shares, else its file. The groups that are shared come first.

    Slow tests keep to their files: they take so long that a process may well start a server for each.
    """
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: groups[item] not in SHARED)


def group_of(item: pytest.Function) -> str:
    if item.get_closest_marker("slow") or item.get_closest_marker("long"):
        return item.path.stem
    shared = [name for name, made in SHARED.items() if name in item.path.stem or made.intersection(item.fixturenames)]
    return shared[0] if shared else item.path.stem


@pytest.fixture(scope="session")
def das_data() -> Path:
    """The folder of public data that the project does not hold (README, Data for the tests); without it tests skip."""
    if not DATA.is_dir():
        lacking(f"public data in {DATA}; DAS_DATA names the folder")
    return DATA


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled synthetic country: EXAMPLE/data and EXAMPLE/params. Copy before you change it."""
    from tasks.synth.synthesize import Options, synthesize_example

    folder = tmp_path_factory.mktemp("example") / "example"
    synthesize_example(folder, Options())
    return folder


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own, so that no test sees another's runs or ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "das-flows"


@pytest.fixture(scope="session")
def client() -> Iterator[object]:
    """A client of a real Dask cluster of two worker processes, shared by the session."""
    from flows.execution.cluster import ClusterSettings, open_cluster

    with open_cluster(
        ClusterSettings(workers=2), Path(os.environ.get("TMPDIR", "/tmp")) / "das-flows-tests"
    ) as cluster_client:
        yield cluster_client


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A real Prefect server on a database of its own, shared by the session; it does what a temporary one does."""
    from prefect.settings import temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    import flows  # noqa: F401  sets prefect's environment before it is imported
    from flows.execution.prefect_server import NOT_NEEDED

    flows_tell = {
        "flows.heartbeat_frequency": None,
        "logging.to_api.enabled": False,
    }  # a heartbeat's end takes a second
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as environment:  # of the server alone: tests start others
            for name, value in NOT_NEEDED.items():
                environment.setenv(name, value)
            stack.enter_context(prefect_test_harness(server_startup_timeout=120))
        stack.enter_context(temporary_settings(flows_tell))
        yield
