"""The files of a geography: one that is named, or those in a directory or zip archive as downloaded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tasks.errors import Refused
from tasks.geography.blocks.assignment import PLACES, is_layer, layers
from tasks.geography.blocks.pl94 import is_geographic_header, segment
from tasks.records.files import digests_by_name, file_name, is_passed_over, locate, members
from tasks.records.marks import GRF_FILE

ARCHIVE = re.compile(r"([a-z]{2}2020\.n?pl|BlockAssign_[^/]*|\d{4}_Gaz_[^/]*)\.zip$", re.IGNORECASE)
FORMATS = (
    lambda path: file_name(path.partition("::")[0]) == GRF_FILE,
    is_geographic_header,
    lambda path: is_layer(path) and PLACES in path,
)


def block_files(source: str) -> list[str]:
    """Return the block tables of a geography, by path or URL; for block assignment files, a state's layer of places.

    A directory or archive gives its GRF-C, else its P.L. 94-171 geographic headers, else its block assignment files.

    Raises Refused if it holds no such file.
    """
    listed = list_files(source)
    if files := [source] if listed is None else block_tables(listed):
        return files
    raise Refused(
        f"{source} holds no block table: neither {GRF_FILE} nor ??geo2020.pl or ??2020.pl.zip of P.L. 94-171 "
        f"nor BlockAssign_ST??_??{PLACES}.txt"
    )


def block_tables(listed: Collection[str]) -> list[str]:
    """Return the block tables among listed files: all files of the first format that occurs."""
    return next(filter(None, (sorted(filter(kind, listed)) for kind in FORMATS)), [])


def list_files(source: str) -> list[str] | None:
    """Return the files in a directory and its archives, or in an archive; None for any other `source`."""
    files, path = locate(source)
    if path.lower().endswith(".zip"):
        return members(source)
    if not files.isdir(path):
        return None
    listed = [name for name in files.ls(path, detail=False) if not is_passed_over(file_name(name))]
    names = [files.unstrip_protocol(name) for name in listed]
    return names + [member for name in names if ARCHIVE.search(name) for member in members(name)]


def input_digests(source: str, *further: str | None) -> dict[str, str]:
    """Return the digests (`tasks.releases.digests`) of the files that a geography is read from, by file name."""
    return digests_by_name([*_read_from(source), *filter(None, further)])


def _read_from(source: str) -> Iterator[str]:
    """Yield every file that is read; an archive counts as one file."""
    for path in block_files(source):
        companions = layers(path).values() if is_layer(path) else filter(None, [segment(path, 3)])
        for file in (path, *companions):
            yield file.partition("::")[2] or file
