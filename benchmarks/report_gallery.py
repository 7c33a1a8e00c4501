"""The pictures in reports/gallery: three reports as Chromium shows them.

`python benchmarks/report_gallery.py OUT DIR DIR DIR` takes result folders in the order policies, tuning map, lossy
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
    """One picture: how wide, in which theme, and from which element down how far."""

    name: str
    width: int
    height: int
    theme: str
    start: str


SHOTS = (
    Shot("policies", 1280, 2300, "light", "body"),
    Shot("tau-map-dark", 1280, 1235, "dark", "body"),
    Shot("lossy-asynchronous", 1280, 1535, "light", "#figure-latency"),
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
    size = {"width": shot.width, "height": 8000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": shot.theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(page.as_uri())
    while browser.execute_script("return document.documentElement.dataset.ready") != "yes":
        time.sleep(0.1)
    time.sleep(1.0)
    script = f"return document.querySelector('{shot.start}').getBoundingClientRect().top"
    top = max(0.0, browser.execute_script(script) - 16)
    clip = {"x": 0, "y": top, "width": shot.width, "height": shot.height, "scale": 1}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})["data"]
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    return picture.quantize(256, Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
