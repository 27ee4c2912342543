"""A SLURM of one node on this machine, from Debian's packages slurmctld, slurmd, slurm-client and munge."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
PATIENCE = 60  # seconds until the node must be idle
CONFIGURATION = """\
ClusterName=das
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 CPUs=2 RealMemory=5000 State=UNKNOWN
PartitionName=general Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Return why there can be no node here."""
    lacking = [daemon for daemon in DAEMONS if shutil.which(daemon) is None]
    if lacking:
        return f"no {', '.join(lacking)}: apt-get install slurmctld slurmd slurm-client munge"
    return None if os.geteuid() == 0 else "SLURM's daemons start as root"


@contextmanager
def slurm_node(folder: Path) -> Iterator[dict[str, str]]:
    """Start the daemons; give the variables with which SLURM's commands find them."""
    name = socket.gethostname().partition(".")[0]
    for each in ("munge", "state", "spool"):
        (folder / each).mkdir(parents=True)
    key = folder / "munge/key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    configuration = folder / "slurm.conf"
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    controller, node = _free_ports(2)
    configuration.write_text(CONFIGURATION.format(name=name, controller=controller, node=node, folder=folder))
    environment = {"SLURM_CONF": str(configuration)}
    munge = [f"--{what}={folder}/munge/{file}" for what, file in (("key-file", "key"), ("socket", "socket"))]
    munge += [f"--{what}={folder}/munge/{what}" for what in ("pid-file", "log-file", "seed-file")]
    with ExitStack() as stack:
        log = stack.enter_context(open(folder / "log", "wb"))

        def start(*words: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(words, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        daemons = [start("munged", "--foreground", "--force", *munge)]
        until = time.monotonic() + PATIENCE
        while not (folder / "munge/socket").exists():
            _wait_a_little(daemons, folder, until)
        daemons += [start("slurmctld", "-D", "-i"), start("slurmd", "-D")]
        while _node_state(environment) != "idle":
            _wait_a_little(daemons, folder, until)
        yield environment


def _node_state(environment: dict[str, str]) -> str:
    words = ["sinfo", "--noheader", "--format=%t"]
    return subprocess.run(words, env=os.environ | environment, capture_output=True, text=True).stdout.strip()


def _wait_a_little(daemons: list[subprocess.Popen[bytes]], folder: Path, until: float) -> None:
    """Wait a little for daemons that are all at work."""
    if time.monotonic() > until or any(daemon.poll() is not None for daemon in daemons):
        raise RuntimeError((folder / "log").read_text())
    time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in found]
