"""Whoever uses a keyboard sees where they are: the focus ring of every element is drawn whole."""

from __future__ import annotations

import scene
from playwright.sync_api import Page, expect
from served_site import Site

PAGES = ("/", "/jobs", "/jobs?status=dead", "/jobs?status=scheduled", "/jobs?name=send-email&queue=emails",
         "/jobs/{dead}", "/jobs/{running}", "/dead", "/queues", "/queues/emails", "/recurring",
         "/recurring/nightly-rollup", "/workers", "/locks", "/limits",
         "/limits/payments-api", "/audit", "/archive", "/archive/{archived}",
         "/workflows/{workflow}", "/workflows",
         "/batches", "/batches/{batch}", "/alerts",
         "/jobs/{dead}/delete",
         "/dead/retry?cause=1", "/dead/{cause}", "/find?q=e", "/nope")  # fmt: skip

RINGS = """() => {
  const clipped = (ring, box) => {
    const style = getComputedStyle(box);
    const edges = box.getBoundingClientRect();
    const found = [];
    for (const [axis, start, end, size, scrolled] of [
      ["X", "left", "right", "Width", "scrollLeft"], ["Y", "top", "bottom", "Height", "scrollTop"]]) {
      const overflow = style["overflow" + axis];
      if (overflow === "visible") continue;
      const margin = overflow === "clip" ? parseFloat(style.overflowClipMargin) || 0 : 0;
      const first = edges[start] + box["client" + (axis === "X" ? "Left" : "Top")];
      // A part that scrolls shows everything in it: the browser brings what has the focus into sight.
      const scrolls = overflow === "auto" || overflow === "scroll";
      const from = ring[start] - first + (scrolls ? box[scrolled] : 0);
      const to = ring[end] - first + (scrolls ? box[scrolled] : 0);
      if (from < -margin - 0.5) found.push(`${start} by ${(-margin - from).toFixed(1)} px`);
      const room = (scrolls ? box["scroll" + size] : box["client" + size]) + margin;
      if (to > room + 0.5) found.push(`${end} by ${(to - room).toFixed(1)} px`);
    }
    if (style.clipPath !== "none") found.push("clip-path");
    return found;
  };
  const trouble = [];
  let seen = 0;
  const focusable = 'a[href], button, input:not([type="hidden"]), select, textarea, summary, [tabindex="0"]';
  for (const element of document.querySelectorAll(focusable)) {
    if (element.disabled || !element.checkVisibility({visibilityProperty: true})) continue;
    element.focus();
    if (document.activeElement !== element) continue;
    seen += 1;
    const name = `${element.tagName.toLowerCase()} "${(element.ariaLabel || element.textContent).trim().slice(0, 40)}"`;
    const style = getComputedStyle(element);
    if (!element.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) {
      trouble.push(`${name} has no ring`);
      continue;
    }
    const reach = Math.max(0, parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth));
    for (const part of element.getClientRects()) {
      const ring = {left: part.left - reach, right: part.right + reach,
                    top: part.top - reach, bottom: part.bottom + reach};
      for (let box = element.parentElement; box && box !== document.body; box = box.parentElement)
        for (const cut of clipped(ring, box))
          trouble.push(`${name}: ${box.tagName.toLowerCase()}.${box.className} cuts ${cut}`);
    }
  }
  return {trouble: [...new Set(trouble)], seen};
}"""
"""Gives the focus to every element in turn; what cuts a ring, and how many elements there were."""


def test_nothing_cuts_the_ring_of_what_has_the_focus(page: Page, site: Site) -> None:
    names = scene.long_names(site.jobs)
    found: list[str] = []
    for path in (*PAGES, f"/jobs/{names['dead']}", f"/jobs?name={names['name']}"):
        page.goto(site.fill(path))
        for width in (390, 800, 1366):
            page.set_viewport_size({"width": width, "height": 900})
            page.keyboard.press("Tab")
            rings = page.evaluate(RINGS)
            assert rings["seen"] > 10, f"{path}: {rings}"
            found += [f"{path} at {width} px: {one}" for one in rings["trouble"]]
    assert found == []


def test_the_skip_link_and_the_first_links_show_their_ring_when_tabbed_to(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs"))
    for _ in range(12):
        page.keyboard.press("Tab")
        focused = page.locator(":focus-visible")
        expect(focused).to_be_in_viewport()
        expect(focused).to_have_css("outline-style", "solid")


def test_what_is_hidden_is_not_shown_without_scripts(plain_page: Page, site: Site) -> None:
    plain_page.goto(site.url("/jobs"))
    hidden = plain_page.locator("[hidden]")
    assert hidden.count() > 0
    for element in hidden.all():
        expect(element).not_to_be_visible()
