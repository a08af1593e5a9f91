"""Pages on a phone, in a small window and on a large screen: columns keep their headers, words stay whole."""

from __future__ import annotations

import scene
from every_page import EVERY_PAGE
from playwright.sync_api import Page
from served_site import Site

WIDTHS = (390, 768, 1024, 1366, 1920)
COLUMNS = """() => {
  const text = (element) => element.textContent.trim().replace(/\\s+/g, " ");
  const trouble = [];
  for (const table of document.querySelectorAll("main table")) {
    if (!table.tHead || !table.checkVisibility()) continue;
    const named = table.caption ? text(table.caption) : "a table";
    const heads = [...table.tHead.rows[0].cells];
    const columns = heads.flatMap((head) => Array(head.colSpan).fill(head));
    const cards = getComputedStyle(table.tBodies[0].rows[0]).display === "grid";
    for (const row of table.tBodies[0].rows) {
      let column = 0;
      for (const cell of row.cells) {
        const under = columns.slice(column, column + cell.colSpan);
        column += cell.colSpan;
        if (cell.colSpan > 1 || !under.length) continue;
        const head = under[0];
        const name = text(head);
        if (cell.dataset.l && cell.dataset.l !== name) trouble.push(`${named}: "${cell.dataset.l}" under "${name}"`);
        const shown = cell.checkVisibility();
        if (cards) {
          const labelled = cell.dataset.l || cell.tagName === "TH" || head.querySelector(".vh");
          if (shown && !labelled) trouble.push(`${named}: a card without a label for "${name}"`);
          continue;
        }
        if (shown !== head.checkVisibility())
          trouble.push(`${named}: ${shown ? "only the cells" : "only the header"} of "${name}"`);
        if (!shown) continue;
        const [one, other] = [cell.getBoundingClientRect(), head.getBoundingClientRect()];
        if (Math.abs(one.left - other.left) > 1 || Math.abs(one.right - other.right) > 1)
          trouble.push(`${named}: a cell of "${name}" is not below its header`);
      }
    }
  }
  return [...new Set(trouble)];
}"""
"""Whether each cell stands below its own header, or, in cards, says the header's words."""

BROKEN = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const lines = () => new Set([...range.getClientRects()].map((part) => Math.round(part.top))).size;
  const unseen = (node) => {
    for (let box = node.parentElement; box; box = box.parentElement)
      if (getComputedStyle(box).clipPath !== "none") return true;
    return false;
  };
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.nodeValue.trim() || !node.parentElement.checkVisibility() || unseen(node)) continue;
    range.selectNodeContents(node);
    if (lines() < 2) continue;
    for (const word of node.nodeValue.matchAll(/(?<=^|[\\s(-])[A-Za-z]{2,20}(?=$|[\\s),.:;-])/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (lines() > 1) found.push(`${word[0]} in a ${node.parentElement.tagName}`);
    }
  }
  return [...new Set(found)];
}"""
"""Words of up to 20 letters that stand on two lines."""


def _trouble(page: Page, width: int) -> list[str]:
    page.set_viewport_size({"width": width, "height": 900})
    found = [*page.evaluate(COLUMNS), *(f"broken word: {word}" for word in page.evaluate(BROKEN))]
    wide = page.evaluate("document.documentElement.scrollWidth")
    return found if wide <= width else [*found, f"it is {wide} px wide"]


def test_columns_stand_below_their_headers_and_words_stay_whole(page: Page, site: Site) -> None:
    found: list[str] = []
    for path in EVERY_PAGE.values():
        page.goto(site.fill(path))
        found += [f"{path} at {width} px: {one}" for width in WIDTHS for one in _trouble(page, width)]
    assert found == []


def test_words_stay_whole_beside_names_as_long_as_they_may_be(page: Page, site: Site) -> None:
    names = scene.long_names(site.jobs)
    found: list[str] = []
    for path in ("/", "/jobs", "/jobs/{dead}", "/dead", "/queues", "/recurring", "/recurring/{schedule}", "/workers",
                 "/locks", "/audit"):  # fmt: skip
        page.goto(site.url(path.format(**names)))
        found += [f"{path} at {width} px: {one}" for width in WIDTHS for one in _trouble(page, width)]
    assert found == []
