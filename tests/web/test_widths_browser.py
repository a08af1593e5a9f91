"""Pages on a phone, in a small window and on a large screen: columns keep their headers, words stay whole."""

from __future__ import annotations

import scene
from every_page import EVERY_PAGE
from playwright.sync_api import Browser, Page
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

OUTSIDE = """() => {
  const found = [];
  const range = document.createRange();
  const clipped = (box, cell) => {
    for (; box !== cell; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible" || getComputedStyle(box).clipPath !== "none") return true;
    return false;
  };
  for (const cell of document.querySelectorAll("main :is(tbody th, td, dd, li, p, .btn, .tiles > *)")) {
    if (!cell.checkVisibility()) continue;
    const box = cell.getBoundingClientRect();
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const parent = node.parentElement;
      if (!node.nodeValue.trim() || !parent.checkVisibility() || clipped(parent, cell)) continue;
      range.selectNodeContents(node);
      const text = range.getBoundingClientRect();
      if (text.right > box.right + 1.5 || text.left < box.left - 1.5) found.push(node.nodeValue.trim());
    }
  }
  return [...new Set(found)];
}"""
"""Text that goes over the edge of its cell, line or button, onto what is beside it."""

CARDS = """() => {
  const found = [];
  const range = document.createRange();
  for (const row of document.querySelectorAll("main .tbl tbody tr")) {
    const style = getComputedStyle(row);
    if (!row.checkVisibility() || style.display !== "grid") continue;
    const edge = row.getBoundingClientRect().left + parseFloat(style.borderLeftWidth) + parseFloat(style.paddingLeft);
    const first = row.querySelector(".lead") || row.cells[0];
    range.selectNodeContents(first);
    const left = Math.min(...[...range.getClientRects()].filter((part) => part.width).map((part) => part.left));
    if (Math.abs(left - edge) > 2) found.push(first.textContent.trim().split("\\n")[0]);
  }
  return found;
}"""
"""Cards whose title does not begin where their other lines do."""

HALVES = """() => [...document.querySelectorAll("main .tbl *")].filter((box) => {
  const style = getComputedStyle(box);
  return style.webkitLineClamp !== "none" && style.overflowClipMargin !== "0px" && !box.querySelector("a") &&
    box.checkVisibility() && box.scrollHeight > box.clientHeight + 1;
}).map((box) => box.textContent.trim().slice(0, 60))"""
"""Texts that end after some lines, and show the upper edge of the next one."""

CHECKS = {"broken word": BROKEN, "outside of its cell": OUTSIDE, "indented in its card": CARDS,
          "half a line": HALVES}  # fmt: skip


def _trouble(page: Page, width: int) -> list[str]:
    page.set_viewport_size({"width": width, "height": 900})
    found: list[str] = page.evaluate(COLUMNS)
    found += [f"{what}: {text}" for what, check in CHECKS.items() for text in page.evaluate(check)]
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


def test_a_long_list_of_a_workflow_is_turned_below_it_and_its_facts_stand_beside(page: Page, site: Site) -> None:
    with site.jobs.workflow("long") as flow:
        for number in range(120):
            flow.add("export-orders", {"page": number})
    page.set_viewport_size({"width": 1366, "height": 900})
    page.goto(site.url(f"/workflows/{flow.id}"))
    jobs, facts = page.locator("main .cols > *").all()
    more = jobs.get_by_role("link", name="More")
    table, below, beside = (one.bounding_box() for one in (jobs.get_by_role("table"), more, facts))
    assert table is not None and below is not None and beside is not None
    assert below["y"] > table["y"] + table["height"]
    assert beside["x"] > table["x"] + table["width"] and abs(beside["y"] - table["y"]) < 100


def test_on_a_wide_screen_the_tools_end_where_the_page_ends(browser: Browser, site: Site) -> None:
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = site.watch(context)
    page.goto(site.base + "/")
    edges = page.locator(".top > :last-child, main .tiles").evaluate_all(
        "all => all.map(one => Math.round(one.getBoundingClientRect().right))"
    )
    assert len(edges) == 2
    assert edges[0] == edges[1]
    context.close()


INK = "getComputedStyle(document.querySelector('main .head p')).color"
LINES = """() => [...document.querySelectorAll(".tabs a")].map((tab) => {
  const { borderBottomColor, backgroundColor } = getComputedStyle(tab);
  const page = getComputedStyle(document.body).backgroundColor;
  return [tab.hasAttribute("aria-current"), borderBottomColor !== page];
})"""


def test_contrast_is_raised_where_the_viewer_asks_for_it(browser: Browser, site: Site) -> None:
    inks = set()
    for contrast in ("no-preference", "more"):
        context = browser.new_context(contrast=contrast)
        page = site.watch(context)
        page.goto(site.url("/queues"))
        inks.add(page.evaluate(INK))
        context.close()
    assert len(inks) == 2


def test_in_forced_colours_the_current_tab_alone_is_underlined(browser: Browser, site: Site) -> None:
    context = browser.new_context(forced_colors="active")
    page = site.watch(context)
    page.goto(site.url("/jobs?status=dead"))
    tabs = page.evaluate(LINES)
    assert sum(current for current, _ in tabs) == 1
    assert all(current == line for current, line in tabs)
    context.close()


def test_a_name_from_right_to_left_leaves_what_follows_it_in_its_place(page: Page, site: Site) -> None:
    name = "\u0645\u0647\u0645\u0629"
    site.jobs.limit(name, concurrency=1)
    site.jobs.declare(name, queue=name)
    for _ in range(2):
        site.jobs.enqueue(name, resource=name)
    site.jobs.claim("w", queues=(name,), names=frozenset({name}), limit=5)
    page.goto(site.url("/limits"))
    line = page.locator(".why li", has_text=name)
    after = line.evaluate("""(line) => {
      const link = line.querySelector("a");
      const range = document.createRange();
      range.selectNodeContents(link.nextSibling);
      return range.getBoundingClientRect().left - link.getBoundingClientRect().left;
    }""")
    assert after > 0, "the number that follows the name stands left of it"
