"""A small release to look at, and how it is served."""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request
from urllib.request import urlopen as open_url

import pyarrow as pa
import pyarrow.parquet as pq
from dhca_inputs import Inputs, configuration, people

from flows.commands.show import open_release
from flows.execution.systems import kind_of_release
from flows.reports.show.application import application
from flows.reports.show.export import export, file_name
from flows.reports.show.scope import Scope
from flows.reports.show.token_guard import address_of, cookie_of
from tasks.releases.describe import write_descriptions
from tasks.releases.manifest import read_manifest


def inputs() -> Inputs:
    """Two states of which one has one county, made of the same blocks; race code 1300 is nearly nowhere."""
    levels = configuration()["thresholds_p"]
    config = configuration(
        thresholds_p={name: [40, 120, 400] for name in levels}, zero_suppression_chance=0.9999, max_race_codes=3
    )
    names = [("PLACE", "0100500", "Añasco\x07 \x1btown")]
    persons = [one for one in people(3_000) if "1300" not in one.values() or one["TABTRACTCE"] == "000200"]
    return Inputs(config=config, persons=persons, names=names)


def with_estimates(released: Path, copy: Path) -> Path:
    """A copy of a release with made-up estimates: each count plus 1, except of the first group of each level."""
    shutil.copytree(released, copy)
    for table in ("t1", "t2"):
        (copy / f"parquet/estimates/{table}").mkdir(parents=True)
        for path in (copy / f"parquet/{table}").iterdir():
            own = pq.read_table(path)
            first = pq.read_table(copy / f"parquet/t1/{path.name}").slice(0, 1).to_pylist()
            left_out = [(row["REGION_ID"], row["ITERATION_CODE"]) for row in first]
            kept = [
                {**row, "ESTIMATE": row["COUNT"] + 1}
                for row in own.to_pylist()
                if (row["REGION_ID"], row["ITERATION_CODE"]) not in left_out
            ]
            schema = own.schema.append(pa.field("ESTIMATE", pa.int64()))
            estimates = pa.Table.from_pylist(kept, schema).drop_columns(["COUNT"])
            pq.write_table(estimates, copy / f"parquet/estimates/{table}/{path.name}")
    described_anew(copy, estimates={})
    return copy


def described_anew(release: Path, **facts: Any) -> None:
    """Describe the tables of a release as they are now, and write its manifest over them, with these facts."""
    manifest = read_manifest(release) | facts
    kind = kind_of_release(manifest["release"])
    assert kind is not None
    write_descriptions(release, kind.part("description")(manifest), manifest)


def with_margins(released: Path) -> Path:
    """A TopDown release with margins of no run's for state 46's counties: of the total; none of Hispanic, a P2 cell."""
    for kind, codes in (("tabulation/County", ("46001", "46003")), ("entities/aian", ("2430",))):
        counts = pq.read_table(released / f"histograms/persons/{kind}/46.parquet").to_pylist()
        rows = []
        for code in codes:
            total = sum(row["count"] for row in counts if row["geounit"] == code)
            rows.append((code, "total", total, 3.25, total + 0.5, 1.658))
            rows.append((code, "Hispanic", 7, None, -1.25, 2.0))
            rows.append((code, "P0020002", 7, None, -1.25, 2.0))
        names = ("geounit", "count", "released", "margin", "estimate", "standard_error")
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
        path = released / f"margins/persons/{kind}/46.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    described_anew(released)
    return released


TOKEN = "the-token-of-the-tests"


def entered(page: str) -> dict[str, str]:
    """The headers of a request with the cookie of the server."""
    return {"Cookie": f"{cookie_of(urlsplit(page).port or 0)}={TOKEN}"}


def urlopen(address: str) -> Any:
    """Open an address of a page with the cookie of the server."""
    try:
        return open_url(Request(address, headers=entered(address)))
    except HTTPError as error:
        error.close()  # Python 3.14 warns of an answer that nobody closed
        raise


