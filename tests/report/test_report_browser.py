"""Headless Chromium opens the reports as a reader would: on a desk and on a phone, light and dark, and on paper."""

from __future__ import annotations

import base64
import json
import shutil
import time

import pytest
from report_folders import asynchronous_folder, run_folder, sweep_folder, tune_folder

from wflsim.report import build

pytestmark = pytest.mark.slow
CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
WIDTHS = {"desk": 1280, "phone": 390}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Debian's chromium and chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    base = tmp_path_factory.mktemp("browser")
    folders = {
        "single": [run_folder(base / "single", labels=["drdm"], seeds=1)],
        "comparison": [run_folder(base / "comparison", labels=["fedavg", "drdm", "scaffold"])],
        "sweep": [sweep_folder(base / "sweep")],
        "tune": [tune_folder(base / "tune")],
        "asynchronous": [asynchronous_folder(base / "asynchronous")],
        "evil": [run_folder(base / "evil", name="<script>alert(1)</script>", labels=["<img src=x onerror=alert(2)>"], rounds=8)],
    }
    return {name: build(paths, base / f"{name}.html") for name, paths in folders.items()}


def open_page(browser, path, width=1280, dark=False):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(path.as_uri())
    wait(browser, "return document.documentElement.dataset.ready === 'yes'")


def wait(browser, condition, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if browser.execute_script(condition):
            return
        time.sleep(0.05)
    raise AssertionError(f"never: {condition}; console: {browser.get_log('browser')}")


def requests(browser):
    """Addresses asked for since the page was opened, apart from the file itself and what lies inside it."""
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith(("data:", "blob:"))]


def shown(browser, chart):
    """The marks that plotly drew, and whether the chart lies within the page."""
    return browser.execute_script(
        "const box = document.getElementById('chart-' + arguments[0]), r = box.getBoundingClientRect();"
        "return [box.querySelectorAll('.trace, .hm image, .heatmaplayer image, .points path, .scatterlayer path, .bars path').length,"
        " r.width, r.left >= 0 && r.right <= window.innerWidth + 1]", chart
    )  # fmt: skip


@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize("kind", ["single", "comparison", "sweep", "tune", "asynchronous"])
def test_it_opens_without_errors_and_without_the_network(browser, pages, kind, width):
    open_page(browser, pages[kind], WIDTHS[width])
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert requests(browser) == [pages[kind].as_uri()]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= WIDTHS[width]
    answer = browser.find_element("css selector", "h1.answer")
    assert answer.is_displayed()
    assert len(answer.text) > 30
    assert answer.rect["y"] < 300
    charts = [element.get_attribute("id")[6:] for element in browser.find_elements("css selector", ".chart")]
    assert charts
    for chart in charts:
        marks, wide, inside = shown(browser, chart)
        assert marks > 0, chart
        assert wide > 0.7 * min(WIDTHS[width], 1000), chart
        assert inside, chart


@pytest.mark.parametrize("width", list(WIDTHS))
def test_axis_and_metric_switches(browser, pages, width):
    open_page(browser, pages["comparison"], WIDTHS[width])
    title = "return document.getElementById('chart-accuracy').layout.{}.title.text"
    seen = set()
    for axis, words in {"time_s": "simulated time (s)", "rounds": "rounds", "bits": "bits sent and received (kbit)", "energy_j": "energy (J)"}.items():
        press(browser, f"[data-chart=accuracy] [data-key={axis}]")
        assert browser.execute_script(title.format("xaxis")) == words
        seen.add(str(browser.execute_script("return document.getElementById('chart-accuracy').data[1].x.slice(0, 5)")))
    assert len(seen) == 4
    press(browser, "[data-chart=accuracy] [data-key=std]")
    assert browser.execute_script(title.format("yaxis")) == "std of accuracy over clients"
    pressed = browser.find_elements("css selector", "[data-chart=accuracy] [aria-pressed=true]")
    assert [button.text for button in pressed] == ["spread", "energy"]
    press(browser, "[data-chart=clients] [data-key=lam]")  # the first policy has no lambda: said, not an error
    assert browser.find_element("id", "none-clients").is_displayed()
    press(browser, "[data-chart=clients] [data-key='1']")
    assert not browser.find_element("id", "none-clients").is_displayed()
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def press(browser, selector):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", browser.find_element("css selector", selector))
    browser.find_element("css selector", selector).click()


