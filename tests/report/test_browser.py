"""The page in a real browser: headless Chromium through its driver; skipped where there is none."""

from __future__ import annotations

import base64
import csv
import itertools
import json
import shutil

import pytest

from bench import demo
from portable import benching, report
from portable.benching import Benched, WorkloadBench
from portable.contest import Result
from portable.report.prices import Price
from portable.report.weights import from_entries, from_mapping
from tests.report import made
from tests.report.test_foreign import row

selenium = pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="no browser: apt install chromium chromium-driver"
    ),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402


def with_every_option(path):
    """Two machines, a baseline, prices, one workload."""
    records = made.several()
    problems = dict.fromkeys(r.problem for r in records)
    weights = from_mapping(
        "llama", {p: (3.0, f"layer {i}") for i, p in enumerate(problems)}, tokens=512, covered=0.8
    )
    both = records + made.elsewhere([r for r in records if not r.runtime], made.H100, 40)
    prices = [Price(name, name, 2.0, 300.0, "EUR") for name in ("cpu-amd-zen5", "amd-mi300x")]
    built = report.build(
        both, workloads=[weights], chosen=dict.fromkeys(problems, "torch"), prices=prices,
        hardware=["H200 SXM", "MI300X"], baseline=made.several(1),
    )  # fmt: skip
    report.write_html(built, path)
    return built


def as_the_demo(path):
    """What `make demo` shows: two workloads, three platforms of one machine, four projected."""
    by_problem = {}
    for record in made.several():
        by_problem.setdefault(record.problem, []).append(record)
    refused = {"triton": "no GPU is visible", "cuda": "CuPy is not installed"}
    timed = [
        Benched(p, 3.0 + i, f"layer {i}", Result(p, records, refused=refused), "torch")
        for i, (p, records) in enumerate(by_problem.items())
    ]
    benches = [
        WorkloadBench(
            from_entries(
                name,
                ((b.problem, b.weight, b.note) for b in part),
                unit="calls per request",
                covered=0.8,
                unmapped={"topk": 0.01},
                tokens=512,
                scaled=0.2,
            ),
            part,
        )
        for name, part in zip(demo.WORKLOADS, (timed, timed[3:]), strict=True)
    ]
    compiled = {"rows": [row("sm_90"), row("gfx942")], "skipped": ["x: is not here"]}
    return benching.write_html(str(path), benches, demo.PROJECTED, compiled)


