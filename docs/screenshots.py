"""The pictures of docs/show.md, taken of a release of Rhode Island (README, "A run on real geography").

python docs/screenshots.py /tmp/ri-release/us      # needs chromium and chromedriver; writes docs/show/*.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

OUT = Path(__file__).parent / "show"
NAMES = """REGION_TYPE|REGION_ID|NAME
COUNTY|44001|Bristol County
COUNTY|44003|Kent County
COUNTY|44005|Newport County
COUNTY|44007|Providence County
COUNTY|44009|Washington County
"""
SHOTS = {  # file: address or file, width, height, colour scheme
    "overview": ("?view=overview", 1200, 860, "light"),
    "group": ("?view=group/COUNTY/44007/4015", 1200, 1240, "light"),
    "sum": ("?view=group/STATE/44/4015", 1200, 900, "light"),
    "compare": ("?view=compare&a=COUNTY/44007/4015&b=COUNTY/44003/4015", 1200, 900, "dark"),
    "phone": ("?view=group/COUNTY/44003/4015", 390, 800, "light"),
    "report": ("report.html", 1200, 1500, "light"),
}
SCROLLED = {"sum": "//h2[.='Its counties']", "report": "//h2[contains(., 'Noise beside')]"}


def main(release: Path) -> None:
    """Serve the release and take every picture."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "names.csv"
        names.write_text(NAMES)
        das = Path(sys.executable).parent / "das"
        command = [str(das), "show", str(release), "--names", str(names), "--port", "0", "--no-browser"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            address = next(word for word in server.stderr.readline().split() if word.startswith("http"))
            take(address, Path(folder))
        finally:
            server.terminate()
            server.wait()


def take(address: str, folder: Path) -> None:
    """Take the pictures of the page at an address."""
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
        for name, (view, width, height, scheme) in SHOTS.items():
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            browser.get(address + view)
            if name in SCROLLED:
                browser.execute_script("arguments[0].scrollIntoView()", browser.find_element("xpath", SCROLLED[name]))
            picture = Image.open(BytesIO(browser.get_screenshot_as_png())).convert("RGB")
            picture.quantize(96).save(OUT / f"{name}.png", optimize=True)
    finally:
        browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
