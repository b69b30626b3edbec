"""The pages of `softbins serve` in a browser: a row is filled in, and its density is seen."""

import json
import threading

import pytest

from tests.browser.chromium import needs_chromium, resize
from tests.serve.served_models import boolean_model, frame_of, house_model

pytest.importorskip("fastapi", reason="the service needs FastAPI")
pytest.importorskip("uvicorn", reason="the service needs uvicorn")
pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
import uvicorn
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from softbins.serve import server
from softbins.serve.app import make_app

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def model():
    return house_model()


def served(app):
    """Serve an application in a thread of this process; its address."""
    service = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    with server.listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=service.run, args=([listener],), daemon=True)
        thread.start()
        yield server.address_of(listener)
        service.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def address(model):
    yield from served(make_app(model, "houses.model"))


@pytest.fixture
def page(browser, address):
    """The form, newly opened in a window of 1200 pixels."""
    resize(browser, 1200)
    for log in ("browser", "performance"):
        browser.get_log(log)  # what earlier tests left
    browser.get(f"{address}/")
    return browser


def field(page, name):
    label = page.find_element(By.XPATH, f"//label[.='{name}']")
    return page.find_element(By.ID, label.get_attribute("for"))


def type_in(page, name, text):
    found = field(page, name)
    found.clear()
    found.send_keys(text)


def fill_in(page):
    """The first row of `frame_of`, as a person would."""
    type_in(page, "size", "90.5")
    Select(field(page, "garden")).select_by_visible_text("True")
    Select(field(page, "town")).select_by_visible_text("Aachen")
    Select(field(page, "zone")).select_by_visible_text("2")


def submit(page):
    button = page.find_element(By.TAG_NAME, "button")
    button.click()
    wait_for_the_next_page(page, button)


def is_gone(element):
    """Whether an element belongs to a page that was left; a driver has two ways to say so."""
    try:
        element.is_enabled()
    except StaleElementReferenceException:
        return True
    except WebDriverException as error:
        if "does not belong to the document" not in str(error):
            raise
        return True
    return False


def wait_for_the_next_page(page, element):
    """Until the element is gone with its page, and the next page is there."""
    WebDriverWait(page, 20).until(lambda _: is_gone(element))
    WebDriverWait(page, 20).until(
        lambda page: page.execute_script("return document.readyState") == "complete"
    )


def numbers(page):
    values = page.find_elements(By.CSS_SELECTOR, ".result data")
    return [float(value.get_attribute("value")) for value in values]


def test_a_row_that_is_filled_in_gives_the_numbers_and_the_density_of_the_model(page, model):
    fill_in(page)
    submit(page)
    frame = frame_of("houses")[:1]
    expected = [*model.predict(frame), *model.predict(frame, "median")]
    expected += [*model.predict_interval(frame)[0], *model.predict_quantiles(frame, [0.1, 0.9])[0]]
    assert numbers(page) == expected
    picture = page.find_element(By.CSS_SELECTOR, "figure svg")
    assert picture.accessible_name.startswith("Predicted density")
    assert picture.size["width"] > 300
    assert field(page, "size").get_attribute("value") == "90.5"
    assert Select(field(page, "town")).first_selected_option.text == "Aachen"


def test_the_area_of_the_density_lies_where_the_model_says(page, model):
    """The filled area, read from the picture, is highest where the density is."""
    fill_in(page)
    submit(page)
    script = (
        "const area = Array.from(document.querySelectorAll('#density path')).find("
        "  path => getComputedStyle(path).fill === 'rgb(86, 180, 233)').getBBox();"
        "const axes = document.querySelector('#density g[id$=patch_2] path').getBBox();"
        "return [area.height / axes.height, area.width]"
    )
    height, width = page.execute_script(script)
    assert 0.9 < height <= 1.0  # the axes end a little above the highest bin
    assert width > 0


def test_a_gap_is_a_field_left_empty(page, model):
    type_in(page, "size", "")
    for name in ("garden", "town", "zone"):
        Select(field(page, name)).select_by_value("")
    submit(page)
    assert numbers(page)[0] == model.predict(frame_of("houses")[2:])[0]


def test_the_keyboard_is_enough(page):
    first = field(page, "size")
    first.send_keys(Keys.ENTER)
    wait_for_the_next_page(page, first)
    assert len(numbers(page)) == 6
    assert not field(page, "nothing").is_enabled()


def test_what_is_too_large_is_said_beside_the_form(page):
    type_in(page, "size", "1e39")
    submit(page)
    assert (
        "field 'size': need a number of at most"
        in page.find_element(By.CSS_SELECTOR, "[role=alert]").text
    )
    assert field(page, "size").get_attribute("aria-invalid") == "true"
    assert numbers(page) == []
    # The browser itself reports the status of the page that was refused.
    assert all("422" in entry["message"] for entry in page.get_log("browser"))


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_console_stays_empty_and_no_other_host_is_asked(page, address, path):
    page.get(address + path)
    if path == "/":
        submit(page)
        assert len(numbers(page)) == 6
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert {url for url in requested if not url.startswith("data:")} == {
        f"{address}/",
        address + path,
    }


@pytest.mark.parametrize("path", ["/", "/docs"])
@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_the_page_does_not_scroll_sideways(page, address, path, width):
    page.get(address + path)
    if path == "/":
        submit(page)
    resize(page, width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_on_a_phone_the_prediction_comes_first_and_beside_the_form_elsewhere(page):
    submit(page)
    script = (
        "return ['.result', '.entry'].map(part => {"
        " const box = document.querySelector(part).getBoundingClientRect();"
        " return [box.left, box.top] })"
    )
    (result_left, result_top), (entry_left, entry_top) = page.execute_script(script)
    assert result_left > entry_left
    assert result_top == entry_top
    resize(page, 390)
    (result_left, result_top), (entry_left, entry_top) = page.execute_script(script)
    assert result_left == entry_left
    assert result_top < entry_top


def test_the_page_follows_the_reader_s_choice_of_light_and_dark(page):
    submit(page)
    inks = {}
    for wanted in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": wanted}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        inks[wanted] = page.execute_script(
            "return ['body', 'input', '#density text'].map(name =>"
            " getComputedStyle(document.querySelector(name))).map(style =>"
            " [style.backgroundColor, style.fill === 'rgb(0, 0, 0)' ? style.color : style.fill])"
        )
    assert inks["light"][0] == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert inks["dark"][0] == ["rgb(13, 17, 23)", "rgb(230, 237, 243)"]
    assert [ink for _, ink in inks["dark"]] == ["rgb(230, 237, 243)"] * 3


def test_a_model_that_remembers_its_target_names_it(browser):
    for address in served(make_app(boolean_model(), "boolean.model")):
        browser.get(f"{address}/")
        assert browser.find_element(By.TAG_NAME, "h1").text == "Predict price"
        Select(field(browser, "garden")).select_by_visible_text("true")
        submit(browser)
        words = browser.find_elements(By.CSS_SELECTOR, "#density text")
        assert "price" in [word.text for word in words]
