"""A hundred thousand rows: the page stays small and usable (made in 6 s on an idle Zen 5 core)."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace

import pytest

from portable import report
from tests.report import made

COUNT = 100_000


def many(count=COUNT):
    """Records of a thousand problems on two devices and five candidates, with ten configs each."""
    problems = [
        made.matmul(m, 256, n) for m, n in itertools.product(range(1, 26), range(8, 328, 8))
    ]
    candidates = ("numpy", "torch", "triton", "opencl[pocl]", "opencl[intel]")
    found = []
    for what, device, candidate, block in itertools.product(
        problems, (made.CPU, made.H100), candidates, range(10)
    ):
        seed = len(found)
        base = 1e-4 * (1 + seed % 97) * (1 + block / 10)
        one = made.record(what, candidate, base, device, count=5, config={"block": block})
        found.append(replace(one, samples=tuple(s * (1 + seed % 13 / 50) for s in one.samples)))
        if len(found) == count:
            break
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    records = many()
    file = tmp_path_factory.mktemp("large") / "large.html"
    built = report.build(records)
    report.write_html(built, file)
    return built, file


def test_100_000_rows_stay_under_six_megabytes(large):
    built, file = large
    assert len(built.rows) == COUNT
    assert file.stat().st_size < 6e6


def test_the_large_page_stays_usable(large):
    pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        pytest.skip("no browser: apt install chromium chromium-driver")
    _, file = large
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    page = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        page.get(file.as_uri())
        WebDriverWait(page, 30).until(
            lambda b: b.execute_script("return document.documentElement.dataset.ready") == "yes"
        )
        page.find_element(By.ID, "f-headline").click()
        WebDriverWait(page, 20).until(
            lambda b: b.find_element(By.ID, "count").text.startswith("100,000 of 100,000")
        )
        orders = []
        for _ in range(2):
            page.find_element(By.CSS_SELECTOR, "[data-sort=sol]").click()
            heading = page.find_element(By.CSS_SELECTOR, "th:has([data-sort=sol])")
            orders.append(heading.get_attribute("aria-sort"))
        assert sorted(orders) == ["ascending", "descending"]
        assert page.execute_script("return document.querySelectorAll('*').length") < 20_000
    finally:
        page.quit()
