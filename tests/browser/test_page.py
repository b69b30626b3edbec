"""The page of `softbins paper report` as a browser shows it."""

import json

import pytest

from softbins.paper.run.store import Store
from softbins.paper.show.report import write_report
from tests.browser.chromium import needs_chromium, resize
from tests.paper.synthetic import FULL, fill

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")
pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = needs_chromium
TABLE = "#table .figures"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    write_report(path, "bike", FULL, fill(Store(folder / "store"), FULL))
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    """The page, newly opened in a window of 1200 pixels."""
    resize(browser, 1200)
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what earlier tests left
    browser.get("about:blank")  # else an address with another fragment would not load again
    browser.get(address)
    return browser


def column(browser, number):
    """The values of a column of the first table, from top to bottom."""
    script = (
        "return Array.from(document.querySelector(arguments[0]).tBodies[0].rows, row => "
        "row.cells[arguments[1]].dataset.value ?? row.cells[arguments[1]].innerText)"
    )
    return browser.execute_script(script, TABLE, number)


def header(browser, number):
    return browser.find_elements(By.CSS_SELECTOR, f"{TABLE} thead")[0].find_elements(
        By.TAG_NAME, "th"
    )[number]


def test_the_console_stays_empty(page):
    header(page, 1).find_element(By.TAG_NAME, "button").click()
    assert page.get_log("browser") == []


def test_nothing_is_requested_but_the_page(page, address):
    page.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    elsewhere = [url for url in requested if not url.startswith(("data:", "about:"))]
    assert elsewhere == [address]
    entries = page.execute_script("return performance.getEntriesByType('resource').length")
    assert entries == 0


@pytest.mark.parametrize("width", [1200, 360])
def test_every_figure_is_visible(page, width):
    resize(page, width)
    found = page.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(found) == 9
    for picture in found:
        page.execute_script("arguments[0].scrollIntoView()", picture)
        box = page.execute_script("return arguments[0].getBoundingClientRect().toJSON()", picture)
        assert box["width"] > 250
        assert box["height"] > 150
        assert box["left"] >= 0
        assert box["right"] <= width
        assert -1 <= box["top"] < 800
        assert picture.is_displayed()
        assert picture.accessible_name.endswith(".")


def test_a_click_on_a_header_sorts_by_number(page):
    before = column(page, 5)
    button = header(page, 5).find_element(By.TAG_NAME, "button")
    button.click()
    rising = column(page, 5)
    assert rising == sorted(before, key=float) != before
    assert header(page, 5).get_attribute("aria-sort") == "ascending"
    assert column(page, 0)[0] == "HL-Gaussian"
    button.click()
    assert column(page, 5) == rising[::-1]
    assert header(page, 5).get_attribute("aria-sort") == "descending"


def test_the_keyboard_sorts_as_well(page):
    button = header(page, 0).find_element(By.TAG_NAME, "button")
    page.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    names = [name.split("\n")[0] for name in column(page, 0)]
    assert names == sorted(names, key=str.lower)
    assert header(page, 0).get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.TAB)
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert header(page, 0).get_attribute("aria-sort") is None
    assert header(page, 1).get_attribute("aria-sort") == "ascending"


def test_missing_values_stay_last(page):
    page.execute_script(f"document.querySelector('{TABLE} td').dataset.value = ''")
    button = header(page, 1).find_element(By.TAG_NAME, "button")
    for _ in range(2):
        button.click()
        assert column(page, 1).index("") == 9


def test_links_lead_to_their_sections(page):
    links = page.find_elements(By.CSS_SELECTOR, "a[href^='#']")
    assert len(links) == 14
    for name in dict.fromkeys(link.get_attribute("href").partition("#")[2] for link in links):
        page.find_element(By.CSS_SELECTOR, f"a[href='#{name}']").click()
        top = page.execute_script(
            "return document.getElementById(arguments[0]).getBoundingClientRect().top", name
        )
        assert 0 <= top < 40, name
        assert page.execute_script("return location.hash") == f"#{name}"


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_the_page_does_not_scroll_sideways(page, width):
    resize(page, width)
    page.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    inside = page.execute_script("return document.documentElement.scrollWidth")
    assert inside <= width
    page.execute_script("window.scrollTo(500, 0)")
    assert page.execute_script("return window.scrollX") == 0


def test_no_table_scrolls_in_a_window_of_1200_pixels(page):
    script = (
        "return Array.from(document.querySelectorAll('.box'), box => "
        "box.scrollWidth - box.clientWidth)"
    )
    assert set(page.execute_script(script)) == {0}


@pytest.mark.parametrize("width", [360, 1200])
def test_decimal_points_are_below_each_other(page, width):
    """The spans end where the points are, ours and the paper's."""
    resize(page, width)
    script = (
        "return Array.from(document.querySelector(arguments[0]).tBodies[0].rows, row => "
        "Array.from(row.querySelectorAll('td'), cell => "
        "Array.from(cell.querySelectorAll('.whole'), part => "
        "Math.round(10 * part.getBoundingClientRect().right) / 10)))"
    )
    rows = page.execute_script(script, TABLE)
    for places in zip(*rows, strict=True):
        assert len({place for cell in places for place in cell}) == 1
    assert len({cell[0] for cell in rows[0]}) == 6


def test_differences_for_want_of_epochs_are_grey(page):
    assert page.find_elements(By.CSS_SELECTOR, "#table .differs") == []
    mark, remark = (page.find_element(By.CSS_SELECTOR, name) for name in (".expected", ".remark"))
    assert mark.value_of_css_property("color") == remark.value_of_css_property("color")
    assert "more epochs" in mark.get_attribute("title")


def test_the_page_follows_the_reader_s_choice_of_light_and_dark(page):
    found = {}
    for wanted in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": wanted}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        body = page.find_element(By.TAG_NAME, "body")
        found[wanted] = [body.value_of_css_property(n) for n in ("background-color", "color")]
    assert found["light"] == ["rgba(255, 255, 255, 1)", "rgba(27, 31, 36, 1)"]
    assert found["dark"] == ["rgba(13, 17, 23, 1)", "rgba(230, 237, 243, 1)"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_wide_tables_scroll_in_their_own_box(page):
    resize(page, 360)
    script = (
        "const box = document.querySelector('#table .box'); box.scrollLeft = 100;"
        "return [box.scrollWidth > box.clientWidth, box.scrollLeft]"
    )
    assert page.execute_script(script) == [True, 100]


def test_focus_can_be_seen(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    style = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.switch_to.active_element.tag_name == "a"
    assert page.execute_script(style) == "solid"


def test_without_its_script_the_page_is_complete(page, address):
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.get(address)
        rows = page.find_elements(By.CSS_SELECTOR, f"{TABLE} tbody tr")
        assert len(rows) == 20  # two tables of ten methods
        assert page.find_elements(By.CSS_SELECTOR, "th button") == []
        assert page.find_element(By.CSS_SELECTOR, f"{TABLE} thead th").text == "Method"
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
