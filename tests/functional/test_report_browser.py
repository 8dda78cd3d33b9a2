"""The report in Chromium: opened from a file, with no network, by keys, pointer and address."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from benchmarks.chromium import chromium, missing, opening_ms
from benchmarks.report import size
from benchmarks.runs import make_runs
from stages.common.params import load_params
from stages.report.site import write_site
from tests.unit.test_report_site import hostile_run

REPOSITORY = Path(__file__).resolve().parents[2]
WHY = missing()

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.xdist_group("chromium"),
    # In CI nothing may skip.
    pytest.mark.skipif(bool(WHY) and not os.environ.get("CI"), reason=WHY or "there is a browser"),
]

TABS = ("verdict", "changes", "trace", "queries", "date", "key")


class Page:
    """The report in a browser."""

    def __init__(self, driver: Any, index: Path) -> None:
        self.driver = driver
        self.index = index
        self.go("#overview")

    def go(self, address: str) -> None:
        """Open an address of the report, and wait until it is shown."""
        self.driver.get(self.index.as_uri() + address)
        self.wait(lambda: self.script("return document.documentElement.dataset.ready") == address)

    def script(self, text: str, *arguments: Any) -> Any:
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(text, *arguments)

    def wait(self, met: Callable[[], Any]) -> None:
        """Wait until something holds; fails after half a minute."""
        WebDriverWait(self.driver, 30, 0.05).until(lambda _: met())

    def all(self, selector: str) -> list[Any]:
        """The elements that are seen."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return [element for element in found if element.is_displayed()]

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements that are seen."""
        return [element.text for element in self.all(selector)]

    def keys(self, *keys: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    @property
    def address(self) -> str:
        """What stands behind the file's name."""
        return str(self.script("return location.hash"))

    def complaints(self) -> list[str]:
        """What the browser's console says, and what was asked for beside files."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url.startswith(("http:", "https:", "ws:", "wss:", "ftp:")):
                    said.append(f"asked for {url}")
        return said

    def index_data(self) -> Any:
        """Which tasks and trials there are."""
        text = self.script("return document.getElementById('index').textContent")
        return json.loads(text)["tasks"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on 20 tasks, three runs, two trials each; the third run's traces are not there."""
    root = tmp_path_factory.mktemp("report")
    params = load_params(REPOSITORY / "params.yaml")
    runs = make_runs(root, params, tasks=20, models=3, trials=2, events=40)
    runs[2] = runs[2].model_copy(update={"results": None})
    write_site(root / "report", runs[0], runs[1:])
    return root / "report" / "index.html"


@pytest.fixture(scope="module")
def opened(report: Path) -> Iterator[Page]:
    """The report in a browser that all tests share."""
    with chromium() as driver:
        yield Page(driver, report)


@pytest.fixture
def page(opened: Page) -> Page:
    """The report at its overview."""
    opened.complaints()
    opened.go("#overview")
    return opened


WALK = """
const [wanted, done] = arguments;
(async () => {
  const heads = [];
  for (const [id, ref] of wanted) {
    location.hash = report.address(id, ref);
    while (document.documentElement.dataset.ready !== location.hash) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    heads.push(document.querySelector("#view-task h1").textContent);
  }
  done(heads);
})();
"""
"""Opens one page after another, and gives their headings."""


def test_every_page_is_reached_and_nothing_is_asked_for_or_complained_of(page: Page) -> None:
    page.wait(lambda: page.script("return document.getElementById('plots').dataset.drawn"))
    assert len(page.all(".plot svg.main-svg")) >= 4
    for view in ("matrix", "tasks", "failures"):
        page.go(f"#{view}")
        assert page.all(f"#view-{view} h1")
    tasks = page.index_data()
    assert len(tasks) == 20
    wanted = [(task["id"], ref) for task in tasks for ref in task["pages"]]
    assert len(wanted) == 120
    page.driver.set_script_timeout(300)
    heads = page.driver.execute_async_script(WALK, wanted)
    assert [head.split()[-1] for head in heads] == [name for name, _ in wanted]
    for task in tasks[:3]:
        for tab in TABS:
            page.go(f"#task/{task['id']}/0/{tab}")
            assert [part.get_attribute("id") for part in page.all(".part")] == [f"part-{tab}"]
            assert page.script(
                "return document.querySelectorAll(arguments[0]).length", f"#part-{tab} *"
            )
    assert page.complaints() == []


def test_a_trace_is_loaded_when_it_is_looked_at(page: Page) -> None:
    page.go("#task/parcel002/0")
    assert page.script("return document.querySelectorAll('li.step').length") == 0
    page.go("#task/parcel002/0/trace")
    assert page.script("return document.querySelectorAll('li.step').length") > 15
    assert page.texts(".strip .lane-name") == ["main", "verifier"]


