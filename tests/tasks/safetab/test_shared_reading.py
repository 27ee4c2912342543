"""US and Puerto Rico of one command read the persons once, and each finds and keeps what it does alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dhca_faults import FAULTS, Fault
from dhca_inputs import HERE, Inputs, cut_files, new_run, people, settings_here, validate_here

from flows.execution.runner import InProcess
from tasks.errors import Refused
from tasks.lifecycle.files import open_array
from tasks.records.findings import Finding, load_findings
from tasks.records.records import read_chunk
from tasks.safetab import encode
from tasks.safetab.encode import encoded_chunks
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.run import ValidatedSafeTab
from tasks.safetab.validation import RunPart, validate

CHUNK = 700  # bytes: some persons of one jurisdiction, of the other, and of both
ARRAYS = ("block", "ends", "cell", "combination", "combinations")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the chunks that are read, in small chunks."""
    numbers: list[int] = []
    cut_files(monkeypatch, CHUNK)

    def counted(file: Any, number: int, **options: Any) -> Any:
        numbers.append(number)
        return read_chunk(file, number, **options)

    monkeypatch.setattr(encode, "read_chunk", counted)
    return numbers


def country(folder: Path) -> tuple[Path, Path]:
    """Persons of the US, then of both, then of Puerto Rico."""
    inputs = Inputs()
    inputs.config |= {"run_us": True, "run_pr": True}
    of_pr = people(30, seed=2, blocks=inputs.blocks[7:])
    inputs.persons = [*people(40), *of_pr[:5], *people(5, seed=3), *of_pr[5:]]
    return inputs.write(folder)


def validated_together(
    us: DetailedRun, pr: DetailedRun, params: Path, data: Path
) -> dict[str, ValidatedSafeTab | None]:
    try:
        return validate([RunPart(us, "us"), RunPart(pr, "pr")], HERE, str(params), str(data))
    except Refused:
        return {}


def kept(run: DetailedRun) -> tuple[list[Finding], dict[str, Any]]:
    """What validation leaves: the findings, and each chunk's arrays."""
    folders = list(encoded_chunks(run)) if (run / "records").exists() else []
    arrays = {f"{at.name}/{name}": np.asarray(open_array(at, name)).tolist() for at in folders for name in ARRAYS}
    return load_findings(run), {name: array for name, array in arrays.items() if array}


OF_DATA = [fault for fault in FAULTS if fault.name.startswith(("person", "grf"))]


@pytest.mark.parametrize("fault", [None, *OF_DATA[::40]], ids=lambda fault: fault.name if fault else "none")
def test_both_find_and_keep_what_each_does_alone(tmp_path: Path, read: list[int], fault: Fault | None) -> None:
    params, data = country(tmp_path)
    if fault:
        fault.change(tmp_path)
    alone = {jurisdiction: new_run(tmp_path, f"alone-{jurisdiction}") for jurisdiction in ("us", "pr")}
    expected = {jurisdiction: validate_here(run, params, data, jurisdiction) for jurisdiction, run in alone.items()}  # type: ignore[arg-type]
    chunks = len(set(read))
    read.clear()
    us, pr = new_run(tmp_path, "us"), new_run(tmp_path, "pr")
    results = {name: of for name, (of, _) in expected.items()}
    assert validated_together(us, pr, params, data) == ({} if None in results.values() else results)
    assert kept(us) == kept(alone["us"])
    assert kept(pr) == kept(alone["pr"])
    if fault is None:
        assert expected["us"][0]
        assert expected["pr"][0]
        assert sorted(read) == list(range(chunks))
        assert chunks > 5


def test_names_that_cannot_be_read_are_refused_before_a_person_is_counted(tmp_path: Path) -> None:
    """By das validate too, which stops there."""
    params, data = country(tmp_path)
    os.mkfifo(data / "names.csv")
    settings = settings_here(tmp_path, params, data, "us", "run")
    with pytest.raises(Refused, match=r"names\.csv cannot be read for names or points"):
        InProcess(settings, HERE, before=settings.VALIDATED).run()
