"""Where the cells of tables stand, and words that break inside, as a browser has laid them out."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

# Cells whose column shows no header, or another one; what is hidden must be hidden in both.
_MISPLACED = """() => {
  const found = [];
  const shown = (cell) => cell.getClientRects().length > 0;
  for (const table of document.querySelectorAll("main table")) {
    if (!shown(table)) continue;
    const heads = [...table.tHead.rows[0].cells];
    for (const row of table.tBodies[0].rows) {
      const cells = [...row.cells];
      if (cells.length !== heads.length) found.push(`${cells.length} cells under ${heads.length} headers`);
      cells.forEach((cell, place) => {
        const head = heads[place];
        if (!head || shown(cell) !== shown(head)) return found.push(`${place}: ${cell.innerText}`);
        if (!shown(cell)) return;
        const [one, other] = [cell.getBoundingClientRect(), head.getBoundingClientRect()];
        if (Math.abs(one.left - other.left) > 1 || Math.abs(one.right - other.right) > 1) {
          found.push(`${head.innerText}: ${cell.innerText}`);
        }
        if (cell.classList.contains("num") !== head.classList.contains("num")) {
          found.push(`${head.innerText}: aligned in another way than its cells`);
        }
      });
    }
  }
  return found;
}"""
_BROKEN = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const [parent, head] = [node.parentElement, node.parentElement.closest("thead")];
    if (!parent.getClientRects().length || parent.closest(".vh")) continue;
    // Where rows are cards, the headers are read aloud only.
    if (head && getComputedStyle(head).position === "absolute") continue;
    for (const word of node.data.matchAll(/[A-Za-z0-9_]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (tops.size > 1) found.push(word[0]);
    }
  }
  return found;
}"""


def misplaced(page: Page) -> list[Any]:
    """Cells that do not stand under their header."""
    found: list[Any] = page.evaluate(_MISPLACED)
    return found


def broken_words(page: Page) -> list[Any]:
    """Words that go over more than one line."""
    found: list[Any] = page.evaluate(_BROKEN)
    return found


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return found
