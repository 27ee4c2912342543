"""The least that a system is: it counts the empty and other lines of a file, with noise.

tests/systems/ runs it with all others. In the house the stages would be a folder of tasks/, settings and the order of
stages files of flows/, the record one of flows/execution/systems.py; and it would have checks of its own and a
deployment (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from flows.execution.option import argument
from flows.execution.runner import Runner
from flows.execution.settings import Location, RunSettings
from flows.execution.systems import System
from privacy.accounting.composition import Spend, spend
from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from tasks.errors import Refused
from tasks.lifecycle.authorization import is_truth, read_drawing
from tasks.lifecycle.commit import manifest_of
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.reservation import Claim, Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.lifecycle.staging import stage_in_one_piece
from tasks.lifecycle.workers import Workers
from tasks.records.marks import mark_folder, name_if_covered, read_mark
from tasks.releases.describe import write_descriptions
from tasks.releases.description import Column, Description, Table
from tasks.releases.digests import file_digest
from tasks.releases.manifest import noise_law

TITLE = "Lines of a file, a toy"
SPEND = spend("zcdp", [Fraction(1)])
LAW = law("zcdp", SPEND.charged, 1)
CONFIGURATION = sha256(b"one budget for all").hexdigest()


# The system's folder: a stage is a function of the run's directory.


def count(run: RunDirectory, workers: Workers, data: str) -> Input:
    """Count the lines on a worker; the count stays in the confidential directory."""
    (digests,) = workers.map("count", run, count_lines, [(data,)])
    mark = name_if_covered(read_mark(mark_folder(data)), {Path(data).name: digests[0]})
    counted = Input(digests[0], digests, mark)
    save_object(run / VALIDATED, counted)
    return counted


def count_lines(run: RunDirectory, data: str) -> tuple[str, str]:
    """Count the lines; return the digests of the file and of its records in any order."""
    content = Path(data).read_bytes()
    if b"\0" in content:
        raise Refused("the file is not text: a line holds the character NUL")
    lines = content.split(b"\n")[:-1]
    save_object(run / "counts/lines", (lines.count(b""), len(lines) - lines.count(b"")))
    return file_digest(data), sha256(b"\n".join(sorted(lines))).hexdigest()


def claim(run: RunDirectory, counted: Input) -> Claim:
    return Claim(run, ("44",), SPEND, CONFIGURATION, counted)


def measure(run: RunDirectory, workers: Workers) -> None:
    workers.map("measure", run, add_noise, [()])


def add_noise(run: RunDirectory) -> None:
    noisy = np.array(load_object(run / "counts/lines", tuple[int, int]))
    if drawing := read_drawing(run):  # none for a truth
        noisy += drawing.noise(LAW, "toy/lines").draw(np.arange(2))[:, 0]
    save_object(run / "noisy/lines", tuple(noisy.tolist()))


def write_release(run: RunDirectory, staged: Path) -> None:
    margin = 0 if is_truth(run) else margin_of_error(LAW)
    counts = load_object(run / "noisy/lines", tuple[int, int])
    rows = [f"{kind}|{count}|{margin}\n" for kind, count in enumerate(counts)]
    (staged / "lines.csv").write_text("KIND|LINES|MOE\n" + "".join(rows))
    facts = {"spent": None if is_truth(run) else SPEND.as_json(), "configuration_digest": CONFIGURATION}
    public = manifest_of(run, TITLE, load_object(run / VALIDATED, Input).mark, facts)
    write_descriptions(staged, description(public), public)


# Its description: pages, frames, checks of form, Excel and the dictionary follow from it.

LINES = Table(
    "Lines of the file",
    (
        Column("KIND", "code", "the kind of line", {"0": "empty", "1": "with text"}),
        Column("LINES", "lines", "how many there are, with noise", type="integer", role="count", frame="count"),
        Column("MOE", "lines", "the margin of error at 95%", type="integer", role="margin", of="LINES", frame="margin"),
    ),
    text="lines.csv",
    key=("KIND",),
    counts=True,
)


def description(_manifest: Mapping[str, Any]) -> Description:
    return Description((LINES,), lambda _: [{"cells": 1, **noise_law(LAW)}], required=("lines.csv",))


# Its settings, and its stages in order.


class ToySettings(RunSettings):
    SYSTEM = "toy"

    DATA = ("lines",)
    IS_TABLE = True

    lines: Location = argument("LINES", "A file of lines.")  # no other system has it: a dry run knows the toy by it

    def spends(self) -> dict[str, Spend]:
        return {"TOY": SPEND}

    def charged_states(self) -> tuple[str, ...]:
        return ("44",)

    def configuration_digest(self) -> str:
        return CONFIGURATION


def stages(run: Runner[ToySettings]) -> Path:
    counted = run.do("count", count, workers=run.workers, data=run.settings.lines)
    gate = run.reserve(claim, given=counted, counted=counted)
    measured = run.submit("measure", measure, gate, workers=run.workers)
    staged = run.submit(
        "release", stage_in_one_piece, measured, workers=run.workers, staged=run.staged, write=write_release
    )
    return run.commit(staged)


# Its record.

TOY = System(
    name="toy",
    title=TITLE,
    command="das toy run",
    settings_class="toy_system:ToySettings",
    stages="toy_system:stages",
    description="toy_system:description",
    group="A toy.",
    about="Count the empty and other lines of a file, with noise.",
    example="`das toy run lines.txt out/ --account toys`",
    words="lines.txt",
    inputs=("lines",),
)
