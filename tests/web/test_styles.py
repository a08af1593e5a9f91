"""The style sheets style what there is: every class in them is used by a template, a view or a script."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
AGREED = "48-states.css"
"""Parts of the design that a page may use without bringing a style of its own."""
OUTCOMES = ROOT / "sloppyjobs" / "schedules" / "occurrences.py"
"""What became of an occurrence is a class, too."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LAYER = re.compile(r"@layer [^{;]*")
_SELECTOR = re.compile(r"([^{};]+)\{")
_CLASS = re.compile(r"\.([a-zA-Z][\w-]*)")


def _styled(sheet: str) -> set[str]:
    plain = _LAYER.sub("", _COMMENT.sub("", sheet))
    return {name for selector in _SELECTOR.findall(plain) for name in _CLASS.findall(selector)}


def _words() -> set[str]:
    files = (*ROOT.glob("templates/**/*.html"), *ROOT.glob("webui/**/*.py"), *ROOT.glob("static/js/*.js"), OUTCOMES)
    return {word for file in files for word in re.findall(r"[\w-]+", file.read_text())}


def test_no_style_is_for_a_class_that_nothing_uses() -> None:
    sheets = [sheet for sheet in sorted(ROOT.glob("static/css/*.css")) if sheet.name != AGREED]
    words = _words()
    # The number of tiles is a part of their class.
    numbered = re.compile(r"n\d+")
    unused = {
        f"{sheet.name}: .{name}"
        for sheet in sheets
        for name in _styled(sheet.read_text()) - words
        if not numbered.fullmatch(name)
    }
    assert unused == set()


def test_every_icon_is_used() -> None:
    icons = re.findall(r'<symbol id="([\w-]+)"', (ROOT / "static" / "icons.svg").read_text())
    assert len(icons) > 40
    assert set(icons) - _words() == set()


def test_every_macro_of_a_template_is_called() -> None:
    templates = "\n".join(file.read_text() for file in ROOT.glob("templates/**/*.html"))
    macros = set(re.findall(r"{%-? macro (\w+)", templates))
    assert len(macros) > 40
    assert {name for name in macros if len(re.findall(rf"\b{name}\b", templates)) < 2} == set()


def test_every_rule_is_in_a_layer_and_nested_in_the_class_of_the_pages() -> None:
    for sheet in sorted(ROOT.glob("static/css/*.css")):
        outside = re.sub(r"@layer [\w.]+ \{\n  \.sj \{.*?\n  \}\n\}", "", sheet.read_text(), flags=re.DOTALL)
        left = re.sub(r"@layer [\w., ]+;", "", _COMMENT.sub("", outside)).strip()
        assert left == "", sheet.name


def test_no_line_is_longer_than_120_characters() -> None:
    for pattern in ("templates/**/*.html", "static/css/*.css", "static/js/*.js"):
        for file in ROOT.glob(pattern):
            assert [line for line in file.read_text().splitlines() if len(line) > 120] == [], file
