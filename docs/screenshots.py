"""Take the pictures of README and docs/show.md, by `make pictures`, and those of docs/operations.md.

python docs/screenshots.py readme [BLOCKS]         # writes docs/show/*.png; needs chromium and chromedriver
python docs/screenshots.py ui FLOW_RUN ARTIFACT    # of a server at PREFECT_UI_URL; writes docs/operations/*.png

The pictures are of the run whose output README shows, which is written anew. The map needs points, which the made-up
country lacks: it is of README's run on the blocks of a state, and stays as it is without BLOCKS.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import commands
from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

DOCS = Path(__file__).parent
DAS = Path(sys.executable).with_name("das")
LOADS = 15  # seconds within which Prefect's pages fill themselves
Shot = tuple[str, int, int, str]
SHOTS: dict[str, Shot] = {  # file: address or file, width, height, colour scheme
    "group": ("?view=group/STATE/31/2014", 1200, 1280, "light"),
    "report": ("report.html", 1200, 1500, "light"),
}
MAP: dict[str, Shot] = {"map": ("?view=table-map/t1-tract-2&by_ITERATION_CODE=2014", 1200, 1180, "light")}
SCROLLED = {
    "map": "//nav[@class='tabs']",
    "report": "//h2[contains(., 'Noise, thresholds')]",
}


def main(blocks: Path | None = None) -> None:
    """Run README's commands, write what they print into README, and take pictures of what they release."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands.README.write_text(commands.run_in(name, commands.README.read_text("utf-8")), "utf-8")
        (demo,) = (folder / "out").iterdir()
        take_of_release(demo / "release/us", SHOTS, folder)
        if blocks:
            made, out = folder / "made", folder / "release"
            state = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
            subprocess.run([DAS, "synth", blocks, demo / "params", made], env=state, check=True)
            subprocess.run([DAS, "run", made / "params", made / "data", out], env=state, check=True)
            take_of_release(out / "us", MAP, folder)


def take_of_release(release: Path, shots: Mapping[str, Shot], folder: Path) -> None:
    """Serve a release and take pictures of its pages."""
    command = [str(DAS), "show", str(release), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = next(word for word in server.stderr.readline().split() if word.startswith("http"))
        take(address, shots, DOCS / "show", folder)
    finally:
        server.terminate()
        server.wait()


def main_ui(flow_run: str, artifact: str) -> None:
    """Take the pictures of a run and of its release's page in Prefect's UI."""
    shots: dict[str, Shot] = {
        "run": (f"/runs/flow-run/{flow_run}", 1200, 900, "dark"),
        "release": (f"/artifacts/artifact/{artifact}", 1200, 1060, "dark"),
    }
    with tempfile.TemporaryDirectory() as folder:
        take(os.environ["PREFECT_UI_URL"], shots, DOCS / "operations", Path(folder), LOADS)


def take(address: str, shots: Mapping[str, Shot], out: Path, folder: Path, loads: float = 0.0) -> None:
    """Take the pictures of the pages below an address, each so many seconds after it was asked for."""
    out.mkdir(exist_ok=True)
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder}/profile",
    ):
        options.add_argument(flag)
    browser = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    try:
        browser.get(address)  # turns a token in it into a cookie
        pages = address.partition("?")[0]
        for name, (view, width, height, scheme) in shots.items():
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            browser.get(pages + view)
            if browser.title == "Not found":
                sys.exit(f"{view} is not in this release: {name}.png would be of an error")
            time.sleep(loads)
            if name in SCROLLED:
                browser.execute_script("arguments[0].scrollIntoView()", browser.find_element("xpath", SCROLLED[name]))
            picture = Image.open(BytesIO(browser.get_screenshot_as_png())).convert("RGB")
            picture.quantize(96).save(out / f"{name}.png", optimize=True)
    finally:
        browser.quit()


if __name__ == "__main__":
    if sys.argv[1] == "ui":
        main_ui(*sys.argv[2:])
    else:
        main(*map(Path, sys.argv[2:]))