def test_an_address_opens_a_step_of_a_trace(page: Page) -> None:
    page.go("#task/berth001/1@model-b/trace/12")
    step = page.all("li.step.selected")
    assert len(step) == 1
    assert int(step[0].get_attribute("data-n")) in (11, 12)
    assert page.script("return document.querySelector('li.selected details')?.open ?? true")
    assert page.texts(".trials .here")[0].startswith("1 ")


def test_an_address_of_nothing_says_so(page: Page) -> None:
    page.go("#task/nothing/0")
    assert page.texts("#view-task .notice") == ["There is no task nothing in this report."]
    page.go("#task/berth001/9")
    assert page.texts("#view-task .notice") == ["There is no trial 9 of berth001 in this report."]


def test_search_finds_a_task_from_anywhere(page: Page) -> None:
    page.keys("/", *"lease002")
    assert page.texts("#found b") == ["lease002"]
    page.keys(Keys.ENTER)
    page.wait(lambda: page.texts("#view-task h1")[0:1] and "lease002" in page.texts("h1")[0])
    assert page.address.startswith("#task/lease002/")


def test_the_lists_are_filtered_by_words(page: Page) -> None:
    for view, rows in (("matrix", "#matrix tbody tr"), ("tasks", "#tasks tbody tr")):
        page.go(f"#{view}")
        assert len(page.all(rows)) == 20
        page.keys("/", *"tool0")
        assert [text.split()[0] for text in page.texts(rows)] == ["tool001", "tool002"]
        assert "2 of 20 tasks" in page.texts(f"#{view}-count")
        page.keys(Keys.ESCAPE)
        assert len(page.all(rows)) == 20
        page.keys(Keys.ESCAPE)


def test_the_matrix_is_filtered_and_shows_numbers(page: Page) -> None:
    page.go("#matrix")
    page.driver.find_element(By.CSS_SELECTOR, "[data-filter=unscored]").click()
    rows = page.all("#matrix tbody tr")
    assert 0 < len(rows) < 20
    assert all("unscored" in row.get_attribute("data-states") for row in rows)
    page.driver.find_element(By.CSS_SELECTOR, "[data-filter=all]").click()
    page.driver.find_element(By.CSS_SELECTOR, "[data-shows=cost]").click()
    assert page.texts("#matrix tbody td.cell")[0].startswith("$")
    page.driver.find_element(By.CSS_SELECTOR, "[data-shows=verdict]").click()
    assert page.texts("#matrix tbody td.cell")[0] in ("0/2", "1/2", "2/2")


def test_the_table_of_tasks_is_sorted_by_numbers(page: Page) -> None:
    page.go("#tasks")
    head = next(h for h in page.all("#tasks thead th") if h.text.startswith("cost"))
    costs = []
    for _ in range(2):
        head.click()
        shown = page.all("#tasks tbody td:nth-child(11)")
        costs.append([float(cell.get_attribute("data-order")) for cell in shown])
    assert costs[0] == sorted(costs[0])
    assert costs[1] == sorted(costs[1], reverse=True)


def test_a_trace_is_filtered_by_words_and_by_whose_it_is(page: Page) -> None:
    page.go("#task/berth002/0/trace")
    every = len(page.all("li.step"))
    page.driver.find_element(By.CSS_SELECTOR, "button.who[data-who=main]").click()
    only = page.all("li.step")
    assert 0 < len(only) < every
    assert {step.get_attribute("data-who") for step in only} == {"verifier"}
    page.driver.find_element(By.CSS_SELECTOR, "button.who[data-who=main]").click()
    page.keys("/", *"dbt build")
    found = page.all("li.step")
    assert 0 < len(found) < every
    assert all("dbt build" in step.get_attribute("textContent") for step in found)
    page.keys(Keys.ESCAPE, Keys.ESCAPE)
    assert len(page.all("li.step")) == every


def test_keys_walk_the_lists_the_tasks_and_the_steps(page: Page) -> None:
    page.keys("g", "m")
    page.wait(lambda: page.address == "#matrix")
    page.keys("j", "j", "k", "j")
    assert [row.get_attribute("data-task") for row in page.all("tr.selected")] == ["animal002"]
    page.keys(Keys.ENTER)
    page.wait(lambda: page.address.startswith("#task/animal002/"))
    page.keys("]")
    page.wait(lambda: page.address.startswith("#task/berth001/"))
    page.keys("3")
    page.wait(lambda: page.all("li.step"))
    page.keys("j", "j", "o")
    assert len(page.all("li.step.selected")) == 1
    assert page.address.split("/")[3] == "trace"
    page.keys("u")
    page.wait(lambda: page.address == "#matrix")
    page.keys("?")
    assert page.script("return document.getElementById('help').open")
    page.keys(Keys.ESCAPE)
    assert not page.script("return document.getElementById('help').open")


