"""Secrets that databases and validators repeat in their errors.

Pure: no I/O, no clock. Searches that must look back or ahead do so for a fixed number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sloppyjobs.domain.redaction.secret_shapes import Span
from sloppyjobs.domain.redaction.secret_text import Named
from sloppyjobs.domain.redaction.secret_values import balanced_end, line_end, looks_random, value_span


def find(text: str, named: Named) -> Iterator[Iterator[Span]]:
    """Every such secret, by kind."""
    if ")=(" in text:
        yield _postgres_keys(text, named)
    if "' for key '" in text:
        yield _mysql_keys(text, named)
    if "(" in text:
        yield _failing_rows(text)
        yield _duplicates(text, named)
        yield _inserts(text, named)
    if "'" in text or '"' in text:
        yield _passwords(text)
        yield _quoted(text)
    if "[parameters: " in text:
        yield _parameters(text, named)
    if "input_value=" in text:
        yield _validated_fields(text, named)
    if "loc" in text:
        yield _validated_places(text, named)


_WORD = re.compile(r"\w{1,128}+")


def _any(text: str, named: Named) -> bool:
    return any(named(word[0]) for word in _WORD.finditer(text))


_KEY_BEGIN, _KEY_MIDDLE = "Key (", ")=("
_KEY_END = re.compile(r"\) (?:already|is not|is still|conflicts)")


def _postgres_keys(text: str, named: Named) -> Iterator[Span]:
    """``Key (email, api_key)=(S, …) already exists``: with one secret column, all values are hidden."""
    position = 0
    middle = text.find(_KEY_MIDDLE)
    while middle >= 0:
        # Only what is between this and the one before it: else each would be looked at again.
        begin = text.rfind(_KEY_BEGIN, max(position, middle - 300), middle)
        position = middle + len(_KEY_MIDDLE)
        if begin >= 0 and _any(text[begin + len(_KEY_BEGIN) : middle], named):
            stop = line_end(text, position)
            end = _KEY_END.search(text, position, stop)
            last = end.start() if end else text.rfind(")", position, stop)
            last = last if last >= 0 else stop
            yield position, last
            position = max(position, last)
        middle = text.find(_KEY_MIDDLE, position)


def _mysql_keys(text: str, named: Named) -> Iterator[Span]:
    """``Duplicate entry 'S' for key 'users.api_key'``."""
    for match in re.finditer(r"' for key '([^'\n]{1,200}+)'", text):
        begin = text.rfind("Duplicate entry '", max(0, match.start() - 1_000), match.start())
        if begin >= 0 and _any(match[1], named):
            yield begin + len("Duplicate entry '"), match.start()


# Values without their columns: whatever they are, nobody can tell.
_ROW = re.compile(r"Failing row contains (?=\()")
_DUPLICATE = re.compile(r"The duplicate key value is (?=\()")
_INSERT = re.compile(
    r"(?i)insert\s{1,20}+(?:or\s{1,20}+\w{1,20}+\s{1,20}+)?into\s{1,20}+[^\s(]{1,200}+\s{0,20}+\(([^()]{1,2000}+)\)\s{0,20}+"
    r"values\s{0,20}+(?=\()"
)
# Nothing but placeholders: (?, ?), ($1, $2), (%s, %(name)s), (:name).
_PLACEHOLDERS = re.compile(r"\((?>(?:[\s,?]|%s|\$[0-9]{1,5}|%\(\w{1,128}\)s|:\w{1,128}|\[redacted\])+)\)")


def _failing_rows(text: str) -> Iterator[Span]:
    for match in _ROW.finditer(text):
        stop = line_end(text, match.end())
        end = text.rfind(")", match.end(), stop)
        yield match.end() + 1, end if end > match.end() else stop


def _duplicates(text: str, named: Named) -> Iterator[Span]:
    for match in _DUPLICATE.finditer(text):
        if _any(text[max(0, match.start() - 300) : match.start()], named):
            yield _inside(text, match.end())


def _inserts(text: str, named: Named) -> Iterator[Span]:
    for match in _INSERT.finditer(text):
        if _any(match[1], named) and not _PLACEHOLDERS.match(text, match.end()):
            yield _inside(text, match.end())


def _inside(text: str, bracket: int) -> Span:
    """What is between the brackets, of which the first is here."""
    end = balanced_end(text, bracket)
    return bracket + 1, end - 1 if end - 1 > bracket and text[end - 1] in ")]}" else end


_PASSWORD = re.compile(
    r"(?i)(?<![\w\-])(?:password|passwd|passphrase|passcode|pwd"
    r"|identified[ ]{1,4}+(?:with[ ]{1,4}+\w{1,40}+[ ]{1,4}+)?(?:by|as)(?:[ ]{1,4}+password)?)[ \t\r\n(]{1,4}+(?=[\"'])"
)
_PASSWORD_FOR = re.compile(r"(?i)(?<!\w)password for [^=\n]{1,200}+=[ \t]{0,4}+(?=[\"'])")
_QUOTED = re.compile(r"""(?i)(?<![\w\-])(?:token|secret|key|credentials?)[ ](["'])([^"'\s]{12,400}+)\1""")


def _passwords(text: str) -> Iterator[Span]:
    """``ALTER USER ann PASSWORD 'S'``, ``IDENTIFIED BY 'S'``, and sentences of the same form."""
    for pattern in (_PASSWORD, _PASSWORD_FOR):
        for match in pattern.finditer(text):
            start, end = value_span(text, match.end())
            if start < end:
                yield start, end


def _quoted(text: str) -> Iterator[Span]:
    """``token "S"`` where S is hardly a word."""
    for match in _QUOTED.finditer(text):
        if looks_random(match[2]):
            yield match.span(2)


def _parameters(text: str, named: Named) -> Iterator[Span]:
    """SQLAlchemy's ``[SQL: …] [parameters: …]``: by position, nobody can tell which value is whose."""
    before = 0
    for match in re.finditer(r"\[parameters: (?=[(\[{])", text):
        sql = text.rfind("[SQL: ", max(before, match.start() - 8_000), match.start())
        before = match.end()
        if sql >= 0 and _any(text[sql : match.start()], named):
            yield _inside(text, match.end())


_FIELD = re.compile(r"[\w.\-\[\]]{1,200}")


def _validated_fields(text: str, named: Named) -> Iterator[Span]:
    """pydantic's errors: the field on one line, ``[type=…, input_value='S', input_type=str]`` on the next."""
    for match in re.finditer("input_value=", text):
        start = match.end()
        end = text.find(", input_type=", start, start + 2_000)
        if end < 0:
            end = line_end(text, start)
        if any(named(part) for part in _field_above(text, match.start()).split(".")):
            yield start, end
        elif text[start : start + 1] not in ("'", '"'):
            # Cut in its middle, with half a name before a value.
            gap = text.find("...", start, end)
            if gap >= 0:
                yield gap, end


def _field_above(text: str, position: int) -> str:
    line = _break_before(text, position, 1_000)
    if line < 0:
        return ""
    above = text[max(_break_before(text, line, 200), line - 200, 0) : line].removeprefix("\\n").strip()
    return above if _FIELD.fullmatch(above) else ""


def _break_before(text: str, position: int, most: int) -> int:
    """The end of the line before, real or escaped."""
    least = max(0, position - most)
    return max(text.rfind("\n", least, position), text.rfind("\\n", least, position))


_LOC = re.compile(r"""["']loc["']\s{0,4}+:\s{0,4}+[(\[]([^)\]\n]{1,300}+)[)\]]""")
_INPUT = re.compile(r"""["']input["']\s{0,4}+:\s{0,4}+""")


def _validated_places(text: str, named: Named) -> Iterator[Span]:
    """The same errors as data: ``{'loc': ('password',), 'msg': '…', 'input': 'S'}``."""
    for match in _LOC.finditer(text):
        if _any(match[1], named):
            given = _INPUT.search(text, match.end(), match.end() + 1_000)
            if given:
                start, end = value_span(text, given.end())
                if start < end:
                    yield start, end
