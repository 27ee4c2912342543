"""The pages of `das show` in a real browser: what axe-core finds, by keyboard alone, the static copy beside them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from show_release import files_served

from flows.reports.show.application import Check, about
from flows.reports.show.detailed_dhca import DetailedDhca
from flows.reports.show.export import export
from flows.reports.show.kinds import open_release
from flows.reports.tuning.page import page as tuning_page
from flows.reports.tuning.plan import first_plan

AXE = Path(__file__).parents[1] / "vendor/axe.js"
VIEWS = (
    "overview",
    "find&q=iteration",
    "region/COUNTY/01001",
    "iteration/1002",
    "group/STATE/01/1002",
    "group/COUNTY/02001/1002",
    "group/TRACT/01001000100/2008",
    "compare&a=STATE/01/1002&b=STATE/02/1002",
    "compare&a=STATE/01/1002&region=0100",
    "group/COUNTY/99999/1002",
)
MORE = (
    "region/USA/1&level=2&sort=code&q_iteration=200",
    "iteration/2001&type=TRACT&in=COUNTY/01001&sort=code",
    "group/USA/1/2007",
    "group/COUNTY/01001/2007",
    "group/AIANNH/0007/2009",
    "compare&a=COUNTY/02001/1002&b=STATE/02/1002",
    "compare&a=PLACE/0100500/1004&region=tract&iteration=1003",
    "find&q=alabama",
    "find&q=nobody",
    "iteration/9999",
    "nothing",
)


def problems(browser) -> list[str]:
    """What axe-core finds on the page, by rule and element."""
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script("const done = arguments[0]; axe.run(document).then(done)")
    return [f"{one['id']}: {node['html'][:90]}" for one in found["violations"] for node in one["nodes"]]


def too_wide(browser) -> bool:
    return browser.execute_script("return document.documentElement.scrollWidth > innerWidth")


@pytest.mark.parametrize(("width", "scheme", "views"), [(1300, "light", VIEWS), (400, "dark", VIEWS[::3])])
def test_pages_are_accessible_and_fit(page, sized, width, scheme, views):
    browser = sized(width, scheme)
    for view in views:
        browser.get(f"{page}?view={view}")
        assert (view, problems(browser), too_wide(browser)) == (view, [], False)


def test_the_report_is_accessible_and_fits(released, sized):
    for width, scheme in ((1300, "light"), (400, "dark")):
        browser = sized(width, scheme)
        browser.get(f"file://{released}/report.html")
        assert (problems(browser), too_wide(browser)) == ([], False)
    assert browser.execute_script("return document.querySelectorAll('svg.pyramid').length") > 0
    text = (released / "report.html").read_text()
    assert not [word for word in ("<script", "<link", "src=", "@import", "http") if word in text]  # one file, offline


def test_the_tuning_page_is_accessible_and_its_table_fits(tmp_path, sized):
    (tmp_path / "tune.html").write_text(tuning_page(first_plan(None, None, None, None)))
    browser = sized(1400)
    browser.get(f"file://{tmp_path}/tune.html")
    assert problems(browser) == []
    assert browser.execute_script(
        "const box = document.querySelector('.wide'); return box.scrollWidth <= box.clientWidth"
    )


def test_by_keyboard_alone(page, sized):
    browser = sized(1300)
    browser.get(page)
    focused = lambda: browser.switch_to.active_element  # noqa: E731
    focused().send_keys(Keys.TAB)
    assert focused().text == "to the content"
    while focused().get_attribute("id") != "q":
        focused().send_keys(Keys.TAB)
    focused().send_keys("Iteration 1002", Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.title == "“Iteration 1002”")
    while focused().text != "Iteration 1002":
        focused().send_keys(Keys.TAB)
        outline = focused().value_of_css_property("outline-style")
        assert (focused().tag_name, outline) in {(focused().tag_name, "solid"), ("body", "none")}
    focused().send_keys(Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.find_element(By.TAG_NAME, "h1").text == "Iteration 1002")
    while "group/" not in (focused().get_attribute("href") or ""):
        focused().send_keys(Keys.TAB)
    focused().send_keys(Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.find_elements(By.CSS_SELECTOR, ".figure .big"))


@pytest.fixture(scope="module")
def copied(released, tmp_path_factory):
    """A static copy of the small release on a plain web server."""
    shown = open_release(released)
    assert isinstance(shown, DetailedDhca)
    check = Check(released, shown.manifest["files"])
    check.run()
    folder = tmp_path_factory.mktemp("copy") / "copy"
    export(shown.release, folder, about(shown, check))
    with files_served(folder) as address:
        yield address


def seen(browser, address: str) -> tuple[str, list[str]]:
    """The text of a page's content, and where its links lead."""
    browser.get(address)
    ready = "return document.querySelector('h1') || document.body.innerText.includes('cannot be shown')"
    WebDriverWait(browser, 20).until(lambda one: one.execute_script(ready))
    links = "return [...document.querySelectorAll('main a')].map((link) => link.getAttribute('href'))"
    return browser.execute_script("return document.querySelector('main').innerText"), browser.execute_script(links)


def test_the_static_copy_shows_what_the_page_shows(page, copied, sized):
    browser = sized(1300)
    for view in (*VIEWS[1:], *MORE):
        assert seen(browser, f"{copied}?view={view}") == seen(browser, f"{page}?view={view}"), view
    assert "report.html" not in seen(browser, f"{copied}?view=overview")[1]


def test_the_static_copy_gives_the_same_csv(page, copied, sized):
    browser = sized(1300)
    browser.get(copied)
    script = """
      const [asked, done] = arguments;
      const [{ load }, { viewOf }, { csvOf }] = await Promise.all(
        ["data", "views", "files"].map((name) => import(`${location.origin}/static/${name}.js`)));
      const release = await load("data");
      done(csvOf(await viewOf(release, { ...asked, format: "csv" }), release.words.shapes));
    """
    for view in ("overview", *VIEWS[1:8]):
        name, *rest = view.split("&")
        asked = dict(one.split("=") for one in rest) | {"view": name}
        with urlopen(f"{page}?view={view}&format=csv") as answer:
            assert browser.execute_async_script(script, asked) == answer.read().decode(), view


def test_the_static_copy_is_accessible(copied, sized):
    browser = sized(1300)
    for view in ("overview", "group/STATE/01/1002"):
        seen(browser, f"{copied}?view={view}")
        assert problems(browser) == []


def test_the_static_copy_ships_its_libraries_with_their_licences(copied):
    for name in ("hyparquet", "nunjucks"):
        with urlopen(f"{copied}static/vendor/{name}.LICENSE.txt") as answer:
            assert "opyright" in answer.read().decode()
    with urlopen(f"{copied}data/release.json") as answer:
        assert json.load(answer)["about"]["marks"]