@pytest.fixture(scope="module", params=[with_every_option, as_the_demo])
def shown(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    return request.param(file), file


@pytest.fixture(scope="module")
def built(shown):
    return shown[0]


@pytest.fixture(scope="module")
def page(shown):
    return shown[1]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    downloads = tmp_path_factory.mktemp("downloads")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--window-size=1280,900"):  # fmt: skip
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.downloads = downloads
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    browser.set_window_size(1280, 900)
    browser.get(page.as_uri())
    ready(browser)
    return browser


def ready(browser, seconds=20):
    WebDriverWait(browser, seconds).until(
        lambda b: b.execute_script("return document.documentElement.dataset.ready") == "yes"
    )


def column(browser, index):
    """Texts of a column of the visible rows."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#facts-table tbody tr:not(.detail)')]"
        ".map(r => r.cells[arguments[0]].firstChild.textContent)", index,
    )  # fmt: skip


def count(browser):
    return int(browser.find_element(By.ID, "count").text.split(" of ")[0].replace(",", ""))


def counts(browser, expected):
    """Waits for the page (it waits for the typist) until it shows that many rows."""
    WebDriverWait(browser, 10, 0.05).until(
        lambda b: count(b) == expected, f"{count(browser)} rows instead of {expected}"
    )


def head(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#facts-table thead th')].map(c => c.textContent)"
    )


def test_no_console_error_and_no_request(opened, page):
    for kind in ("browser", "performance"):
        opened.get_log(kind)  # of the pages before
    opened.get(page.as_uri())
    ready(opened)
    opened.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    assert [e for e in opened.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
    asked = []
    for entry in opened.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert {url.partition("#")[0] for url in asked if not url.startswith("data:")} <= {
        page.as_uri()
    }
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_charts_are_drawn(opened, built):
    points = opened.find_elements(By.CSS_SELECTOR, ".roofline .pt")
    with_work = [r for r in built.headlines if r.ok and r.cost.flops > 0]
    assert len(points) == len(with_work)
    boxes = opened.execute_script(
        "return [...document.querySelectorAll('.roofline')].map(s => {const v = s.viewBox.baseVal;"
        "return [...s.querySelectorAll('.pt')].every(p => {const b = p.getBBox();"
        "return b.width > 0 && b.x >= 0 && b.y >= 0 && b.x + b.width <= v.width"
        " && b.y + b.height <= v.height})})"
    )
    assert boxes
    assert all(boxes)
    assert len(opened.find_elements(By.CSS_SELECTOR, ".waterfall .step")) >= 5
    assert opened.find_elements(By.CSS_SELECTOR, ".cascade .line")


def test_labels_stay_inside_their_charts(opened):
    outside = opened.execute_script(
        "return [...document.querySelectorAll('.chart')].flatMap(s => {const v = s.viewBox.baseVal;"
        "return [...s.querySelectorAll('text')].filter(t => {const b = t.getBBox();"
        "return b.x < 0 || b.x + b.width > v.width || b.y + b.height > v.height})"
        ".map(t => t.textContent)})"
    )
    assert outside == []


def test_labels_do_not_lie_on_each_other(opened):
    assert len(opened.find_elements(By.CSS_SELECTOR, ".chart .rooflabel")) > 1
    overlapping = opened.execute_script(
        "const hit = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width"
        " && a.y < b.y + b.height - 3 && b.y < a.y + a.height - 3;"
        "return [...document.querySelectorAll('.chart')].flatMap(s => {"
        "const t = [...s.querySelectorAll('.rooflabel')].map(e => [e.textContent, e.getBBox()]);"
        "return t.flatMap(([n, a], i) => t.slice(i + 1).filter(([, b]) => hit(a, b))"
        ".map(([m]) => n + ' / ' + m))})"
    )
    assert overlapping == []


def test_platforms_are_told_with_their_portability(opened, built):
    section = opened.find_element(By.ID, "portability").text
    study = built.studies[0]
    for number, name in enumerate(study.platforms, 1):
        assert f"P{number} {name}" in section
    assert "it reaches this device by" in section
    groups = opened.find_elements(By.CSS_SELECTOR, ".matrix .group")
    assert {"host libraries", "OpenCL PoCL", "OpenCL Intel"} <= {g.text for g in groups}
    projected = opened.find_element(By.ID, "projected")
    assert "not measured" in projected.text
    style = "return getComputedStyle(arguments[0].querySelector('table')).borderLeftStyle"
    assert opened.execute_script(style, projected) == "dashed"


def test_hover_and_keys_tell_shape_times_and_gap(opened):
    chart = opened.find_element(By.CSS_SELECTOR, ".roofline")
    chart.send_keys(Keys.ARROW_RIGHT)
    tip = opened.find_element(By.ID, "tip")
    assert tip.is_displayed()
    assert "T_SOL" in tip.text
    assert "times" in tip.text or "the fastest" in tip.text
    assert opened.find_element(By.ID, "say").get_attribute("textContent") == tip.text
    chart.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    opened.execute_script(
        "arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))",
        opened.find_elements(By.CSS_SELECTOR, ".roofline .pt")[3],
    )
    assert tip.is_displayed()


def test_sorting(opened, built):
    names = head(opened)
    at = next(i for i, n in enumerate(names) if n.startswith("time"))
    button = opened.find_element(By.CSS_SELECTOR, "[data-sort=time]")
    button.click()
    fastest = min(r.time for r in built.headlines if r.time)
    assert seconds(column(opened, at)[0]) == pytest.approx(fastest, rel=6e-3)
    button = opened.find_element(By.CSS_SELECTOR, "[data-sort=time]")
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    button.click()
    slowest = max(r.time for r in built.headlines if r.time)
    times = [seconds(t) for t in column(opened, at)]
    assert times[0] == pytest.approx(slowest, rel=6e-3)
    assert times == sorted(times, reverse=True)


def seconds(text):
    value, unit = text.split()
    return float(value) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


def test_filters(opened, built):
    everything = len(built.headlines)
    counts(opened, everything)
    Select(opened.find_element(By.ID, "f-op")).select_by_value("softmax")
    softmax = [r for r in built.headlines if r.problem.op == "softmax"]
    counts(opened, len(softmax))
    assert set(column(opened, 1)) == {"softmax"}
    search = opened.find_element(By.ID, "f-text")
    search.send_keys("jax 96x512")
    wanted = [r for r in softmax if r.candidate == "jax" and "96x512" in r.label]
    assert wanted
    counts(opened, len(wanted))
    opened.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    counts(opened, everything)
    Select(opened.find_element(By.ID, "f-status")).select_by_value("incorrect")
    counts(opened, sum(r.status == "incorrect" for r in built.headlines))
    opened.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    opened.find_element(By.ID, "f-chosen").click()
    counts(opened, sum(r.chosen for r in built.headlines))


def test_the_same_figures_as_the_facts(opened, built):
    """What the script computes again agrees with the rows."""
    names = [n.strip() for n in head(opened)]
    opened.find_element(By.ID, "f-text").send_keys("jax")
    Select(opened.find_element(By.ID, "page-size")).select_by_visible_text("500")
    counts(opened, sum(r.candidate == "jax" for r in built.headlines))
    shown = {}
    for key in ("op", "problem", "device", "of SOL", "gap", "to native", "score", "of roof"):
        if key in names:  # a column is hidden where all rows say the same
            shown[key] = column(opened, names.index(key))
    rows = {
        (r.problem.op, r.label, r.place.label): r for r in built.headlines if r.candidate == "jax"
    }
    assert len(shown["problem"]) == len(rows)
    only = [built.places[0].label] * len(rows)
    keys = zip(shown["op"], shown["problem"], shown.get("device", only), strict=True)
    for i, key in enumerate(keys):
        row = rows[key]
        assert percent(shown["of SOL"][i]) == pytest.approx(row.sol_fraction, abs=6e-3)
        assert float(shown["gap"][i].rstrip("×")) == pytest.approx(row.gap_best, abs=6e-3)
        assert float(shown["to native"][i].rstrip("×")) == pytest.approx(row.gap_native, abs=6e-3)
        assert float(shown["score"][i]) == pytest.approx(row.score.value, abs=6e-3)
        if row.roof_fraction is not None:
            assert percent(shown["of roof"][i]) == pytest.approx(row.roof_fraction, abs=6e-3)


def percent(text):
    return float(text.strip("≈%")) / 100


def test_details_open_by_keyboard_and_sum_to_the_time(opened):
    button = opened.find_element(By.CSS_SELECTOR, "#facts-table .open")
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-expanded") == "true"
    detail = opened.find_element(By.CSS_SELECTOR, "#facts-table .detail")
    assert "native baseline" in detail.text
    widths = opened.execute_script(
        "return [...document.querySelectorAll('.detail .bar span')]"
        ".map(s => parseFloat(s.style.width))"
    )
    assert sum(widths) == pytest.approx(100, abs=0.5)
    button.send_keys(Keys.ENTER)
    assert not opened.find_elements(By.CSS_SELECTOR, "#facts-table .detail")


def test_a_click_on_a_point_finds_its_rows(opened, built):
    opened.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))",
        opened.find_element(By.CSS_SELECTOR, ".roofline .pt"),
    )
    label = opened.find_element(By.ID, "f-text").get_attribute("value")
    assert label
    counts(opened, len([r for r in built.headlines if label in f"{r.problem.op} {r.label}"]))
    assert count(opened) < len(built.headlines)
    assert all(p.startswith(label) for p in column(opened, 2))


def test_save_as_csv(opened, built):
    file = opened.downloads / "facts.csv"
    file.unlink(missing_ok=True)
    opened.find_element(By.ID, "download").click()
    WebDriverWait(opened, 10).until(lambda _: file.is_file())
    rows = list(csv.DictReader(file.open(encoding="utf-8")))
    assert len(rows) == len(built.headlines)
    assert {r["backend"] for r in rows} == {r.candidate for r in built.headlines}


def test_colours_can_be_chosen(opened):
    def background():
        return opened.execute_script("return getComputedStyle(document.body).backgroundColor")

    button = opened.find_element(By.ID, "theme")
    button.click()
    assert background() == "rgb(255, 255, 255)"
    button.click()
    assert background() == "rgb(15, 19, 24)"
    assert button.text == "Colours: dark"
    button.click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(opened, scheme):
    """At least 4.5 : 1 for every text on its background (WCAG AA)."""
    opened.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    bad = opened.execute_script(CONTRAST)
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert bad == []


CONTRAST = """
const parse = (c) => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const up = function* (e) { for (; e; e = e.parentElement) yield [e, getComputedStyle(e)]; };
const behind = (e) => {
  for (const [, style] of up(e)) {
    const colour = parse(style.backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const bad = {};
for (const e of document.querySelectorAll('body *')) {
  const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!text || !e.getClientRects().length || e.closest('button:disabled')) continue;
  const style = getComputedStyle(e), back = behind(e);
  const front = parse(e.closest('svg') ? style.fill : style.color);
  let alpha = 1;
  for (const [, above] of up(e)) alpha *= parseFloat(above.opacity);
  const mixed = front.slice(0, 3).map((v, i) => v * alpha + back[i] * (1 - alpha));
  const [dark, bright] = [light(mixed), light(back)].sort((x, y) => x - y);
  const ratio = (bright + 0.05) / (dark + 0.05);
  if (ratio < 4.5) bad[e.tagName + '.' + e.className] = e.textContent.slice(0, 30) + ratio;
}
return Object.entries(bad);
"""


def test_every_control_has_a_name_and_every_table_its_heads(opened):
    nameless = opened.execute_script(
        "return [...document.querySelectorAll('button,input,select,a,svg[role],[role=region]')]"
        ".filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')"
        " || e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML)"
    )
    assert nameless == []
    assert opened.execute_script(
        "return [...document.querySelectorAll('table')]"
        ".every(t => t.tHead && t.querySelector('th[scope=col]'))"
    )
    levels = opened.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(browser, page, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get(page.as_uri())
    ready(browser)
    widest = browser.execute_script("return document.documentElement.scrollWidth")
    # Tables that stack on a phone need no scrolling aside.
    assert browser.find_elements(By.CSS_SELECTOR, "table.stack")
    aside = browser.execute_script(
        "return [...document.querySelectorAll('table.stack')].map(t => t.parentElement)"
        ".filter(s => s.scrollWidth > s.clientWidth + 1).map(s => s.ariaLabel)"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert widest <= width
    assert width > 640 or aside == []


def test_print_view(opened, built):
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = opened.execute_script(
        "return ['nav', '#filters', '#pager', '#theme'].map(s => getComputedStyle("
        "document.querySelector(s)).display)"
    )
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert set(hidden) == {"none"}
    printed = opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 60


def test_without_a_script_the_page_still_tells(browser, page, built):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(page.as_uri())
    try:
        rows = browser.find_elements(By.CSS_SELECTOR, "#facts-table tbody tr")
        assert len(rows) == min(40, len(built.headlines))
        assert browser.find_element(By.CSS_SELECTOR, ".roofline .pt").is_displayed()
        assert not browser.find_element(By.ID, "filters").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
