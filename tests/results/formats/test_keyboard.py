"""The report, the plan page and the index without a mouse: everything is reached, seen and operated."""

from __future__ import annotations

import pytest

from dprelease.cli import app
from tests.results.formats.browser_keys import CHROMIUM, Browser
from tests.results.formats.test_html_browser import report
from tests.results.series.made import year

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here"),
]
REACHABLE = (
    "[...document.querySelectorAll('a[href], summary, [tabindex=\"0\"], input, select, button')]"
)
SHOWN = f"{REACHABLE}.filter((e) => e.checkVisibility())"


def plan_page(folder):
    from typer.testing import CliRunner

    from dprelease.pipeline.starter import create_starter

    create_starter(folder / "p")
    to = folder / "plan.html"
    pipeline = folder / "p" / "pipelines" / "clinic_weekly.yaml"
    done = CliRunner().invoke(app, ["plan", str(pipeline), "--html", str(to)])
    assert done.exit_code == 0, done.output
    return to


def page(name, folder):
    if name == "plan":
        return plan_page(folder)
    if name == "index":
        from dprelease.results.series.correct import withdraw

        made = year(folder, 4)
        withdraw(made / "2026-W02", reason="test rows")
        return made / "index.html"
    to = folder / "report.html"
    to.write_text(report(), encoding="utf-8")
    return to


@pytest.fixture(scope="module", params=["report", "plan", "index"])
def opened(request, tmp_path_factory):
    """A browser with one of the pages, and where the page is."""
    folder = tmp_path_factory.mktemp(request.param)
    url = page(request.param, folder).as_uri()
    started = Browser(folder, url)
    yield started, url
    started.close()


@pytest.fixture
def browser(opened):
    started, url = opened
    started.open(url)
    return started


def test_tab_reaches_everything_in_the_order_of_the_page(browser):
    expected = browser.evaluate(
        f"{SHOWN}.map((e) => e.tagName + (e.getAttribute('aria-label') || e.textContent).trim().slice(0, 60))"
    )
    assert len(expected) > 5
    seen = [browser.press("Tab") for _ in expected]
    assert [f["tag"] + f["text"] for f in seen] == expected
    unseen = [f for f in seen if f["outline"].startswith("none") or f["outline"].endswith(" 0px")]
    assert not unseen, unseen[:3]
    back = browser.press("Tab", shift=True)
    assert back["tag"] + back["text"] == expected[-2]


def test_the_skip_link_comes_first_can_be_seen_and_skips(browser):
    first = browser.press("Tab")
    assert first["text"].startswith("Skip to")
    assert first["left"] >= 0  # on the page while it has the focus
    browser.press("Enter")
    assert browser.evaluate("location.hash") == first["href"]
    target = f"document.querySelector('{first['href']}')"
    after = browser.press("Tab")
    assert after["tag"] != "BODY"
    assert browser.evaluate(
        f"Boolean({target}.compareDocumentPosition(document.activeElement) & 4)"
    )


def test_what_folds_opens_and_closes_by_key(browser):
    folds = browser.evaluate("document.querySelectorAll('details').length")
    if not folds:
        pytest.skip("this page folds nothing away")
    found = browser.press("Tab")
    while found["tag"] != "SUMMARY":
        found = browser.press("Tab")
    before = found["open"]
    assert browser.press("Enter")["open"] is not before
    assert browser.press("Enter")["open"] is before


@pytest.mark.parametrize("opened", ["plan"], indirect=True)
def test_the_slider_of_the_plan_moves_by_arrows_and_says_what_it_means(browser):
    found = browser.press("Tab")
    while found["tag"] != "INPUT":
        found = browser.press("Tab")
    said = browser.evaluate("document.getElementById('meaning').textContent")
    moved = browser.press("ArrowRight")
    assert int(moved["value"]) == int(found["value"]) + 1
    assert browser.evaluate("document.getElementById('meaning').textContent") != said


@pytest.mark.parametrize("opened", ["report"], indirect=True)
def test_a_page_that_keys_cannot_use_would_be_noticed(browser, tmp_path):
    broken = report().replace("<summary", '<summary tabindex="-1"', 1)
    (tmp_path / "broken.html").write_text(broken, encoding="utf-8")
    browser.open((tmp_path / "broken.html").as_uri())
    expected = browser.evaluate(f"{SHOWN}.map((e) => e.tagName)")
    seen = [browser.press("Tab")["tag"] for _ in expected]
    assert seen != expected
