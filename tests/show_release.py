"""A small release to look at, and how it is served."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from dhca_inputs import Inputs, configuration, people

from tasks.lifecycle.digests import file_digest


def inputs() -> Inputs:
    """Two states of which one has one county, made of the same blocks; race code 1300 is nearly nowhere."""
    levels = configuration()["thresholds_p"]
    config = configuration(
        thresholds_p={name: [40, 120, 400] for name in levels}, zero_suppression_chance=0.9999, max_race_codes=3
    )
    persons = [one for one in people(3_000) if "1300" not in one.values() or one["TABTRACTCE"] == "000200"]
    return Inputs(config=config, persons=persons)


def with_estimates(released: Path, copy: Path) -> Path:
    """A copy of a release with estimates of no run's: each count and 1, but for the first group of each level."""
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
            beside = pa.Table.from_pylist(kept, schema).drop_columns(["COUNT"])
            pq.write_table(beside, copy / f"parquet/estimates/{table}/{path.name}")
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"estimates": {}}))
    return copy


def with_margins(released: Path) -> Path:
    """A TopDown release with margins of no run's for the counties of state 46: of the total, and none of Hispanic."""
    for kind, codes in (("tabulation/County", ("46001", "46003")), ("entities/aian", ("2430",))):
        counts = pq.read_table(released / f"histograms/persons/{kind}/46.parquet").to_pylist()
        rows = []
        for code in codes:
            total = sum(row["count"] for row in counts if row["geounit"] == code)
            rows.append((code, "total", total, 3.25, total + 0.5, 1.658))
            rows.append((code, "Hispanic", 7, None, -1.25, 2.0))
        names = ("geounit", "count", "released", "margin", "estimate", "standard_error")
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
        path = released / f"margins/persons/{kind}/46.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        manifest = json.loads((released / "manifest.json").read_text())
        manifest["files"][str(path.relative_to(released))] = file_digest(path)
        (released / "manifest.json").write_text(json.dumps(manifest))
    return released


@contextmanager
def serving(release: Path) -> Iterator[str]:
    """The page of a release on a port of its own; gives its address."""
    import uvicorn

    from flows.commands.show import open_release
    from flows.reports.show.application import Check, application

    shown = open_release(release)
    check = Check(release, shown.manifest["files"])
    check.run()
    server = uvicorn.Server(uvicorn.Config(application(shown, check), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def files_served(folder: Path) -> Iterator[str]:
    """A folder on a plain web server; gives its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


# -- in a browser -----------------------------------------------------------------------------------------------------

AXE_RUN = "axe.run(document, {resultTypes: ['violations'], iframes: false}).then(arguments[0])"
AXE = Path(__file__).parent / "vendor/axe.js"


def problems(browser: Any) -> list[str]:
    """What axe-core finds on the page, by rule and element."""
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script(AXE_RUN)
    return [f"{one['id']}: {node['html'][:90]}" for one in found["violations"] for node in one["nodes"]]


def too_wide(browser: Any) -> bool:
    """Whether the page must be scrolled sideways."""
    return bool(browser.execute_script("return document.documentElement.scrollWidth > innerWidth"))


def seen(browser: Any, address: str) -> tuple[str, list[str]]:
    """The text of a page's content, and where its links lead."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(address)
    ready = "return document.querySelector('h1') || document.body.innerText.includes('cannot be shown')"
    WebDriverWait(browser, 20).until(lambda one: one.execute_script(ready))
    links = "return [...document.querySelectorAll('main a')].map((link) => link.getAttribute('href'))"
    return browser.execute_script("return document.querySelector('main').innerText"), browser.execute_script(links)


def copied_to(release: Path, folder: Path) -> Path:
    """Write a static copy of a release."""
    from flows.commands.show import open_release
    from flows.reports.show.application import Check, about
    from flows.reports.show.export import export

    shown = open_release(release)
    check = Check(release, shown.manifest["files"])
    check.run()
    export(shown, folder, about(shown, check))
    return folder


def csv_of_copy(browser: Any, view: str) -> str:
    """What a static copy, on whose page the browser is, saves of a view as CSV."""
    script = """
      const [asked, done] = arguments;
      const told = await (await fetch("data/release.json")).json();
      const kind = await import(`${location.origin}/static/${told.kind}.js`);
      const release = await kind.load("data", told);
      done(kind.csvOf(release, await kind.viewOf(release, { ...asked, format: "csv" })));
    """
    name, *rest = view.split("&")
    return str(browser.execute_async_script(script, dict(one.split("=") for one in rest) | {"view": name}))
