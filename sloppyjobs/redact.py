"""One place that hides secrets, for everything that is shown: previews, errors, tracebacks, logs, metadata.

Where a rule cannot tell, it hides. Every search takes time in proportion to the text: patterns either fail
within a fixed number of characters or start only where a run of characters starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from sloppyjobs.cutting import Cut
from sloppyjobs.payload import clean_text
from sloppyjobs.secret_names import MAX_KEY, WHOLE_LINE, is_secret_key, joined

REDACTED = "[redacted]"
"""What stands where a secret was."""
UNAVAILABLE = "unavailable"
"""The text of a preview whose source cannot be read."""

_MAX_DEPTH = 100
_MAX_PASSES = 8
_MAX_INSIDE = 16

_NOT_PROSE = re.compile(r"[^a-z]")


@dataclass(frozen=True, slots=True)
class Preview:
    """What may be shown of a stored value: redacted, then cut to a bound.

    ``redacted`` counts the places that were hidden; ``available`` is false where there was nothing readable.
    """

    value: object | None
    text: str
    redacted: int
    truncated: bool
    available: bool


class Redactor:
    """Hides secrets under the common names, and under ``keys``: names, or dotted paths like ``card.number``.

    Names are compared without case and separators: ``apiKey``, ``API-KEY`` and ``api_key`` are one. Redacting
    twice gives the same as redacting once.
    """

    __slots__ = ("_names", "_paths")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        paths = [tuple(joined(part) for part in key.split(".")) for key in ([keys] if isinstance(keys, str) else keys)]
        self._names = frozenset(path[0] for path in paths if len(path) == 1 and path[0])
        self._paths = tuple(path for path in paths if len(path) > 1)

    def value(self, obj: object) -> object:
        """A deep copy of JSON-like data with its secrets replaced; other objects become redacted text."""
        return _Pass(self._names, self._paths).value(obj, ())

    def text(self, s: str) -> str:
        """The text without the secrets in it: tokens, keys, credentials, ``password=…`` and the like."""
        return _Pass(self._names, self._paths).text(s, ())

    def json(self, text: str | None, *, limit: int = 16_384) -> Preview:
        """The preview of stored JSON; never the raw text, even where it cannot be read."""
        nothing = Preview(value=None, text=UNAVAILABLE, redacted=0, truncated=False, available=False)
        if text is None:
            return nothing
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return nothing
        run = _Pass(self._names, self._paths)
        # Redact first: half a token looks like no token.
        cut = Cut(limit)
        shown = cut.value(run.value(value, ()), 0)
        pretty = json.dumps(shown, ensure_ascii=False, indent=2)
        return Preview(
            value=shown,
            text=clean_text(pretty, limit),
            redacted=run.count,
            truncated=cut.happened or len(pretty) > limit,
            available=True,
        )


def preview(text_json: str | None, *, keys: Iterable[str] = (), limit: int = 16_384) -> Preview:
    """The preview of stored JSON in at most ``limit`` characters, with a definition's own secret ``keys``."""
    return Redactor(keys).json(text_json, limit=limit)


