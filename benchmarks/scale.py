"""The series of whole runs up to the nation, and the cost model that it fits.

    python benchmarks/scale.py FOLDER [--params PARAMS] [--persons 1,3,10,30,30all,100,331] [--memory-limit 6GiB]
                               [--format parquet]

Makes synthetic nations in FOLDER (kept; about 80 bytes a person, of Parquet 4), runs `das run` over the US part of
each, start-up included, and writes FOLDER/scale.json and FOLDER/scale.svg. Sizes are in millions of persons, spread
thinly over the whole geography; but 1 means all of Rhode Island, which has few population groups, so that the model can
tell persons from groups, and 331 is the whole country. `all` after a size: nothing is suppressed, so that it can tell
persons from rows; 30all takes 20 GB more for the run.
The model: seconds = fixed + a * persons + b * population groups + c * released rows, each not negative; and one of
processor seconds, which depend less on who else uses the machine.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from measure import DAS, DATA, arguments, describe, machine, measure_das
from scipy.optimize import nnls

from tasks.releases.pages.charts import BLUE, ORANGE, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE_STATE = "44"  # Rhode Island, 1,097,379 persons
ALL = "all"
SUPPRESSION = "zero_suppression_chance"
SECONDS = (15, 30, 60, 120, 240)  # ticks of the chart


def make(folder: Path, size: str, params: Path, form: str) -> Path:
    """The synthetic nation of a size, made once."""
    millions = int(size.removesuffix(ALL))
    out = folder / f"nation-{millions}-{form}"
    if not out.exists():
        part = {1: ["--only-state", ONE_STATE], 331: []}.get(millions, ["--persons", str(millions * 1_000_000)])
        command = [DAS, "synth", "nation", str(out), "--params", str(params), "--record-format", form, *part]
        subprocess.run(command, check=True)
    settings = json.loads((out / "params/config.json").read_text())
    settings["run_pr"] = False  # a run of its own, of little size
    settings.pop(SUPPRESSION, None)
    if not size.endswith(ALL):
        settings[SUPPRESSION] = json.loads((params / "config.json").read_text())[SUPPRESSION]
    (out / "params/config.json").write_text(json.dumps(settings, indent=1))
    return out


def run(folder: Path, nation: Path, memory_limit: str) -> dict:
    """One `das run` from text files, measured as a whole."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        out, state = Path(scratch) / "out", Path(scratch) / "state"
        words = "run", nation / "params", nation / "data", out, "--memory-limit", memory_limit, "--runs-folder", state
        result, _ = measure_das(*words, "--no-spine", scratch=state)
        manifest = json.loads((out / "us/manifest.json").read_text())
        files = (out / "us/parquet").rglob("*.parquet")
        return {
            **result,
            "persons": _rows(nation / "data"),
            "groups": sum(level["groups"] for level in manifest["levels"].values()),
            "rows": sum(pq.read_metadata(path).num_rows for path in files),
        }


def _rows(data: Path) -> int:
    """Rows of the person records; of text, whose lines are nearly of one length, their bytes over a sample's mean."""
    path = data / "person-records.parquet"
    if path.exists():
        return int(pq.read_metadata(path).num_rows)
    path = data / "person-records.txt"
    with open(path, "rb") as stream:
        sample = stream.read(1 << 24)
    return round(path.stat().st_size / (len(sample) / sample.count(b"\n")))


def fit(points: list[dict], what: str) -> dict[str, float]:
    """Coefficients of the cost model of seconds or processor seconds, relative errors weighted alike."""
    names = ("persons", "groups", "rows")
    scale = np.array([1.0, 1e6, 1e6, 1e6])
    matrix = np.array([[1.0, *(point[name] for name in names)] for point in points]) / scale
    seconds = np.array([point[what] for point in points])
    weights = 1 / seconds
    coefficients, _ = nnls(matrix * weights[:, None], seconds * weights)
    fitted = matrix @ coefficients
    for point, modelled in zip(points, fitted, strict=True):
        point[f"modelled_{what}"] = float(modelled)
    return {
        "fixed_seconds": coefficients[0],
        "seconds_per_million_persons": coefficients[1],
        "seconds_per_million_groups": coefficients[2],
        "seconds_per_million_rows": coefficients[3],
        "largest_relative_error": float(np.abs(fitted / seconds - 1).max()),
    }


def draw(facts: dict) -> Figure:
    """Seconds and peak memory over persons, and what the model says of the seconds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    series = [point for point in facts["points"] if not point["size"].endswith(ALL)]
    points = sorted(series, key=lambda point: point["persons"])
    persons = [point["persons"] / 1e6 for point in points]
    figure = Figure(figsize=(9, 3.6))
    left, right = figure.subplots(1, 2)
    if "model" in facts:
        left.plot(persons, [point["modelled_seconds"] for point in points], color=ORANGE, label="model")
    left.plot(persons, [point["seconds"] for point in points], "o", color=BLUE, label="measured")
    left.legend()
    left.set(yscale="log", title="seconds, start-up included")
    left.set_yticks(SECONDS, [str(tick) for tick in SECONDS])
    right.plot(persons, [point["peak_bytes"] / 2**30 for point in points], "o-", color=BLUE)
    right.set(title="peak memory of all processes (GiB)", ylim=(0, None))
    for axes in (left, right):
        axes.set(xscale="log", xlabel="persons (millions)")
        axes.set_xticks(persons, [f"{millions:.0f}" for millions in persons])
        axes.xaxis.set_minor_locator(NullLocator())
    left.yaxis.set_minor_locator(NullLocator())
    figure.suptitle(f"das run from {facts['form']}, {facts['machine']}")
    return figure


def line(point: dict) -> str:
    """A point for a reader."""
    volumes = f"{point['persons']:>13,} persons {point['groups']:>13,} groups {point['rows']:>12,} rows"
    return f"{volumes} {describe(point)}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--params", type=Path, default=DATA / "params-2020-production")
    parser.add_argument(
        "--persons",
        default="1,3,10",
        help="millions, as 1,3,10,30,30all,100,331; default 1,3,10, too few for the model",
    )
    parser.add_argument("--memory-limit", default="auto")
    parser.add_argument("--format", choices=["text", "parquet"], default="text", help="of the person records")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    points = []
    for size in chosen.persons.split(","):
        point = run(chosen.folder, make(chosen.folder, size, chosen.params, chosen.format), chosen.memory_limit)
        points.append({"size": size, **point})
        print(line(point), flush=True)
    facts = {
        "form": {"text": "text", "parquet": "Parquet"}[chosen.format],
        "machine": machine(),
        "points": points,
    }
    if len(points) > 4:  # as many points as coefficients would fit anything
        facts["model"], facts["processor_model"] = fit(points, "seconds"), fit(points, "processor_seconds")
        print(json.dumps({name: facts[name] for name in ("model", "processor_model")}, indent=1))
    (chosen.folder / "scale.json").write_text(json.dumps(facts, indent=1))
    save(lambda: draw(facts), chosen.folder / "scale.svg")


if __name__ == "__main__":
    main()
