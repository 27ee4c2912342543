"""The least that a system is: it counts the lines of a file, with noise. tests/flows/test_systems.py runs it.

In the house the stages would be a folder of tasks/, the settings and the flow files of flows/, the record a line of
flows/execution/systems.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from prefect import flow

from flows.execution.run import carry_out, flow_options
from flows.execution.runner import Runner
from flows.execution.settings import Location, RunSettings
from flows.execution.systems import System
from privacy.accounting.composition import spend
from privacy.accounting.journal import MarkName
from privacy.noise.laws import law
from privacy.noise.query_noise import QueryNoise
from tasks.lifecycle.authorization import read_drawing
from tasks.lifecycle.check import Check
from tasks.lifecycle.description import Description
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.manifest import made_by, write_manifest
from tasks.lifecycle.reservation import Charging, authorize, check_open
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers

TITLE = "Lines of a file, a toy"
SPEND = spend("zcdp", [Fraction(1)])
CONFIGURATION = sha256(b"one budget for all").hexdigest()


# The system's folder: a stage is a function of the run's directory.


@dataclass(frozen=True)
class Counted:
    input_digest: str
    records_digests: tuple[str, ...]
    mark: MarkName | None


def count(run: RunDirectory, workers: Workers, data: str) -> Counted:
    """Count the lines on a worker; the count stays in the confidential directory."""
    (digest,) = workers.map("count", run, count_lines, [(data,)])
    return Counted(digest, (digest,), mark=None)


def count_lines(run: RunDirectory, data: str) -> str:
    content = Path(data).read_bytes()
    save_object(run / "counts/lines", content.count(b"\n"))
    return sha256(content).hexdigest()


def reserve_budget(run: RunDirectory, charging: Charging, counted: Counted) -> None:
    authorize(run, charging, ("44",), SPEND, CONFIGURATION, counted)


def measure(run: RunDirectory, workers: Workers) -> None:
    workers.map("measure", run, add_noise, [()])


def add_noise(run: RunDirectory) -> None:
    noisy = load_object(run / "counts/lines", int)
    if drawing := read_drawing(run):  # none for a truth
        secret, given = drawing
        bound = {"input_digest": given.input_digest, "configuration_digest": given.configuration_digest}
        noise = QueryNoise(law("zcdp", SPEND.charged, 1), secret, query="toy/lines", **bound)
        noisy += int(noise.draw(np.array([0]))[0, 0])
    save_object(run / "noisy/lines", noisy)


def stage_release(run: RunDirectory, staged: Path) -> None:
    staged.mkdir(parents=True, exist_ok=True)
    (staged / "lines.json").write_text(json.dumps({"lines": load_object(run / "noisy/lines", int)}))
    public = {"release": TITLE, "run": run.id, "spent": SPEND.as_json(), "configuration_digest": CONFIGURATION}
    write_manifest(staged, public | made_by(run))


def checks(release: Path, _manifest: Mapping[str, Any]) -> Iterator[Check]:
    lines = json.loads((release / "lines.json").read_text())["lines"]
    yield Check("lines", "one count", () if isinstance(lines, int) else ("it is no number",))


# Its settings and its flow.


class ToySettings(RunSettings):
    SYSTEM = "toy"

    data: Location

    @property
    def folder(self) -> str:
        return "toy"

    def configuration_digest(self) -> str:
        return CONFIGURATION


@flow(name="toy", **flow_options(1))
def toy(settings: ToySettings) -> Any:
    return carry_out(settings)


def check(settings: ToySettings) -> bool:
    check_open(settings.charging)
    return True


def stages(run: Runner[ToySettings]) -> Path:
    counted = run.do("count", count, workers=run.workers, data=run.settings.data)
    gate = run.reserve(reserve_budget, given=counted, charge=lambda: SPEND, states=("44",), counted=counted)
    measured = run.submit("measure", measure, gate, workers=run.workers)
    staged = run.submit("release", stage_release, measured, staged=run.staged)
    return run.commit(staged)


def description(_manifest: Mapping[str, Any]) -> Description:
    return Description(())


class Page(str):
    """What stands for the pages of a release: a line."""


def show(release: Path, manifest: Mapping[str, Any], *_: object) -> Page:
    return Page(f"{manifest['release']}: {json.loads((release / 'lines.json').read_text())['lines']}")


# Its record.

TOY = System(
    name="toy",
    title=TITLE,
    command="das toy run",
    settings_class="toy_system:ToySettings",
    flow="toy_system:toy",
    stages="toy_system:stages",
    check="toy_system:check",
    release_checks="toy_system:checks",
    description="toy_system:description",
    page="toy_system:show",
)
