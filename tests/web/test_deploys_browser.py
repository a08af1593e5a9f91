"""Deploys in charts, as people see them: labels apart at every width, the whole name by hover and focus, no scripts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from accessibility import checkable, violations
from playwright.sync_api import Browser, Page, expect
from served_site import Site

from sloppyjobs import Jobs, storage
from sloppyjobs.testing import FakeClock

LONG = "a8f3c9d2e1b4f5a60718293a4b5c6d7e8f901234"
MARKED = {50: "templates 118", 38: LONG, 33: "templates 118.2", 12: "W" * 128, 5: "templates 119"}
"""Versions, so many minutes ago."""
OVERLAPS = """() => {
  const trouble = [];
  for (const axis of document.querySelectorAll(".axis.up")) {
    const plot = axis.closest(".plot").getBoundingClientRect();
    const shown = [...axis.querySelectorAll("text")].filter((one) => one.checkVisibility());
    const boxes = shown.map((one) => [one.textContent, one.getBoundingClientRect()]);
    for (const [text, box] of boxes) {
      if (box.left < plot.left - 1 || box.right > plot.right + 1) trouble.push(`${text} leaves its chart`);
      for (const [other, there] of boxes)
        if (text < other && box.left < there.right && there.left < box.right) trouble.push(`${text} meets ${other}`);
    }
    if (!boxes.length) trouble.push("no label");
  }
  return trouble;
}"""


@pytest.fixture
def deployed(site: Site, played: Jobs) -> Site:
    """The day, with deploys in its last hour."""
    for minutes, version in MARKED.items():
        clock = FakeClock(datetime.now(UTC) - timedelta(minutes=minutes))
        jobs = Jobs(storage.from_url(played.storage.location.url, clock=clock))
        jobs.admin.mark_deploy(version, actor="ada")
        jobs.storage.close()
    return site


def test_labels_are_apart_at_every_width_and_nothing_is_inaccessible(browser: Browser, deployed: Site) -> None:
    with checkable(browser, deployed) as page:
        for path in ("/", "/job-types/send-email?range=1h"):
            page.goto(deployed.base + path)
            for width in (390, 640, 768, 1024, 1366, 1920):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate(OVERLAPS) == [], (path, width)
            page.locator(".plot + details > summary").first.click()
            assert violations(page) == [], path


def test_hover_and_focus_show_the_whole_label_without_scripts(plain_page: Page, deployed: Site) -> None:
    plain_page.goto(deployed.base + "/")
    marks = plain_page.locator(".deploy")
    expect(marks).to_have_count(len(MARKED))
    mark = marks.nth(1)
    expect(mark.locator(".said")).to_be_hidden()
    mark.locator(".dot").hover()
    expect(mark.locator(".said")).to_be_visible()
    expect(mark.locator(".said")).to_contain_text(LONG[:20])
    plain_page.mouse.move(0, 0)
    expect(mark.locator(".said")).to_be_hidden()
    marks.nth(0).focus()
    plain_page.keyboard.press("Tab")
    expect(mark).to_be_focused()
    expect(mark.locator(".said")).to_be_visible()
    assert mark.get_attribute("aria-label") == mark.locator("title").text_content()
    assert LONG in (mark.get_attribute("aria-label") or "")
