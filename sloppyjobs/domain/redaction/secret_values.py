"""How far a value goes in running text: to its closing quote or bracket, to the next blank, or to the line's end.

Pure: no I/O, no clock. A value that is not closed takes the rest of the text: where a rule cannot tell, it hides.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"
"""What stands where a secret was."""

_QUOTE = re.compile(r"""[bBrRuUfF]{0,2}(\\*+)(["'`])""")
_ENTITY = re.compile(r"&(?:quot|apos|#34|#39|#x22|#x27);")
# A quote before a letter, or a doubled one, is part of the value: 'it's', 'it''s'.
_CLOSE = {q: re.compile(rf"(?>(?:[^{q}\\]++|\\.|{q}{q}|{q}(?=\w))*){q}", re.DOTALL) for q in "\"'`"}
_BRACKET = re.compile(r"""[\[\](){}"'`]""")
_PLAIN_CLOSE = {q: re.compile(rf"[^{q}\\]*+(?>(?:\\.[^{q}\\]*+)*){q}", re.DOTALL) for q in "\"'`"}
_BARE = re.compile(r"""(?>(?:[^\s&;"'`<>]++|["'`](?=\w))*)""")
_LINE = re.compile(r"[^\r\n]*+")
# Several words, up to the next key on the line.
_PHRASE = re.compile(
    r"""(?>(?:[^\s,;]++|[ \t,;]++(?!["'({\[]?[\w\-.]{1,64}+["']?(?:[ \t]*+=|:[ \t"'])))*)""",
)
_CLOSING = " \t.,:)]}"


def value_span(text: str, start: int, *, whole_line: bool = False, phrase: bool = False) -> tuple[int, int]:
    """Where the value that begins here starts and ends, without its quotes."""
    quote = _QUOTE.match(text, start)
    if quote:
        return quote.end(), _quoted_end(text, quote)
    entity = _ENTITY.match(text, start)
    if entity:
        end = text.find(entity[0], entity.end())
        return entity.end(), end if end >= 0 else len(text)
    past = start
    if text.startswith(REDACTED, start):
        past += len(REDACTED)
    elif text[start : start + 1] in ("{", "[", "("):
        return start, balanced_end(text, start)
    run = (_LINE if whole_line else _PHRASE if phrase else _BARE).match(text, past)
    rest = run[0].rstrip(_CLOSING) if run else ""
    if rest.endswith(REDACTED[:-1]):
        rest += REDACTED[-1]
    return start, past + len(rest)


def _quoted_end(text: str, quote: re.Match[str]) -> int:
    escape, mark = quote[1], quote[2]
    if not escape:
        close = _CLOSE[mark].match(text, quote.end())
        return close.end() - 1 if close else len(text)
    # Inside a quoted document the closing quote has as many backslashes as the opening one.
    end = text.find(escape + mark, quote.end())
    while end > 0 and text[end - 1] == "\\":
        end = text.find(escape + mark, end + 1)
    return end if end >= 0 else len(text)


def balanced_end(text: str, start: int) -> int:
    """Behind the bracket that closes the one at ``start``; brackets in quotes do not count."""
    depth = 0
    position = start
    while found := _BRACKET.search(text, position):
        position = found.end()
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
            if depth <= 0:
                return position
        else:
            close = _PLAIN_CLOSE[found[0]].match(text, position)
            if close is None:
                break
            position = close.end()
    return len(text)


def line_end(text: str, start: int, most: int = 4_000) -> int:
    """The end of the line, or ``most`` characters on: looking farther for each of many would be quadratic."""
    end = text.find("\n", start, start + most)
    return end if end >= 0 else min(len(text), start + most)


_LETTER_AND_DIGIT = re.compile(r"(?=[^0-9]*+[0-9])(?=[^A-Za-z]*+[A-Za-z])")


def looks_random(value: str) -> bool:
    """Whether this is hardly a word: letters and digits, without blanks, and not short."""
    return 12 <= len(value) <= 400 and " " not in value and _LETTER_AND_DIGIT.match(value) is not None
