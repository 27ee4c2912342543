"""The pictures of docs/show.md, of a release of Rhode Island, and of docs/operations.md.

python docs/screenshots.py /tmp/ri-release/us      # needs chromium and chromedriver; writes docs/show/*.png
python docs/screenshots.py ui FLOW_RUN ARTIFACT    # of a server at PREFECT_UI_URL; writes docs/operations/*.png

The release is of persons by `das synth BLOCKS PARAMS OUT --shares CSV`, whose groups are as large as published ones.
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

from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

DOCS = Path(__file__).parent
LOADS = 15  # seconds within which Prefect's pages fill themselves
Shot = tuple[str, int, int, str]
SHOTS: dict[str, Shot] = {  # file: address or file, width, height, colour scheme
    "group": ("?view=group/COUNTY/44007/4015", 1200, 1240, "light"),
    "compare": ("?view=compare&a=COUNTY/44007/4015&b=COUNTY/44003/4015", 1200, 900, "dark"),
    "map": ("?view=table-map/t1-tract-2&by_ITERATION_CODE=4015&by_REGION_ID=44*", 1200, 1180, "light"),
    "report": ("report.html", 1200, 1500, "light"),
}
SCROLLED = {
    "map": "//nav[@class='tabs']",
    "report": "//h2[contains(., 'Noise, thresholds')]",
}


def main(release: Path) -> None:
    """Serve the release and take every picture."""
    with tempfile.TemporaryDirectory() as folder:
        das = Path(sys.executable).parent / "das"
        command = [str(das), "show", str(release), "--port", "0", "--no-browser"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            address = next(word for word in server.stderr.readline().split() if word.startswith("http"))
            take(address, SHOTS, DOCS / "show", Path(folder))
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
        main(Path(sys.argv[1]))
