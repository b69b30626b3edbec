"""The pages of `softbins evaluate` and `softbins compare` as a browser shows them."""

import json

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

pytestmark = needs_chromium

METHODS = ("linear", "l2", "l1", "l2-noise", "l2-clipping", "l2-softmax", "hl-gaussian", "mdn")
FIGURES = {"evaluate": 5, "compare": 1}


def evaluated():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    y = 1000 * x[:, 0] + 300 * random.normal(size=300)
    model = HistogramRegressor((16,), members=2, max_epochs=5, random_state=0)
    model.fit(x[:200], y[:200])
    return evaluate(model, x[200:], y[200:]).page("a_long_name_of_a_model_file.model", "new.csv")


def compared():
    results = [
        summarize_folds(name, [{"mae": 12345.678 + i, "rmse": 23456.789 + i * i} for i in range(3)])
        for name in METHODS
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
        assert box["height"] > 200
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
