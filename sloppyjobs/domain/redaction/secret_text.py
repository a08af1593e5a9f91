"""Secrets under a name in running text: ``key=value``, ``key: value`` and ``"key": "value"``.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from sloppyjobs.domain.redaction.secret_names import INVISIBLE, MAX_KEY, PHRASES, WHOLE_LINE, joined
from sloppyjobs.domain.redaction.secret_shapes import Span
from sloppyjobs.domain.redaction.secret_values import REDACTED, line_end, looks_random, value_span


class Named(Protocol):
    """Whether a name promises a secret; ``number`` says that its value is one."""

    def __call__(self, phrase: str, *, number: bool = False) -> bool: ...


_NAME = rf"(?>(?:[\w\-{INVISIBLE}]++|%[0-9A-Fa-f]{{2}}|\\{{1,8}}u[0-9A-Fa-f]{{4}})+)"
# Up to three words and a separator. A long run is tried where it starts, and at none of its other characters.
_START = rf"(?<![\w\-{INVISIBLE}])(?!(?<=%)[0-9A-Fa-f]{{2}})(?!(?<=\\)\\{{0,8}}u[0-9A-Fa-f]{{4}})"
_KEY = re.compile(
    rf"""{_START}(?P<key>(?:{_NAME}[ ]){{0,2}}{_NAME})"""
    r"""\]?+(?>(?P<quote>\\*+["'`]|&(?:quot|apos|\#3[49]|\#x2[27]);)?)\]?+[ \t]*+(?P<mark>=>|:=|==|=|:)[ \t]*+"""
)
# A key in the query of an address that is itself a value in a query.
_ENCODED_KEY = re.compile(r"([\w\-]{1,128})%3[Dd]((?>(?:(?!%26)[^\s&\"'<>])*))")
# A type between the name and its value: "token: str = …".
_ANNOTATION = re.compile(r"[A-Za-z_][\w.\[\]|]{0,60}+ = ")
_NUMBER = re.compile(r"[+\-]?[0-9][0-9_.,/]*[kKM%]?")
_HARMLESS = frozenset(("null", "None", "true", "false", "True", "False", "***", "******"))
# What follows a name in sentences about it: "auth: failed", "password: required".
_STATUS_WORDS = (
    "failed failure fail ok okay success successful succeeded passed denied refused rejected required missing "
    "expired invalid valid incorrect wrong mismatch disabled enabled unset set empty absent present unknown "
    "unauthorized unauthorised forbidden timeout error none no yes revoked accepted pending skipped unavailable "
    "unsupported optional hidden redacted found"
)
_STATUS = frozenset(_STATUS_WORDS.split())
_GRAMMAR_WORDS = (
    "must is was are were should shall can cannot could has have does did do will may might not too this field "
    "value required invalid please enter"
)
_GRAMMAR = frozenset(_GRAMMAR_WORDS.split())
# A parser's tokens are no secrets: "unexpected token: ','".
_PARSED_WORDS = "unexpected expected unterminated stray illegal next previous unrecognized unrecognised"
_PARSED = frozenset(_PARSED_WORDS.split())
_FIRST_WORD = re.compile(r"[A-Za-z]++")
_WORDY = ("signature", "sig")


def find(text: str, named: Named) -> Iterator[Span]:
    """The values of secret names, also of names inside such a value: a stray quote may pair wrongly."""
    position = 0
    while match := _KEY.search(text, position):
        position = match.end()
        phrase = match["key"][-MAX_KEY:]
        if text[match.start() - 1 : match.start()] == "\\" and phrase[0] in "nrt":
            # An escaped end of line before the name.
            phrase = phrase[1:]
        if not phrase or not named(phrase):
            continue
        span = _value(text, match, phrase, named)
        if span is not None:
            yield span
    if "%3" in text:
        for encoded in _ENCODED_KEY.finditer(text):
            if named(encoded[1]):
                yield encoded.span(2)


def _value(text: str, match: re.Match[str], phrase: str, named: Named) -> Span | None:
    """The value behind a secret name, unless it is nothing, hidden already, a count, or prose."""
    name, colon, start = joined(phrase), match["mark"] == ":", match.end()
    several = colon and not match["quote"] and name.endswith(PHRASES)
    whole_line = name.endswith(WHOLE_LINE)
    if colon and not several and not whole_line and (annotated := _ANNOTATION.match(text, start)):
        return start, value_span(text, annotated.end())[1]
    start, end = value_span(text, start, whole_line=whole_line, phrase=several)
    if start == end:
        return _next_lines(text, start) if colon else None
    found = text[start:end] if end - start < 400 else ""
    if found == REDACTED or found in _HARMLESS:
        return None
    if colon and _BLOCK.fullmatch(found):
        return _next_lines(text, start)
    if _NUMBER.fullmatch(found) and not named(phrase, number=True):
        return None
    if found and _is_parsed(name, phrase) and not looks_random(found):
        return None
    quoted = match["quote"] or start > match.end()
    if found and not quoted and _is_prose(name, found, several, colon):
        return None
    return start, end


def _is_prose(name: str, found: str, several: bool, colon: bool) -> bool:
    first = _FIRST_WORD.match(found)
    if colon and name.endswith(_WORDY):
        return not looks_random(found)
    if first is None or found[first.end() : first.end() + 1] not in ("", " ", ",", ".", ";", ")"):
        return False
    word = first[0].lower()
    if not several:
        return word in _STATUS
    return word in _GRAMMAR or (word in _STATUS and first.end() == len(found))


def _is_parsed(name: str, phrase: str) -> bool:
    before, _, last = phrase.rpartition(" ")
    return bool(before) and name.endswith("token") and last.lower() == "token" and before.split()[-1].lower() in _PARSED


_BLOCK = re.compile(r"[|>][+\-]?[0-9]?")
_INDENT = re.compile(r"[ \t]*+")


def _next_lines(text: str, start: int) -> Span | None:
    """The value below its name, indented more than that, as in YAML. Without a mark, "|" or ">", it is one line."""
    end = line_end(text, start)
    mark = text[start:end].strip()
    above = _width(text, text.rfind("\n", 0, start) + 1)
    begin = last = end + 1 + _width(text, end + 1)
    least = begin - end - 1
    if end == len(text) or least <= above or (mark and not _BLOCK.fullmatch(mark)):
        return None
    while (inner := _width(text, end + 1)) >= least:
        last = end = line_end(text, end + 1 + inner)
        if not mark or end == len(text):
            break
    return (begin, last) if last > begin else None


def _width(text: str, line: int) -> int:
    indent = _INDENT.match(text, line)
    return len(indent[0]) if indent else 0