@contextmanager
def serving(release: Path) -> Iterator[str]:
    """The page of a release on a port of its own; gives its address, without the token."""
    import uvicorn

    shown = open_release(release)
    shown.check()
    server = uvicorn.Server(uvicorn.Config(application(shown, TOKEN), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
        yield address_of(server.servers[0].sockets[0].getsockname()[1], TOKEN).partition("?")[0]
    finally:
        server.should_exit = True
        thread.join()


def copied_to(release: Path, folder: Path, scope: Scope | None = None) -> Path:
    """Write a copy of the pages of a release."""
    pages = open_release(release, scope=scope)
    pages.check()
    export(pages, folder)
    return folder


# A list of words explains those of the forms too, which a copy leaves out.
LEFT_OUT = re.compile(
    r'<(section|form|p|span|a|nav|dl) [^>]*class="[^"]*(?:served|tabs|pager|words)".*?</\1>', re.DOTALL
)


def content(text: str) -> str:
    """The content of a page without its links and without what a copy leaves out."""
    (main,) = re.findall("<main.*</main>", text, re.DOTALL)
    return re.sub(r"\s+", " ", re.sub("</?a\\b[^>]*>", "", LEFT_OUT.sub("", main))).replace("> <", "><")


def differences(release: Path, copy: Path, every: int = 1) -> list[str]:
    """The addresses of a copy whose page or CSV differs from the served one, and the copy's broken links.

    every: compare one in so many addresses of each view, the first among them.
    """
    pages = open_release(release)
    found = []
    with serving(release) as page:
        met: Counter[str] = Counter()
        for asked in pages.addresses():
            view = asked.get("view", "").partition("/")[0]
            met[view] += 1
            if (met[view] - 1) % every:
                continue
            name = file_name(asked)
            with urlopen(f"{page}?{urlencode(asked)}") as answer:
                if content(answer.read().decode()) != content((copy / f"{name}.html").read_text()):
                    found.append(f"{name}.html")
            with urlopen(f"{page}?{urlencode({**asked, 'format': 'csv'})}") as answer:
                if answer.read().decode() != (copy / f"{name}.csv").read_text():
                    found.append(f"{name}.csv")
    for path in copy.glob("*.html"):
        links = re.findall(r'(?:href|src|action)="([^"]*)"', path.read_text())
        found += [link for link in links if not link.startswith(("data:,", "#")) and not (copy / link).is_file()]
    return found


# -- in a browser -----------------------------------------------------------------------------------------------------


def enter(browser: Any, page: str) -> None:
    """Open the page by the address with the token; from then on the browser has its cookie."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f"{page}?token={TOKEN}")
    WebDriverWait(browser, 10).until(lambda one: one.current_url == page and one.title != "das show")


AXE_RUN = "axe.run(document, {resultTypes: ['violations'], iframes: false, ...arguments[0]}).then(arguments[1])"
AXE = (Path(__file__).parent / "vendor/axe.js").read_text()
CONTRAST = {"runOnly": ["color-contrast"]}  # the rule whose answer depends on scheme and medium


def problems(browser: Any, **options: Any) -> list[str]:
    """What axe-core finds on the page, by rule and element."""
    browser.execute_script(AXE)
    found = browser.execute_async_script(AXE_RUN, options)
    return [f"{one['id']}: {node['html'][:90]}" for one in found["violations"] for node in one["nodes"]]


TOO_WIDE = """return document.documentElement.scrollWidth > innerWidth ? ['too wide'] : []"""
CUT_OFF = """return [...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => `cut off: ${box.getAttribute('aria-label')}`)"""


def faults(browser: Any) -> list[str]:
    """What axe-core finds, whether the page must be scrolled sideways, and the tables cut off on a wide screen.

    On other screens only contrast and width are looked at again: structure is the same on all.
    """
    width = browser.execute_script("return innerWidth")
    return [
        *problems(browser, **({} if width >= 1300 else CONTRAST)),
        *browser.execute_script(TOO_WIDE),
        *(browser.execute_script(CUT_OFF) if width >= 1400 else ()),
    ]
