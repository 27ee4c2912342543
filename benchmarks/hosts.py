"""What a second host buys: one run on one host and on two, each a network namespace with one core of this machine.

    python benchmarks/hosts.py PARAMS DATA [--json] [--scratch FOLDER]       # das run
    python benchmarks/hosts.py DATA [-- --estimator gls]                     # das tda run, with further options of it

PARAMS and DATA as `das synth` makes them, DATA alone as `das tda synth` does (synthetic: nothing is charged). Needs
root, Debian's iproute2 and two cores that nothing else uses. The first host, on the first core, holds the flow, its
Prefect server, the scheduler and a worker; the second, on the second core, a worker. Both runs have one secret: their
releases are compared byte by byte; a run before them compiles TopDown's kernels. A stage's seconds are from the
beginning of its first piece to the end of its last; stages of different levels overlap.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from measure import DAS, arguments, machine
from two_hosts import Host, NoNamespacesError, namespaces, tls_cluster

RUN = "hosts"


@dataclass(frozen=True)
class Measured:
    """The command that is measured: its words before OUT, those after, and the ids of the runs that it makes."""

    words: tuple[str, ...]
    options: tuple[str, ...]
    runs: tuple[str, ...]

    @property
    def name(self) -> str:
        """How it is called."""
        return "das " + " ".join(word for word in self.words if word in ("tda", "run"))


def measured(inputs: Sequence[str], options: Sequence[str]) -> Measured:
    """The command for these inputs: DATA alone is TopDown's."""
    paths = tuple(str(Path(path).absolute()) for path in inputs)
    if len(paths) == 1:
        return Measured(("tda", "run", *paths), tuple(options), (RUN,))
    return Measured(("run", *paths), ("--no-spine", *options), (f"{RUN}-us", f"{RUN}-pr"))


def run(folder: Path, of: Measured, hosts: Sequence[Host], secret: bytes) -> dict[str, Any]:
    """One run from the first of the hosts; seconds with and without the start, of each stage, and the digest."""
    (folder / "cluster").mkdir(parents=True)
    for each in of.runs:
        prepared = folder / f"state/runs/{each}"
        prepared.mkdir(parents=True, mode=0o700)
        (prepared / "secret").write_bytes(secret)
    with tls_cluster(folder / "cluster", Path(__file__).with_name("piece_log.py"), hosts) as cluster:
        words = [DAS, *of.words, folder / "out", "--state", folder / "state", "--run-id", RUN, *of.options]
        command = [*hosts[0].enter, *map(str, words), *cluster.options]
        environment = os.environ | {"PREFECT_HOME": str(folder / "prefect")}
        begin = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise SystemExit(f"{of.name} failed: {done.stderr}")
        pieces = [json.loads(line) for line in cluster.note.read_text().splitlines()]
    return {"hosts": len(hosts), "seconds": seconds, **summed(pieces), "digest": digest(folder / "out")}


def summed(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds from the first piece to the last, by stage and in all, and how long each host was at work."""
    spans: dict[str, list[float]] = {}
    busy: dict[str, float] = defaultdict(float)
    for piece in pieces:
        stage = piece["stage"].partition(" (")[0]
        begin, end = spans.get(stage, (piece["begin"], piece["end"]))
        spans[stage] = [min(begin, piece["begin"]), max(end, piece["end"])]
        busy[piece["host"]] += piece["end"] - piece["begin"]
    return {
        "stages": {stage: end - begin for stage, (begin, end) in spans.items()},
        "working": max(end for _, end in spans.values()) - min(begin for begin, _ in spans.values()),
        "busy": dict(busy),
    }


def digest(folder: Path) -> str:
    """One digest of all names and bytes below a folder."""
    whole = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(str(path.relative_to(folder)).encode() + sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("inputs", nargs="+", metavar="PARAMS DATA, or DATA")
    parser.add_argument("--scratch", type=Path, default=None, help="where run directories and releases go")
    parser.add_argument("--json", action="store_true")
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    chosen, options = parser.parse_args(words[:at]), words[at + 1 :]
    if len(chosen.inputs) > 2:
        parser.error("give PARAMS and DATA of das run, or DATA of das tda run")
    of, secret = measured(chosen.inputs, options), secrets.token_bytes(32)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("two hosts of a core each need two cores")
    try:
        with tempfile.TemporaryDirectory(dir=chosen.scratch) as scratch, namespaces() as hosts:
            pinned = [
                replace(host, enter=("taskset", "-c", str(cores[n]), *host.enter)) for n, host in enumerate(hosts)
            ]
            if "tda" in of.words:
                run(Path(scratch) / "kernels-compiled", of, pinned, secret)
            one = run(Path(scratch) / "one", of, pinned[:1], secret)
            two = run(Path(scratch) / "two", of, pinned, secret)
    except NoNamespacesError as error:
        parser.error(str(error))
    result = {
        "machine": machine(),
        "load": os.getloadavg()[1],
        "one": one,
        "two": two,
        "ratio": one["seconds"] / two["seconds"],
        "ratio_working": one["working"] / two["working"],
        "same_bytes": one["digest"] == two["digest"],
    }
    if chosen.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{result['machine']}, load {result['load']:.1f} (5 minutes)")
    print(f"{'':<24}{'one host':>10}{'two hosts':>11}{'ratio':>8}")
    rows = {stage: (seconds, two["stages"].get(stage, 0.0)) for stage, seconds in one["stages"].items()}
    rows |= {"first piece to last": (one["working"], two["working"]), of.name: (one["seconds"], two["seconds"])}
    for name, (first, second) in rows.items():
        print(f"{name:<24}{first:>8.2f} s{second:>9.2f} s{first / second if second else float('nan'):>8.2f}")
    for name, of in (("one host", one), ("two hosts", two)):
        print(f"work on {name}: {' and '.join(f'{seconds:.2f} s' for seconds in of['busy'].values())}")
    print(f"the same bytes: {'yes' if result['same_bytes'] else 'NO'}")


if __name__ == "__main__":
    main()
