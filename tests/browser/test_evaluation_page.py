"""The pages of `softbins evaluate` and `softbins compare` as a browser shows them."""

import json
import re

import numpy as np
import pytest

from softbins import HistogramRegressor
from softbins.evaluation import comparison_page, evaluate
from softbins.report.comparison import summarize_folds
from tests.browser.chromium import needs_chromium, resize

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")
pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = needs_chromium

METHODS = (
    "softbins",
    "linear",
    "l2",
    "l1",
    "l2-noise",
    "l2-clipping",
    "l2-softmax",
    "hl-gaussian",
    "mdn",
)
FIGURES = {"evaluate": 14, "compare": 1}


def evaluated():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    y = 1000 * x[:, 0] + 300 * random.normal(size=300)
    model = HistogramRegressor((16,), members=2, max_epochs=5, random_state=0)
    model.fit(x[:200], y[:200])
    return evaluate(model, x[200:], y[200:]).page("a_long_name_of_a_model_file.model", "new.csv")


def scores(number, fold):
    error = 12345.678 + fold * number
    return {"mae": error, "rmse": 2 * error, "crps": error / 2, "coverage": 0.9, "seconds": 1.5}


def compared():
    results = [
        summarize_folds(name, [scores(number, fold) for fold in range(3)], number % 2 == 0)
        for number, name in enumerate(METHODS)
    ]
    return comparison_page(results, "houses.csv", {"rows": 60, "folds": 3})


@pytest.fixture(scope="module", params=list(FIGURES))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def address(kind, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / f"{kind}.html"
    path.write_text({"evaluate": evaluated, "compare": compared}[kind]())
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    """The page, newly opened in a window of 1200 pixels."""
    resize(browser, 1200)
    for log in ("browser", "performance"):
        browser.get_log(log)  # what earlier tests left
    browser.get(address)
    return browser


def colours(page, wanted):
    feature = {"name": "prefers-color-scheme", "value": wanted}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    script = (
        "const ink = element => getComputedStyle(element);"
        "return [ink(document.body).backgroundColor, ink(document.body).color,"
        " ink(document.querySelector('figure svg text')).fill]"
    )
    return page.execute_script(script)


def test_the_console_stays_empty_and_nothing_is_requested_but_the_page(page, address):
    page.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requested if not url.startswith("data:")] == [address]
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [320, 360, 390, 768, 1200])
def test_the_page_does_not_scroll_sideways(page, width):
    resize(page, width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_script("window.scrollTo(500, 0)")
    assert page.execute_script("return window.scrollX") == 0


@pytest.mark.parametrize("width", [360, 1200])
def test_every_figure_is_visible_and_named(page, kind, width):
    resize(page, width)
    found = page.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(found) == FIGURES[kind]
    for picture in found:
        box = page.execute_script("return arguments[0].getBoundingClientRect().toJSON()", picture)
        assert box["width"] > 300
        assert box["height"] > 120
        assert box["left"] >= 0
        assert box["right"] <= width
        assert picture.accessible_name.endswith(".")


@pytest.mark.parametrize("width", [360, 1200])
def test_text_in_figures_is_readable_and_inside(page, width):
    resize(page, width)
    script = (
        "return Array.from(document.querySelectorAll('figure svg'), svg => {"
        " const frame = svg.getBoundingClientRect();"
        " return Array.from(svg.querySelectorAll('text'), text => {"
        "  const box = text.getBoundingClientRect();"
        "  return [text.textContent, Math.min(box.width, box.height),"
        "          box.left - frame.left, frame.right - box.right] }) }).flat()"
    )
    texts = page.execute_script(script)
    assert len(texts) > 10
    for text, height, left, right in texts:
        assert height >= 9 or len(text) == 1, text
        assert min(left, right) >= -2, text


def test_the_page_follows_the_reader_s_choice_of_light_and_dark(page):
    light, dark = colours(page, "light"), colours(page, "dark")
    assert light == ["rgb(255, 255, 255)", "rgb(27, 31, 36)", "rgb(27, 31, 36)"]
    assert dark == ["rgb(13, 17, 23)", "rgb(230, 237, 243)", "rgb(230, 237, 243)"]


def cells(page, column=2):
    script = (
        "return Array.from(document.querySelector('table.sortable').tBodies[0].rows, row =>"
        " Number(row.cells[arguments[0]].dataset.value))"
    )
    return page.execute_script(script, column)


def test_a_table_is_sorted_by_its_heads_with_mouse_and_keyboard(page):
    buttons = page.find_elements(By.CSS_SELECTOR, "table.sortable th button")
    head, before = buttons[2].find_element(By.XPATH, ".."), cells(page)
    buttons[2].click()
    assert (head.get_attribute("aria-sort"), cells(page)) == ("ascending", sorted(before))
    buttons[2].send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert cells(page) == sorted(before, reverse=True)
    buttons[0].click()
    assert head.get_attribute("aria-sort") is None


def test_the_predictions_are_downloaded_without_a_network(page, kind, tmp_path):
    links = page.find_elements(By.CSS_SELECTOR, "a[download]")
    assert len(links) == (kind == "evaluate")
    if not links:
        return
    page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    links[0].click()
    WebDriverWait(page, 20).until(lambda _: (tmp_path / "predictions.csv").exists())
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert lines[0] == "row,true,predicted,error,median,low_0.9,high_0.9"
    assert len(lines) == 101


def test_a_script_that_came_with_a_name_would_not_run(page):
    page.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.ran = true'; document.body.append(script)"
    )
    assert page.execute_script("return window.ran") is None


@pytest.mark.parametrize("wanted", ["light", "dark"])
def test_the_verdict_has_a_color_that_can_be_read(page, kind, wanted):
    colours(page, wanted)
    found = page.find_elements(By.CSS_SELECTOR, ".finding")
    assert len(found) == (4 if kind == "evaluate" else 0)
    for finding in found:
        word = finding.find_element(By.CSS_SELECTOR, ".level")
        ratio = contrast(word.value_of_css_property("color"), background(finding))
        assert ratio >= 4.5


def background(element):
    return element.value_of_css_property("background-color")


def contrast(one, other):
    """The contrast of two colors as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
