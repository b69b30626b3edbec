"""The browser that the tests of a module share."""

import pytest

from tests.browser import chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = chromium.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
