"""A small release to look at, and how it is served."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dhca_inputs import Inputs, configuration, people


def inputs() -> Inputs:
    """Two states of which one has one county, made of the same blocks; race code 1300 is nearly nowhere."""
    levels = configuration()["thresholds_p"]
    config = configuration(
        thresholds_p={name: [40, 120, 400] for name in levels}, zero_suppression_chance=0.9999, max_race_codes=3
    )
    persons = [one for one in people(3_000) if "1300" not in one.values() or one["TABTRACTCE"] == "000200"]
    return Inputs(config=config, persons=persons)


@contextmanager
def serving(release: Path) -> Iterator[str]:
    """The page of a release on a port of its own; gives its address."""
    import uvicorn

    from flows.reports.show.application import Check, application
    from flows.reports.show.kinds import open_release

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