def test_light_and_dark(browser, pages):
    paper = "return getComputedStyle(document.body).backgroundColor"
    ink = "return document.getElementById('chart-accuracy').layout.font.color"
    open_page(browser, pages["comparison"], dark=True)
    dark = browser.execute_script(paper), browser.execute_script(ink)
    press(browser, "#theme")
    light = browser.execute_script(paper), browser.execute_script(ink)
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    browser.execute_script("localStorage.clear()")
    open_page(browser, pages["comparison"], dark=False)
    assert (browser.execute_script(paper), browser.execute_script(ink)) == light


def test_tables_sort(browser, pages):
    open_page(browser, pages["comparison"])
    column = "return [...document.querySelectorAll('#table-comparison .scroll:first-of-type tbody tr')].map(row => Number(row.cells[3].dataset.value))"
    header = "#table-comparison .scroll:first-of-type thead th:nth-child(4) button"
    given = browser.execute_script(column)
    press(browser, header)
    assert browser.execute_script(column) == sorted(given)
    press(browser, header)
    assert browser.execute_script(column) == sorted(given, reverse=True)


def test_the_parts_of_a_table_sort_together(browser, pages):
    open_page(browser, pages["comparison"])
    policies = "return [...document.querySelectorAll('#table-comparison table')].map(t => [...t.tBodies[0].rows].map(row => row.cells[0].textContent))"
    assert len(browser.execute_script(policies)) == 2
    for column in (4, 7):
        press(browser, f"#table-comparison .scroll:first-of-type thead th:nth-child({column}) button")
        first, second = browser.execute_script(policies)
        assert first == second


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 800, 400])
def test_the_main_table_fits_a_desk_and_scrolls_on_a_phone(browser, pages, width, dark):
    open_page(browser, pages["comparison"], width, dark)
    boxes = browser.execute_script("return [...document.querySelectorAll('#table-comparison .scroll')].map(box => [box.clientWidth, box.scrollWidth])")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for visible, whole in boxes:
        assert whole <= visible or width == 400


def test_the_timeline_zooms(browser, pages):
    open_page(browser, pages["asynchronous"])
    span = "return document.getElementById('chart-timeline').layout.xaxis.range"
    before = browser.execute_script(span)
    from selenium.webdriver import ActionChains

    drag = browser.find_element("css selector", "#chart-timeline .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", drag)
    ActionChains(browser).move_to_element_with_offset(drag, -100, 0).click_and_hold().move_by_offset(90, 0).move_by_offset(90, 0).release().perform()
    wait(browser, f"{span}[1] < {before[1] * 0.8}")
    lost = browser.execute_script("return document.getElementById('chart-timeline').data.map(trace => trace.name)")
    assert "lost, late or cut short" in lost


def test_markup_in_names_is_shown_and_not_run(browser, pages):
    open_page(browser, pages["evil"])
    assert "<script>alert(1)</script>" in browser.find_element("css selector", ".scenario").text
    assert "<img src=x onerror=alert(2)>" in browser.find_element("css selector", "h1.answer").text
    legend = browser.execute_script("return document.querySelector('#chart-energy-cause .yaxislayer-above').textContent")
    assert "<img src=x onerror=alert(2)>" in legend
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert requests(browser) == [pages["evil"].as_uri()]


def test_it_prints(browser, pages):
    open_page(browser, pages["comparison"], dark=True)
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") >= 3
