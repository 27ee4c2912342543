"""Releases and files of names that somebody else made: a line that refuses them, and nothing that steers a terminal."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from flows.commands.show import open_release
from flows.reports.show.geography import Region
from flows.reports.show.names import read_names
from tasks.lifecycle.errors import Refused


@pytest.mark.parametrize(
    "change", [{"files": ["a"]}, {"files": 7}, {"levels": [1]}, {"levels": None}, {"levels": {"USA, 1": None}}]
)
def test_a_manifest_of_another_shape_is_refused(released: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(released, copy)
    manifest = json.loads((copy / "manifest.json").read_text()) | change
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(Refused, match=r"manifest\.json"):
        open_release(copy)


KEPT = "REGION_TYPE|REGION_ID|NAME\n"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("names.csv", KEPT + f"USA|1|{'x' * 131_073}\n", "field larger than field limit"),
        ("names.csv", KEPT + "USA\n", "holds no names"),
        ("2020_Gaz_state_national.txt", "USPS\tGEOID\tNAME\nRI\n", "holds no names"),
        ("ri2020.pl.zip", "no archive", "is not a zip file"),
        ("ri2020.pl.zip", None, "holds no names"),  # a named pipe, which nobody writes
    ],
)
def test_names_that_cannot_be_read_are_refused(tmp_path: Path, name: str, content: str | None, says: str) -> None:
    path = tmp_path / name
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content)
    with pytest.raises(Refused, match=says):
        read_names([path])


def test_a_name_steers_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text(KEPT + "USA|1|\x1b[31mRed\x07 \u202eland\n")
    assert read_names([path]) == {Region("USA", "1"): "[31mRed land"}