def test_the_back_button_leads_back(page: Page) -> None:
    page.go("#matrix")
    page.script("document.querySelector('#matrix tbody tr:nth-child(15) a').click()")
    page.wait(lambda: page.address.startswith("#task/"))
    page.driver.back()
    page.wait(lambda: page.address == "#matrix" and page.all("#matrix"))


def luminance(color: list[float]) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


COLOR = """
const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const element = document.createElement("span");
document.body.append(element);
element.style.color = `var(--${arguments[0]})`;
probe.fillStyle = getComputedStyle(element).color;
element.remove();
probe.fillRect(0, 0, 1, 1);
return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
"""

PAIRS = [
    (front, back)
    for front in ("text", "dim", "faint", "accent")
    for back in ("page", "raised", "sunk")
] + [
    ("pass", "pass-soft"), ("fail", "fail-soft"), ("warn", "warn-soft"), ("text", "warn-soft"),
    ("text", "pass-soft"), ("text", "fail-soft"), ("text", "select"), ("accent", "select"),
    ("pass", "raised"), ("fail", "raised"), ("fail", "page"), ("warn", "page"), ("side", "page"),
]  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(page: Page, theme: str) -> None:
    page.script("document.documentElement.dataset.theme = arguments[0]", theme)
    weak = {}
    for front, back in PAIRS:
        lights = sorted(luminance(page.script(COLOR, name)) for name in (front, back))
        contrast = (lights[1] + 0.05) / (lights[0] + 0.05)
        if contrast < 4.5:
            weak[front, back] = round(contrast, 2)
    page.script("document.documentElement.dataset.theme = 'auto'")
    assert weak == {}


def test_the_theme_follows_the_system_until_it_is_chosen(report: Path) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    with chromium(dark=True) as driver:
        page = Page(driver, report)
        dark = page.script(background)
        page.wait(lambda: page.script("return document.getElementById('plots').dataset.drawn"))
        page.keys("t")  # dark
        assert page.script(background) == dark
        page.keys("t")  # light
        light = page.script(background)
        assert light != dark
        page.driver.refresh()
        page.wait(lambda: page.script("return document.documentElement.dataset.ready"))
        assert page.script(background) == light
        driver.find_element(By.ID, "theme").click()
        assert page.script(background) == dark
        assert page.complaints() == []


def test_a_phone_shows_every_page_without_scrolling_sideways(report: Path) -> None:
    with chromium(390, 844) as driver:
        page = Page(driver, report)
        views = ["#overview", "#matrix", "#tasks", "#failures"]
        for address in views + [f"#task/berth002/0/{tab}" for tab in TABS]:
            page.go(address)
            wide = page.script("return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, address
        assert page.complaints() == []


def test_a_hostile_run_carries_nothing_out(tmp_path: Path) -> None:
    params = load_params(REPOSITORY / "params.yaml")
    run = hostile_run(tmp_path, params)
    other = run.model_copy(update={"label": f"{run.label} again"})
    write_site(tmp_path / "report", run, [other])
    with chromium() as driver:
        page = Page(driver, tmp_path / "report" / "index.html")
        page.wait(lambda: page.script("return document.getElementById('plots').dataset.drawn"))
        for task in page.index_data():
            for ref in task["pages"]:
                for tab in TABS:
                    page.go(
                        page.script("return report.address(...arguments)", task["id"], ref, tab)
                    )
                    page.script("document.querySelectorAll('details').forEach(d => d.open = true)")
        for view in ("matrix", "tasks", "failures"):
            page.go(f"#{view}")
        time.sleep(0.2)
        assert page.script("return window.hacked") is None
        assert page.script("return document.querySelectorAll('main img, main script').length") == 0
        assert page.complaints() == []


@pytest.mark.timeout(1800)
def test_a_report_of_68_tasks_and_5_models_is_small_and_opens_at_once(tmp_path: Path) -> None:
    params = load_params(REPOSITORY / "params.yaml")
    runs = make_runs(tmp_path, params, tasks=68, models=5, events=300)
    write_site(tmp_path / "report", runs[0], runs[1:])
    assert size(tmp_path / "report") < 30_000_000
    with chromium() as driver:
        index = tmp_path / "report" / "index.html"
        times = [opening_ms(driver, index) for _ in range(3)]
        assert min(times) < 2000, times
        page = Page(driver, index)
        started = time.monotonic()
        page.go("#task/animal001/0/trace")
        assert len(page.all("li.step")) > 150
        assert time.monotonic() - started < 20
        assert page.complaints() == []
