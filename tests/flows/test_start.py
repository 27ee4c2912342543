"""What a command starts ahead and shares: the fork server, one cluster for its runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from flows import LIBRARIES
from flows.commands.runner import how_to_resume
from flows.execution.cluster import ClusterSettings, OneCluster, open_cluster
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.systems import SYSTEMS

ONE_WORKER = ClusterSettings(workers=1)


@pytest.mark.parametrize("forked", [True, False])
def test_the_fork_server_has_imported_the_stages_and_has_no_thread_but_its_own(forked: bool, tmp_path: Path) -> None:
    """Whether it is forked or starts anew; in a process of its own: here another test may have started it."""
    program = (
        "import multiprocessing, os, signal, sys\n"
        "from multiprocessing import forkserver\n"
        "from pathlib import Path\n"
        "from flows.execution.systems import SYSTEMS\n"
        "from flows.execution.fork_server import METHOD, start_fork_server\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"  # as `das` does
        "opened = open(sys.argv[1], 'w')\n"
        "start_fork_server(*sum(SYSTEMS['detailed-dhca'].modules.values(), ()))\n"
        "with multiprocessing.get_context(METHOD).Pool(1) as pool:\n"
        "    print(*pool.apply(eval, (\"sorted(__import__('sys').modules)\",)))\n"
        "    print(pool.apply(eval, (\"__import__('signal').getsignal(15)\",)))\n"
        "    threads = \"__import__('os').listdir('/proc/self/task')\"\n"
        "    product = \"(lambda ones: ones @ ones)(__import__('numpy').ones((500, 500)))\"\n"  # by OpenBLAS
        "    print(pool.apply(eval, (f'{threads} == ({product}, {threads})[1]',)))\n"
        "server = Path(f'/proc/{forkserver._forkserver._forkserver_pid}')\n"
        "words = [(place / 'cmdline').read_bytes() for place in (server, Path('/proc/self'))]\n"
        "print(len(list((server / 'task').iterdir())), words[0] == words[1])\n"
        "print(sys.argv[1] in map(os.readlink, (server / 'fd').iterdir()))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in LIBRARIES}
    words = [sys.executable, "-c", program, tmp_path / "opened"]
    facts = subprocess.run(
        words, capture_output=True, text=True, check=True, env=environment | (LIBRARIES if forked else {})
    )
    modules, on_signal, one_thread, server, file = facts.stdout.splitlines()
    assert {*sum(SYSTEMS["detailed-dhca"].modules.values(), ()), "distributed.nanny", "pyarrow"} <= set(modules.split())
    assert "prefect" not in modules.split()
    assert on_signal == "0", "a nanny ends its worker by SIGTERM"
    assert one_thread == "True"
    assert server == f"1 {forked}", "a process with threads must not be forked"
    assert file == "False"


@pytest.mark.parametrize("busy", [0, 60], ids=["idle worker", "busy worker"])
def test_a_killed_command_leaves_no_folder_of_sockets(busy: int) -> None:
    program = (
        "import multiprocessing, os, signal, time\n"
        "from flows.execution.fork_server import METHOD, get_temp_dir, start_fork_server\n"
        "start_fork_server()\n"
        "pool = multiprocessing.get_context(METHOD).Pool(1)\n"
        "pool.apply(abs, (1,))\n"
        f"pool.apply_async(time.sleep, ({busy},))\n"
        "time.sleep(0.5)\n"
        "print(get_temp_dir(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", program]
    facts = subprocess.run(command, capture_output=True, text=True, env=os.environ | LIBRARIES, check=False)
    assert facts.returncode == -signal.SIGKILL  # its output ends when the fork server has ended
    assert not Path(facts.stdout.strip()).exists()


def test_runs_of_a_command_share_a_cluster(tmp_path: Path) -> None:
    with OneCluster(tmp_path / "dask"):
        with open_cluster(ONE_WORKER, tmp_path / "one") as first:
            pass
        with open_cluster(ONE_WORKER, tmp_path / "two") as second:
            assert second is first
        with pytest.raises(RuntimeError, match="a stage failed"), open_cluster(ONE_WORKER, tmp_path / "three"):
            raise RuntimeError("a stage failed")
        assert first.status == "closed"  # no work of the failed run goes on
        with open_cluster(ONE_WORKER, tmp_path / "four") as third:
            assert third.submit(os.getpid).result() != os.getpid()
    assert third.status == "closed"
    assert [path.name for path in tmp_path.iterdir()] in ([], ["dask"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "this data needs an account"),
        ("--account homes", "account homes is for households"),
        (
            "--account small",
            "US was refused: account small has too little budget left: the run needs rho 3.35; state 31 has 3 of 3; so "
            "PR is not released",
        ),
        ("--account tiny", "US was refused: account tiny has too little budget left"),
    ],
)
def test_two_jurisdictions_that_are_refused_alike_say_it_once(
    das: Callable[..., tuple[int, str, str]],
    example: Path,
    tmp_path: Path,
    options: str,
    reason: str,
) -> None:
    """No run, server or cluster begins where the account is not named or cannot pay."""
    from e2e_runs import open_account, real_data

    real_data(example, tmp_path)
    open_account(tmp_path, 1000, name="homes", unit="household")
    open_account(tmp_path, 3, name="small")
    open_account(tmp_path, 1, name="tiny")
    ledger = tmp_path / "ledger.sqlite"
    code, _, said = das(
        "run", tmp_path / "params", tmp_path / "data", tmp_path / "out", *options.split(), "--ledger", ledger
    )
    assert code == 1
    (line,) = said.partition("refused: ")[2].splitlines()
    assert line.startswith(reason)
    assert "\nRun " not in said


@pytest.mark.parametrize(("both", "named"), [(True, "pr"), (False, "us")])
def test_an_interrupted_command_names_the_part_whose_directory_stays_the_longest(both: bool, named: str) -> None:
    asked = {"params": "p", "data": "d", "out": "o", "runs_folder": "s", "both": both}
    settings = DetailedDhcaSettings.new(**asked, jurisdiction="us", run_id="a-us")
    assert re.findall(r"das run --resume a-(\w+)", how_to_resume(settings)) == [named]


def test_the_program_says_its_version_and_python_starts_it_as_well() -> None:
    """Without the libraries that take longest to import."""
    words = [sys.executable, "-X", "importtime", "-m", "flows.cli", "--version"]
    facts = subprocess.run(words, capture_output=True, text=True, check=True)
    assert facts.stdout == f"das-flows {version('das-flows')}\n"
    imported = {line.rpartition("|")[2].strip() for line in facts.stderr.splitlines()}
    assert {"flows.commands", "numpy", "pyarrow"} <= imported
    assert {"pandas", "scipy", "numba", "duckdb", "prefect", "distributed", "matplotlib"} & imported == set()
