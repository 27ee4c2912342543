"""The copy of a release in one file: opened from a disk in a browser, without a server."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from dhca_inputs import read_release
from show_release import faults, with_estimates

from flows.commands.show import open_release
from flows.reports.show.detailed_dhca import single_file
from flows.reports.show.detailed_dhca.single_file import single_file_data
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhca.pyramid import pyramid
from tasks.inputs.regions import Region
from tasks.lifecycle.errors import Refused
from tests.flows.conftest import printed

TENTH = Fraction(1, 10)


def test_one_file_has_every_count_of_its_scope(released, monkeypatch):
    pages = open_release(released)
    data = single_file_data(pages.release)
    keys = [tuple(region[:2]) for region in data["regions"]]
    rows = {
        (*key, data["iterations"][one][0]): (count, data["margins"][margin], cells)
        for key, own in zip(keys, data["groups"], strict=True)
        for one, count, margin, cells in own
    }
    totals = {(kind, region, code): int(count) for region, kind, code, count in read_release(released, "t1")}
    assert {key: count for key, (count, *_) in rows.items()} == totals
    cells: dict[tuple[str, ...], dict[tuple[str, int], int]] = {}
    for region, kind, code, start, _, sex, count in read_release(released, "t2"):
        cells.setdefault((kind, region, code), {})[sex, -1 if start == "*" else int(start)] = int(count)
    assert {key: own for key, (*_, own) in rows.items() if own} == {
        key: [own[place] for place in sorted(own)] for key, own in cells.items()
    }
    for (kind, region, code), (_, margins, own) in rows.items():
        group = pages.release.group(next(r for r in pages.release.regions if (r.type, r.id) == (kind, region)), code)
        assert margins[0] == group.margin
        assert margins[2] == (margin_of_error(group.noise.law) if own else 0)
    monkeypatch.setattr(single_file, "MOST_GROUPS", 10)
    with pytest.raises(Refused, match=r"too many for one file, at most 10: choose a state \(--scope\)"):
        single_file_data(pages.release)


def test_one_file_opens_from_a_disk(released, top_down_released, sized, tmp_path: Path):
    file = tmp_path / "release.html"
    printed("show", released, "--single-file", file, "--confidence", "90")
    with pytest.raises(Refused, match="is there already"):
        printed("show", released, "--single-file", file)
    with pytest.raises(Refused, match="is for releases of the Detailed DHC-A"):
        printed("show", top_down_released, "--single-file", tmp_path / "other.html")
    release = open_release(released).release
    for width in (1400, 400):
        browser = sized(width)
        for place, says in (
            ("", "published groups of"),
            ("region/COUNTY/01001", "groups"),
            ("iteration/1002", "Autauga County"),
            ("group/STATE/01/1002", "Persons by sex and age"),
            ("find/Iteration 1002 Autagua", "Nearest: “Iteration 1002 Autauga”. "),
            ("group/COUNTY/01001/9999", "is not in this file"),
        ):
            browser.get("about:blank")
            browser.get(f"{file.as_uri()}#{place}")
            text = shown(browser, says)
            assert (place, faults(browser)) == (place, [])
            assert "at 90% confidence" in text
    browser.get("about:blank")
    browser.get(f"{file.as_uri()}#group/STATE/01/1002")
    group = release.group(next(iter(release.regions_in("STATE", "01"))), "1002")
    text = shown(browser, "Persons by sex and age")
    assert f"{group.count:,}" in text
    assert f"± {margin_of_error(group.noise.law, group.noise.cells, alpha=TENTH):,}" in text


def test_one_file_has_estimates_and_the_pyramids_of_the_pages(released, sized, tmp_path: Path):
    folder, file = with_estimates(released, tmp_path / "release"), tmp_path / "release.html"
    release = open_release(folder).release
    data = single_file_data(release)
    groups = [(region[:2], *row) for region, own in zip(data["regions"], data["groups"], strict=True) for row in own]
    without = 0
    for (kind, code), one, count, _, cells, *estimate in groups:
        region = next(iter(release.regions_in(kind, code)))
        group, own = (of(region, data["iterations"][one][0]) for of in (release.group, release.cells))
        if not estimate:
            without += 1
            assert group.estimate is None
            continue
        more, at, apart = estimate
        assert (count + more, data["errors"][at][0]) == (group.estimate, group.estimate_margin)
        own.sort(key=lambda cell: (cell.sex, -1 if cell.start is None else cell.start))
        assert [a + b for a, b in zip(cells or (), apart, strict=True)] == [cell.estimate for cell in own]
        assert data["errors"][at][1:] == tuple(cell.estimate_margin for cell in own)
    assert 0 < without < len(groups)
    printed("show", folder, "--single-file", file)
    with_cells = (group for group in groups if len(group) > 5 and group[4])
    key, one, *_ = next(with_cells)
    region, code = Region(*key), data["iterations"][one][0]
    browser = sized(1400)
    browser.get("about:blank")
    browser.get(f"{file.as_uri()}#group/{region.key}/{code}")
    shown(browser, "diamonds estimates")
    assert faults(browser) == []
    read = "return [...document.querySelectorAll('.pyramid rect')].map(one => [...one.attributes].map(at => at.value))"
    drawing = pyramid(release.cells(region, code)).by_persons()
    bars = sorted((bar.side + " open" * bar.is_open, bar.y, bar.x, bar.width, bar.height) for bar in drawing.bars)
    found = sorted(
        (style, float(y), float(x), *map(float, size)) for style, x, y, *size in browser.execute_script(read)
    )
    assert [style for style, *_ in found] == [style for style, *_ in bars]
    places = ([place for _, *place in each] for each in (found, bars))
    np.testing.assert_allclose(*places, atol=0.11)  # tenths, whose halves are rounded in another way
    assert len(browser.find_elements("css selector", ".pyramid .estimate")) == len(drawing.bars)


def shown(browser, says: str) -> str:
    """The text of the page once it says something."""
    for _ in range(100):
        text = browser.find_element("tag name", "body").text
        if says in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"{says!r} is not in {text!r}")
