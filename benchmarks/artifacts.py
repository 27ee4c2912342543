"""What a run's artifacts cost: how many calls a run makes for them, times the processor milliseconds of a call.

    PREFECT_API_URL=http://127.0.0.1:4200/api python benchmarks/artifacts.py SERVER_PID das run params data out …

Two runs differ by more than artifacts cost, so the calls are counted in a run and timed by themselves, CALLS of a kind,
in this process and in the server, which must be idle otherwise. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from measure import measure
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

CALLS = 300
COUNTS = """
import atexit, json, sys
from collections import Counter
from pathlib import Path
from prefect.client.orchestration import SyncPrefectClient as Client
count = Counter()
def counted(name, call):
    def counting(*arguments, **options):
        count[name] += 1
        return call(*arguments, **options)
    setattr(Client, name, counting)
for name in ("create_artifact", "update_artifact"):
    counted(name, getattr(Client, name))
place = sys.argv.pop(1)
atexit.register(lambda: Path(place).write_text(json.dumps(count)))
from das_flows import main
if __name__ == "__main__":
    main()
"""


def main(server: int, words: list[str]) -> None:
    """Print the calls of a run, what each costs, and their share of the run's processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "counts"
        before = of_server(server)
        run = measure([sys.executable, "-c", COUNTS, str(place), *words], stdout=sys.stderr)
        time.sleep(5)  # the server enters tasks after the run
        processor = run["processor_seconds"] + of_server(server) - before
        counts = json.loads(place.read_text())
    with get_client(sync_client=True) as client:
        result = ArtifactCreate(key="benchmark", type="progress", data=0.0, description="a benchmark")
        made = client.create_artifact(result).id
        each = {
            "create_artifact": timed(server, lambda _: client.create_artifact(result)),
            "update_artifact": timed(server, lambda number: client.update_artifact(made, ArtifactUpdate(data=number))),
        }
    spent = sum(counts.get(name, 0) * milliseconds / 1000 for name, milliseconds in each.items())
    result = {"run_seconds": run["seconds"], "run_processor_seconds": processor, "calls": counts, "milliseconds": each}
    print(json.dumps(result | {"share": spent / processor}))


def timed(server: int, call: Callable[[int], object]) -> float:
    """Return the processor milliseconds of a call, here and in the server."""
    call(0)
    before = time.process_time() + of_server(server)
    for number in range(CALLS):
        call(number)
    return 1000 * (time.process_time() + of_server(server) - before) / CALLS


def of_server(pid: int) -> float:
    """Return the processor seconds of a server and the processes below it."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    main(int(sys.argv[1]), sys.argv[3:])
