"""The tables of a release in one file: opened from a disk in a browser, without a server."""

from __future__ import annotations

import csv
import gzip
import json
import re
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from show_release import faults, with_estimates

from flows.commands.show import open_release
from flows.reports.show import export
from tasks.lifecycle.errors import Refused
from tests.flows.conftest import printed


def data_of(file: Path) -> dict[str, Any]:
    (packed,) = re.findall(r'unpack\("([^"]*)"\)', file.read_text(encoding="utf-8"))
    return json.loads(gzip.decompress(b64decode(packed)))


def test_one_file_has_every_row_of_its_scope(released, bottom_up_released, tmp_path: Path, monkeypatch):
    file = tmp_path / "release.html"
    printed("show", released, "--single-file", file, "--scope", "01")
    tables = {table["name"]: table for table in data_of(file)["tables"]}
    for number in (1, 2):
        rows = pd.read_parquet(released / f"parquet/t{number}/county-2.parquet")
        expected = rows[rows.REGION_ID.str[:2] == "01"].itertuples(index=False, name=None)
        assert sorted(map(tuple, tables[f"t{number}-county-2"]["rows"])) == sorted(expected)
    words = {column["name"]: column["words"] for column in tables["t2-county-2"]["columns"]}
    assert words["REGION_ID"]["01001"] == "Autauga County"
    with pytest.raises(Refused, match="is there already"):
        printed("show", released, "--single-file", file)
    printed("show", bottom_up_released, "--single-file", tmp_path / "other.html", "--table", "by-sex")
    assert [table["name"] for table in data_of(tmp_path / "other.html")["tables"]] == ["by-sex"]
    monkeypatch.setattr(export, "MOST_ROWS", 10)
    with pytest.raises(Refused, match=r"too many for one file, at most 10: choose a state \(--scope\)"):
        printed("show", released, "--single-file", tmp_path / "third.html")


@pytest.mark.ci
def test_one_file_opens_from_a_disk(released, sized, tmp_path: Path):
    file = tmp_path / "release.html"
    printed("show", released, "--single-file", file)
    rows = pd.read_parquet(released / "parquet/t2/county-2.parquet")
    of_2001 = rows[(rows.ITERATION_CODE == "2001") & (rows.SEX == "2")]
    places = (
        ("", "Sex by age of population groups: County, Detailed"),
        ("table=t2-county-2", f"{len(rows):,} rows"),
        ("table=t2-county-2&by_SEX=2&by_ITERATION_CODE=2001", f"{len(of_2001):,} rows"),
        ("table=t2-county-2&q=autauga female", f"{sum((rows.REGION_ID == '01001') & (rows.SEX == '2')):,} rows"),
        ("table=t2-county-2&by_REGION_ID=01*&sort=COUNT", f"{sum(rows.REGION_ID.str[:2] == '01'):,} rows"),
        ("table=t2-county-2&q=nobody", "0 rows"),
        ("table=nothing", "Sex by age of population groups: County, Detailed"),
    )
    for width, some in ((1400, places), (400, places[::3])):
        browser = sized(width)
        for place, says in some:
            browser.get("about:blank")
            browser.get(f"{file.as_uri()}#{place}")
            text = shown(browser, says)
            assert (place, faults(browser)) == (place, [])
            assert "at 95% confidence" in text
    browser.get("about:blank")
    browser.get(f"{file.as_uri()}#table=t2-county-2&by_SEX=2&by_ITERATION_CODE=2001&sort=COUNT")
    shown(browser, f"{len(of_2001):,} rows")
    counts = [int(one.text.replace(",", "").replace("−", "-")) for one in browser.find_elements("css selector", "td.n")]
    assert counts[::2] == sorted(of_2001.COUNT)[:100]
    read = "const done = arguments[0]; fetch(document.querySelector('a.csv').href).then(one => one.text()).then(done)"
    header, *lines = csv.reader(browser.execute_async_script(read).splitlines())
    assert header[:4] == ["REGION_ID", "REGION_ID_NAME", "REGION_TYPE", "REGION_TYPE_NAME"]
    assert sorted(int(line[header.index("COUNT")]) for line in lines) == sorted(of_2001.COUNT)


@pytest.mark.ci
def test_one_file_has_estimates_and_the_pyramids_of_the_pages(released, sized, tmp_path: Path):
    folder, file = with_estimates(released, tmp_path / "release"), tmp_path / "release.html"
    printed("show", folder, "--single-file", file, "--confidence", "90")
    assert "MOE_90" in {column["name"] for column in data_of(file)["tables"][0]["columns"]}
    printed("show", folder, "--single-file", tmp_path / "usual.html")
    drawing = open_release(folder).view({"view": "group/STATE/01/1002"}).pyramid.by_persons()
    browser = sized(1400)
    browser.get("about:blank")
    browser.get(f"{(tmp_path / 'usual.html').as_uri()}#table=t2-state-1&q=alabama 1002")
    shown(browser, "diamonds estimates")
    assert faults(browser) == []
    read = "return [...document.querySelectorAll('.pyramid rect')].map(one => [...one.attributes].map(at => at.value))"
    bars = sorted((bar.side + " open" * bar.is_open, bar.y, bar.x, bar.width, bar.height) for bar in drawing.bars)
    found = sorted(
        (style, float(y), float(x), *map(float, size)) for style, x, y, *size in browser.execute_script(read)
    )
    assert [style for style, *_ in found] == [style for style, *_ in bars]
    places = ([place for _, *place in each] for each in (found, bars))
    np.testing.assert_allclose(*places, atol=0.11)  # tenths, whose halves are rounded in another way
    assert len(browser.find_elements("css selector", ".pyramid .estimate")) == len(drawing.bars)
    browser.get(f"{(tmp_path / 'usual.html').as_uri()}#table=t2-state-1")
    shown(browser, "rows")
    assert browser.find_elements("css selector", ".pyramid") == []  # of several groups


def shown(browser, says: str) -> str:
    """The text of the page once it says something."""
    for _ in range(100):
        text = browser.find_element("tag name", "body").text
        if says in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"{says!r} is not in {text!r}")
