"""Measure how long a small run and the imports that it cannot do without take, in turn.

    python benchmarks/small_run.py [--times 5]

Runs `das run` over the bundled example (8,000 persons, US and Puerto Rico) without a Prefect server, and before it,
each time, `python -c "import prefect, distributed, pyarrow, scipy.sparse, pandas"`. Prints the seconds of both, and
the processor-seconds of all their processes, and the ratios: other work of the machine slows both. The last line is
JSON, with the medians.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from measure import arguments, seconds_of

from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options

IMPORTS = [sys.executable, "-c", "import prefect, distributed, pyarrow, scipy.sparse, pandas"]
DAS = [sys.executable, "-c", "from das_flows import main\nif __name__ == '__main__': main()"]


def main() -> None:
    """Measure both in turn, once to warm up and then as often as asked."""
    parser = arguments(__doc__)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize_example(folder, Options())
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PREFECT_HOME": str(folder / "prefect"), "XDG_STATE_HOME": str(folder / "state")}
        environment.pop("PREFECT_API_URL", None)
        out = folder / "out"
        run = [*DAS, "run", str(folder / "params"), str(folder / "data"), str(out)]
        ratios = []
        for number in range(times + 1):
            imports, imports_work = seconds_of(IMPORTS, env=environment)
            total, work = seconds_of(run, env=environment)
            shutil.rmtree(out)
            if number:  # the first makes Python's caches
                ratios.append((total / imports, work / imports_work))
            print(
                f"{total:.1f} s, imports {imports:.1f} s, ratio {total / imports:.1f}; "
                f"processors {work:.1f} s, imports {imports_work:.1f} s, ratio {work / imports_work:.1f}; "
                f"load {os.getloadavg()[0]:.1f}{'' if number else ' (not counted: to warm up)'}",
                flush=True,
            )
    wall, processors = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(json.dumps({"ratio": round(wall, 2), "ratio_of_processor_seconds": round(processors, 2), "times": times}))


if __name__ == "__main__":
    main()
