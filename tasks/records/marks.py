"""SYNTHETIC.json, PUBLIC.json: a mark next to data files that declares them made up, or published by somebody.

Marked data (docs/spec/files.md#marks-of-data) costs no privacy budget, so a mark holds the digest of every file that it
covers: a mark copied to other data, or data changed under a mark, is an error and never an exemption.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privacy.accounting.journal import MarkName
from tasks.errors import Refused
from tasks.lifecycle.files import atomic_path
from tasks.records.files import file_name, read_bytes, why
from tasks.releases.digests import file_digest

MARK_FILES: dict[MarkName, str] = {"SYNTHETIC": "SYNTHETIC.json", "PUBLIC": "PUBLIC.json"}
MARK_FILE = MARK_FILES["SYNTHETIC"]
GRF_FILE = "GRF-C.txt"
MARKED_BY: dict[MarkName, str] = {
    "SYNTHETIC": "mark it (das synth --mark DATA)",
    "PUBLIC": "make the inputs again (das tda public)",
}
UNMARKED = (
    "the data is not marked synthetic or public: its errors would reveal its exact counts; take data that das synth "
    "makes up, or for das tda tune a block table"
)


@dataclass(frozen=True)
class DataFiles:
    """The data files of a system in a folder: any of its `records`, all that it `needs`, and what it reads if there."""

    records: tuple[str, ...]
    needs: tuple[str, ...]
    if_there: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """The contents of a mark.

    generator: what made the data, e.g. `das synth nation`; `declared by its owner` for `das synth --mark`.
    version: version of the generator; its output for a seed may change with it.
    seed: seed of the generator; None when the data was declared.
    digests: digest of each covered file (tasks.releases.digests) by its name in the directory.
    source: who published public data and in which files; None for synthetic data. population: how true to life a
        generator's persons are, and what of the published blocks was repaired.
    """

    generator: str
    version: str
    seed: int | None
    digests: Mapping[str, str]
    source: str | None = None
    population: Mapping[str, Any] | None = None

    @property
    def name(self) -> MarkName:
        """Why the data is not charged: it is made up, or public."""
        return "SYNTHETIC" if self.source is None else "PUBLIC"

    @property
    def file(self) -> str:
        """The name of the mark's file."""
        return MARK_FILES[self.name]

    @property
    def facts(self) -> dict[str, Any]:
        """The contents of the mark's file."""
        return {name: value for name, value in asdict(self).items() if value is not None or name == "seed"}

    def check(self, digests: Mapping[str, str]) -> None:
        """Raise Refused unless every file of `digests` (by name) is covered and is what it was when marked."""
        for name, digest in digests.items():
            if name not in self.digests:
                raise Refused(f"{self.file} does not cover {name}: {MARKED_BY[self.name]} or remove the mark")
            if digest != self.digests[name]:
                raise Refused(
                    f"{name} is not the file that {self.file} declares {self.name.lower()}: it was changed or replaced"
                )


def parse_mark(text: str, file: str = MARK_FILE) -> Mark:
    """Return the mark in the text of a mark's file. Raises Refused when it is not one."""
    try:
        mark = Mark(**json.loads(text))
        if isinstance(mark.digests, dict) and isinstance(mark.source, str | None) and mark.file == file:
            return mark
    except (TypeError, ValueError, RecursionError):
        pass  # neither JSON nor the fields
    source = ", source" if file != MARK_FILE else ""
    raise Refused(f"{file} is not a mark: it needs generator, version, seed{source} and digests by file name")


def mark_folder(table: str) -> str:
    """Return the folder of a table by path or URL, where its mark is."""
    folder, slash, _ = table.rpartition("/")
    return folder or slash or "."


def mark_files(data: str | Path) -> list[str]:
    """Return the paths that marks of a data directory have, by path or URL."""
    return [f"{str(data).rstrip('/')}/{file}" for file in MARK_FILES.values()]


def read_mark(data: str | Path) -> Mark | None:
    """Return the mark of a data directory by path or URL; or None.

    Raises Refused where it is damaged, or where there are two.
    """
    found = []
    for path in mark_files(data):
        try:
            found.append(parse_mark(read_bytes(path).decode("utf-8", "replace"), file_name(path)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Refused(f"{path} cannot be read: {why(error)}") from None
    if len(found) > 1:
        raise Refused(f"{data} has two marks, {' and '.join(MARK_FILES.values())}: remove the wrong one")
    return found[0] if found else None


def name_if_covered(mark: Mark | None, digests: Mapping[str, str]) -> MarkName | None:
    """Return the name of a mark that covers these files, None without a mark. Raises Refused as `Mark.check` does."""
    if mark is None:
        return None
    mark.check(digests)
    return mark.name


def mark_table(table: Path, *, generator: str, version: str) -> Mark:
    """Mark a table of records, as of `das bottom-up`, by the mark of its folder; the mark goes on covering other files.

    Raises Refused where the folder's mark is damaged or of another kind.
    """
    before = read_mark(table.parent)
    if before is not None and before.name != "SYNTHETIC":
        raise Refused(f"{table.parent / before.file} says that data here is public: put {table.name} elsewhere")
    others = before.digests if before else {}
    return save_mark(table.parent, Mark(generator, version, None, {**others, table.name: file_digest(table)}))


def save_mark(data: Path, mark: Mark) -> Mark:
    """Write a mark next to the files that it covers, and return it."""
    with atomic_path(data / mark.file) as temporary:  # never through a named pipe or a link that has its name
        temporary.write_text(json.dumps(mark.facts, indent=2) + "\n", "utf-8")
    return mark


def write_mark(data: Path, names: Iterable[str], *, generator: str, version: str, source: str | None = None) -> Mark:
    """Mark these files of the directory `data`."""
    return save_mark(data, Mark(generator, version, None, {name: file_digest(data / name) for name in names}, source))


def data_files(data: Path, systems: Sequence[DataFiles]) -> list[str]:
    """Return the names of the data files in a directory, of every system that has records there.

    Raises Refused if records, or files that belong to them, are missing.
    """
    here = [system for system in systems if any((data / name).is_file() for name in system.records)]
    if not here:
        records = (name for system in systems for name in system.records)
        raise Refused(f"{data} holds no records: {' or '.join(records)} is needed")
    missing = [[name for name in system.needs if not (data / name).is_file()] for system in here]
    if all(missing):
        raise Refused(f"{data} holds no {missing[0][0]}")
    whole = [system for system, lacking in zip(here, missing, strict=True) if not lacking]  # names may be shared
    names = dict.fromkeys(name for of in whole for name in (*of.records, *of.needs, *of.if_there))
    return [name for name in names if (data / name).is_file()]
