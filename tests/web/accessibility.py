"""What the accessibility checker has against a page, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from browser import axe
from missing import without
from playwright.sync_api import Browser, Page
from served_site import Site

_COLOURS = "{type: 'rule', values: ['color-contrast', 'link-in-text-block']}"
"""The rules that depend on colours: a dark page has the elements of the light one."""


@contextmanager
def checkable(browser: Browser, site: Site) -> Iterator[Page]:
    """A page that the checker can be put into, which the pages' own policy refuses."""
    if axe() is None:
        without("axe-core is not installed: npm ci")
    # Colours that are still changing have a contrast of their own.
    context = browser.new_context(color_scheme="light", reduced_motion="reduce", bypass_csp=True)
    yield site.watch(context)
    context.close()


def violations(page: Page) -> list[tuple[str, str, list[str]]]:
    """The scheme, the rule and the elements of each violation; none is what tests ask for."""
    page.add_script_tag(path=str(axe()))
    found = []
    for scheme, only in (("light", ""), ("dark", f", runOnly: {_COLOURS}")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        result = page.evaluate(f"axe.run(document, {{resultTypes: ['violations']{only}}})")
        for one in result["violations"]:
            found.append((scheme, one["id"], [node["html"][:200] for node in one["nodes"][:3]]))
    page.emulate_media(color_scheme="light")
    return found
