"""Values of charts, as people read them: by pointer, by arrow keys, in both colour schemes, without scripts."""

from __future__ import annotations

import re

import pytest
from accessibility import checkable, violations
from every_page import Addresses
from playwright.sync_api import Browser, Locator, Page, expect
from served_site import Site

CHARTS = ("/", "/queues/emails", "/queue-runs/emails", "/job-types/send-email", "/dead/{cause}")


def _said(points: Locator) -> list[str]:
    """The values of a chart that can be seen at this moment."""
    shown = """spans => spans.filter(one => getComputedStyle(one).clipPath === "none").map(one => one.textContent)"""
    return [" ".join(text.split()) for text in points.locator("span").evaluate_all(shown)]


def test_arrow_keys_show_the_values_one_by_one(either: Page, site: Site) -> None:
    either.goto(site.base + "/")
    points = either.locator(".points").first
    inputs = points.locator("input")
    assert _said(points) == []
    inputs.first.focus()
    either.keyboard.press("ArrowLeft")
    expect(inputs.last).to_be_focused()
    first = _said(points)
    assert len(first) == 1
    assert re.fullmatch(r"\d\d:\d\d: [\d,]+ succeeded, [\d,]+ failed", first[0])
    either.keyboard.press("ArrowLeft")
    second = _said(points)
    assert len(second) == 1
    assert second != first
    either.locator("nav[aria-label='Time range'] a").first.focus()
    assert _said(points) == []


def test_a_chart_is_one_stop_of_the_tab_key(page: Page, site: Site) -> None:
    page.goto(site.base + "/job-types/send-email")
    groups = page.locator(".points")
    visited = []
    page.locator("#run .points input").first.focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        label = page.evaluate("document.activeElement.closest('.points')?.getAttribute('aria-label') ?? null")
        if label is not None:
            visited.append(label)
    assert len(visited) == len(set(visited)) == groups.count() - 1


def test_the_pointer_shows_the_value_below_it_and_wins_over_the_focus(either: Page, site: Site) -> None:
    either.goto(site.base + "/")
    points = either.locator(".points").first
    labels = points.locator("label")
    points.locator("input").first.focus()
    labels.nth(10).hover()
    assert _said(points) == [" ".join((labels.nth(10).text_content() or "").split())]
    either.mouse.move(0, 0)
    assert _said(points) == [" ".join((labels.first.text_content() or "").split())]


@pytest.mark.parametrize("width", [390, 1366])
def test_a_value_stays_within_its_chart_and_does_not_cover_its_column(browser: Browser, site: Site, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = site.watch(context)
    page.goto(site.base + "/")
    figure = page.locator(".plot").first.bounding_box()
    labels = page.locator(".points").first.locator("label")
    assert figure is not None
    for place in (0, 1, labels.count() - 2, labels.count() - 1):
        labels.nth(place).hover()
        said, column = labels.nth(place).locator("span").bounding_box(), labels.nth(place).bounding_box()
        assert said is not None
        assert column is not None
        assert figure["x"] <= said["x"]
        assert said["x"] + said["width"] <= figure["x"] + figure["width"] + 1
        assert said["x"] >= column["x"] + column["width"] or said["x"] + said["width"] <= column["x"]
    context.close()


def test_charts_with_a_value_shown_have_nothing_inaccessible(browser: Browser, site: Site) -> None:
    addresses = Addresses(site.jobs)
    with checkable(browser, site) as page:
        for path in map(addresses.fill, CHARTS):
            page.goto(site.base + path)
            page.locator(".points input").first.focus()
            assert len(_said(page.locator(".points").first)) == 1, path
            assert violations(page) == [], path


def test_a_live_update_leaves_the_focus_on_its_column(page: Page, site: Site) -> None:
    page.goto(site.base + "/")
    point = page.locator(".points input").nth(5)
    point.focus()
    with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true"):
        page.evaluate("sj.live.ask('asked')")
    expect(point).to_be_focused()
    assert len(_said(page.locator(".points").first)) == 1


def test_keys_work_while_a_chart_has_the_focus(page: Page, site: Site) -> None:
    page.goto(site.base + "/")
    page.locator(".points input").first.focus()
    page.keyboard.press("/")
    expect(page.locator(".find input")).to_be_focused()