class _Pass:
    """One run over one value, with its count of hidden places."""

    __slots__ = ("count", "names", "paths")

    def __init__(self, names: frozenset[str], paths: tuple[tuple[str, ...], ...]) -> None:
        self.names = names
        self.paths = paths
        self.count = 0

    def value(self, obj: object, path: tuple[str, ...]) -> object:
        if obj is None or isinstance(obj, bool | int | float):
            return obj
        if isinstance(obj, str):
            return self.text(obj, path)
        if len(path) >= _MAX_DEPTH:
            return self.hide(obj)
        if isinstance(obj, Mapping):
            return {self.text(str(k), path): self.under(str(k), v, path) for k, v in obj.items()}
        if isinstance(obj, list | tuple | set | frozenset):
            # A list is a level of depth, and no part of a dotted path.
            return [self.value(item, (*path, "")) for item in obj]
        return self.text(clean_text(obj, 10_000), path)

    def under(self, key: str, value: object, path: tuple[str, ...]) -> object:
        here = (*path, joined(key[-MAX_KEY:])) if self.names or self.paths else (*path, key)
        if value is None or (isinstance(value, bool) and not self.chosen(here)):
            return value
        if self.chosen(here) or is_secret_key(key, number=isinstance(value, int | float)):
            return self.hide(value)
        return self.value(value, here)

    def chosen(self, path: tuple[str, ...]) -> bool:
        """Whether the constructor's keys name this place."""
        if path[-1] in self.names:
            return True
        names = tuple(filter(None, path)) if self.paths else ()
        return any(names[-len(wanted) :] == wanted for wanted in self.paths)

    def hide(self, value: object) -> str:
        # What holds a replacement already was counted when that was made.
        if not (isinstance(value, str) and REDACTED in value):
            self.count += 1
        return REDACTED

    def text(self, text: str, path: tuple[str, ...]) -> str:
        if text == REDACTED:
            return text
        # A replacement may complete another pattern around it. Going on until nothing changes makes the
        # result final; a text that does not settle is hidden whole.
        for _ in range(_MAX_PASSES):
            before = text
            text = self.once(text, path)
            if text == before:
                return text
        return self.hide(text)

    def once(self, text: str, path: tuple[str, ...]) -> str:
        if text[:1] in ("{", "[", '"', " ", "\n", "\t") and len(path) < _MAX_DEPTH:
            text = self.nested(text, path)
        if "-----BEGIN" in text:
            text = self.pem(text)
        if "://" in text:
            text = _URL.sub(self.url, text)
        if "eyJ" in text:
            text = _DOTTED.sub(self.jwt, text)
        text = _SCHEME.sub(self.scheme, text)
        text = _SHAPES.sub(self.shape, text)
        if ":" in text or "=" in text:
            text = self.fragments(text)
        return text

    def nested(self, text: str, path: tuple[str, ...]) -> str:
        """JSON inside a string, whose names may be escaped beyond the reach of patterns."""
        try:
            value = msgspec.json.decode(text)
            if not isinstance(value, dict | list | str):
                return text
            clean = self.value(value, (*path, ""))
            return text if clean == value else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text

    def pem(self, text: str) -> str:
        parts: list[str] = []
        position = 0
        while begin := _PEM_BEGIN.search(text, position):
            end = _PEM_END.search(text, begin.end())
            parts += [text[position : begin.start()], self.hide(begin)]
            # Without an end the key may go on as far as the text does.
            position = end.end() if end else len(text)
        return "".join([*parts, text[position:]])

    def url(self, match: re.Match[str]) -> str:
        return "://".join(self.authority(piece) for piece in match[0].split("://"))

    def authority(self, piece: str) -> str:
        info, at, rest = piece.rpartition("@")
        user, colon, password = info.partition(":")
        if not at or _OUTSIDE_USER.search(user):
            return piece
        if not colon:
            return self.hide(user) + at + rest if _TOKEN_USER.fullmatch(user) else piece
        if password == REDACTED or not password or _PORT.match(password):
            return piece
        return f"{user}:{self.hide(password)}@{rest}"

    def jwt(self, match: re.Match[str]) -> str:
        run = match[0]
        start = run.find("eyJ")
        while start >= 0 and (dot := run.find(".", start)) >= 0:
            if dot - start >= 8 and len(run) - dot >= 5:
                return run[:start] + self.hide(run)
            start = run.find("eyJ", start + 1)
        return run

    def scheme(self, match: re.Match[str]) -> str:
        name, value = match[1].lower(), match[3]
        if value.lower().rstrip(".") in _AFTER_SCHEME:
            return match[0]
        # "Basic" begins many a sentence; credentials in base64 are hardly ever lower-case letters only.
        if name == "basic" and not _NOT_PROSE.search(value.rstrip(".")):
            return match[0]
        return match[1] + match[2] + self.hide(value)

    def shape(self, match: re.Match[str]) -> str:
        return self.hide(match[0])

    def fragments(self, text: str) -> str:
        """``key=value``, ``key: value`` and ``"key": "value"`` in running text."""
        parts: list[str] = []
        done = 0
        for start, end in _joined_spans(self.spans(text), len(text)):
            parts += [text[done:start], self.hide(text[start:end])]
            done = end
        return "".join([*parts, text[done:]]) if parts else text

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """The values of secret keys, also of keys inside such a value: a stray quote may pair wrongly."""
        position = 0
        while match := _KEY.search(text, position):
            position = match.end()
            phrase = match[1][-MAX_KEY:]
            if not self.named(phrase):
                continue
            start, end = _value_span(text, position, joined(phrase).endswith(WHOLE_LINE))
            found = text[start:end] if end - start < 40 else ""
            if start == end or found == REDACTED or found in _HARMLESS:
                position = end
            elif not _NUMBER.fullmatch(found) or self.named(phrase, number=True):
                yield start, end

    def named(self, phrase: str, *, number: bool = False) -> bool:
        if is_secret_key(phrase, number=number):
            return True
        if not self.names:
            return False
        words = phrase.split(" ")
        return any(joined("".join(words[-n:])) in self.names for n in range(1, len(words) + 1))


