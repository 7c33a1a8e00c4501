"""The pictures in reports/gallery: three reports as Chromium shows them.

`python -m studies.report_gallery OUT DIR DIR DIR` takes result folders in the order policies, tuning map, lossy
asynchronous run; needs chromium and chromium-driver.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from wflsim.report import build

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


class Shot(NamedTuple):
    """One picture: its file name, in which theme, and from the top of which element to the bottom of which."""

    name: str
    theme: str
    first: str
    last: str


WIDTH, MARGIN = 1280, 16
"""Width of the page and the room above and below the elements shown, in pixels."""
SHOTS = (
    Shot("policies", "light", "body", "#figure-accuracy"),
    Shot("tau-map-dark", "dark", "body", "#figure-tau-map"),
    Shot("lossy-asynchronous", "light", "#figure-latency", "#figure-clients"),
)


def main(out: Path, folders: list[Path]) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as scratch:
        for flag in (*FLAGS, f"--user-data-dir={scratch}/profile"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            for shot, folder in zip(SHOTS, folders, strict=True):
                page = build([folder], Path(scratch) / f"{shot.name}.html")
                picture = take(browser, page, shot)
                out.mkdir(parents=True, exist_ok=True)
                picture.save(out / f"{shot.name}.png", optimize=True)
                print(out / f"{shot.name}.png", (out / f"{shot.name}.png").stat().st_size)
        finally:
            browser.quit()


def take(browser: webdriver.Chrome, page: Path, shot: Shot) -> Image.Image:
    """The page at its full height, cut to what is wanted."""
    size = {"width": WIDTH, "height": 8000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": shot.theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(page.as_uri())
    while browser.execute_script("return document.documentElement.dataset.ready") != "yes":
        time.sleep(0.1)
    time.sleep(1.0)
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    top = max(0.0, browser.execute_script(box, shot.first)["top"] - MARGIN)
    bottom = browser.execute_script(box, shot.last)["bottom"] + MARGIN
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top, "scale": 1}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})["data"]
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    return picture.quantize(256, Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