_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# The whole run at once, taken apart by hand: looking for its "@" by pattern would be quadratic.
_URL = re.compile(r"""://[^\s"'<>`]++""")
_OUTSIDE_USER = re.compile(r"[/?#]")
_TOKEN_USER = re.compile(r"[\w\-.~%]{20,}")
_PORT = re.compile(r"[0-9]{1,5}[/?#]")
_DOTTED = re.compile(r"(?<![\w\-.])[\w\-.]++")
_SCHEME = re.compile(r"(?i)(?<![A-Za-z0-9])(bearer|basic)([ \t]{1,8})([A-Za-z0-9+/=._~\-]++)")
# Words that follow a scheme's name in prose: "bearer of", "Basic authentication", "Bearer realm=".
_PROSE = (
    "of is was or and with for in must token tokens auth authentication authorization scheme credentials "
    "realm format header access"
)
_AFTER_SCHEME = frozenset(_PROSE.split())
# Each ends with everything that could be part of a token, so that no rest looks like the start of another.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{12}|gh[pousr]_[A-Za-z0-9]{16}|github_pat_\w{16}|glpat-[\w\-]{16}"
    r"|xox[abeoprs]-[A-Za-z0-9\-]{8}|sk-[\w\-]{16}|[sr]k_(?:live|test)_\w{8}|whsec_\w{16}|AIza[\w\-]{30}|ya29\.[\w\-]{16}"
    r"|npm_[A-Za-z0-9]{30}|pypi-[\w\-]{30}|SG\.[\w\-]{16}|hf_[A-Za-z0-9]{30}|hooks\.slack\.com/services/[\w]{6})"
    r"[\w\-./+=]*+"
)
# Up to three words and a separator. The look-behind keeps a long run from being tried at every character.
_KEY = re.compile(
    r"""(?<![\w\-])((?:[\w\-]++[ ]){0,2}[\w\-]++)\\*+["'`]?+\]?+[ \t]*+(?:=>|:=|==|=|:)[ \t]*+""",
)
_QUOTE = re.compile(r"""[bBrRuUfF]{0,2}(\\*+)(["'`])""")
_CLOSE = {q: re.compile(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+{q}", re.DOTALL) for q in "\"'`"}
_BRACKET = re.compile(r"""[\[\](){}"'`]""")
_BARE = re.compile(r"""[^\s&;"'`<>]*+""")
_LINE = re.compile(r"[^\r\n]*+")
_NUMBER = re.compile(r"[+\-]?[0-9][0-9_.]*")
_HARMLESS = frozenset(("null", "None", "true", "false", "True", "False"))


def _joined_spans(spans: Iterator[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Overlapping spans as one. One that holds too many others takes the rest of the text.

    Looking for the end of each of many nested values would be quadratic.
    """
    first = last = inside = 0
    for start, end in spans:
        if start <= last and last:
            last = max(last, end)
            inside += 1
        else:
            if last:
                yield first, last
            first, last, inside = start, end, 0
        if inside > _MAX_INSIDE:
            last = size
        if last == size:
            break
    if last:
        yield first, last


def _value_span(text: str, start: int, whole_line: bool) -> tuple[int, int]:
    """Where the value that begins here starts and ends, without its quotes. Unclosed, it takes the rest."""
    quote = _QUOTE.match(text, start)
    if quote:
        return quote.end(), _quoted_end(text, quote)
    past = start
    if text.startswith(REDACTED, start):
        past += len(REDACTED)
    elif text[start : start + 1] in ("{", "[", "("):
        return start, _balanced_end(text, start)
    run = (_LINE if whole_line else _BARE).match(text, past)
    rest = run[0].rstrip(" \t.,:)]}") if run else ""
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


def _balanced_end(text: str, start: int) -> int:
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
            close = _CLOSE[found[0]].match(text, position)
            if close is None:
                break
            position = close.end()
    return len(text)
