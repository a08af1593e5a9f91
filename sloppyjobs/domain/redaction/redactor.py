"""One place that hides secrets, for everything that is shown: previews, errors, tracebacks, logs, metadata, spans.

Where a rule cannot tell, it hides. It takes time in proportion to what is shown, not to what is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.redaction import secret_contexts, secret_errors, secret_shapes, secret_text
from sloppyjobs.domain.redaction.secret_absence import absence
from sloppyjobs.domain.redaction.secret_names import MAX_KEY, is_secret_key, joined
from sloppyjobs.domain.redaction.secret_shapes import Span
from sloppyjobs.domain.redaction.secret_values import REDACTED, looks_random
from sloppyjobs.domain.truncation import Truncation
from sloppyjobs.errors import DecryptionFailed

__all__ = ["REDACTED", "UNAVAILABLE", "Preview", "Redactor", "preview"]

UNAVAILABLE = "unavailable"
"""The text of a preview whose source cannot be read."""
PREVIEW_LIMIT = 16_384
"""Characters of a preview, unless it is asked for another number."""

_MAX_DEPTH = 100
_MAX_PASSES = 8
_MAX_INSIDE = 16
_MAX_KNOWN = 16
# Characters beyond those that are shown, in which a secret that begins among them is recognised.
_OVERLAP = 4_096

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """What may be shown of a stored value: redacted, and truncated to a bound.

    ``redacted`` counts the places that were hidden in what is shown; ``available`` is false where there was nothing
    readable.
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

    __slots__ = ("_absence", "_names", "_paths")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        paths = [tuple(joined(part) for part in key.split(".")) for key in ([keys] if isinstance(keys, str) else keys)]
        self._names = frozenset(path[0] for path in paths if len(path) == 1 and path[0])
        self._paths = tuple(path for path in paths if len(path) > 1)
        self._absence = absence(self._names)

    def value(self, obj: object) -> object:
        """A deep copy of JSON-like data with its secrets replaced; other objects become redacted text."""
        return self._pass().value(obj, ())

    def text(self, s: str) -> str:
        """The text without the secrets in it: tokens, keys, credentials, ``password=…`` and the like."""
        return s if self.harmless(s) else self._pass().text(s, ())

    def harmless(self, s: str) -> bool:
        """Whether it is certain, by a quick look, that ``text`` would leave this as it is."""
        return self._absence.proven(s)

    def bounded(self, obj: object, *, limit: int = PREVIEW_LIMIT) -> object:
        """As ``value``, and truncated to about ``limit`` characters, with a mark wherever something is missing."""
        return self._pass(Truncation(limit)).value(obj, ())

    def fields(
        self, members: Mapping[str, object], keys: Iterable[str], *, limit: int, whole: bool = True
    ) -> list[tuple[str, object]]:
        """These members as ``bounded`` shows them, ``limit`` for each.

        Another member may say what one is: ``{"name": "DB_PASSWORD", "value": …}``. Where ``members`` are not the whole
        object, such a name may be missing, and every value that could have one is hidden.
        """
        paired = self._pass().paired(members)
        shown: list[tuple[str, object]] = []
        for key in keys:
            run = self._pass(Truncation(limit))
            name = run.shown_text(key, (), Truncation.MAX_KEY)
            hide = key in paired or (not whole and key.lower() in _SAYS_VALUE)
            shown.append((name, run.hidden(members[key]) if hide else run.under(key, members[key], ())))
        return shown

    def json(self, text: str | None, *, limit: int = PREVIEW_LIMIT) -> Preview:
        """The preview of stored JSON; never the raw text, even where it cannot be read."""
        nothing = Preview(value=None, text=UNAVAILABLE, redacted=0, truncated=False, available=False)
        if text is None:
            return nothing
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return nothing
        truncation = Truncation(limit)
        run = self._pass(truncation)
        shown = run.value(value, ())
        pretty = json.dumps(shown, ensure_ascii=False, indent=2)
        return Preview(
            value=shown,
            text=clean_text(pretty, limit),
            redacted=run.count,
            truncated=truncation.truncated or len(pretty) > limit,
            available=True,
        )

    def _pass(self, truncation: Truncation | None = None) -> _Pass:
        return _Pass(self._names, self._paths, truncation)


def encrypted_preview(error: DecryptionFailed) -> Preview:
    """What is shown of a value that cannot be decrypted: which key it needs, never what is stored."""
    return Preview(value=None, text=encrypted_text(error), redacted=0, truncated=False, available=False)


def encrypted_text(error: DecryptionFailed) -> str:
    """Instead of something that cannot be decrypted."""
    if error.missing:
        return f"encrypted (key {error.key} is not here)"
    return f"encrypted (cannot be read with key {error.key}: it was changed, or belongs to another row)"


def preview(text_json: str | None, *, keys: Iterable[str] = (), limit: int = PREVIEW_LIMIT) -> Preview:
    """The preview of stored JSON in at most ``limit`` characters, with a definition's own secret ``keys``."""
    return Redactor(keys).json(text_json, limit=limit)


_SAYS_NAME_WORDS = (
    "name key k field header variable var env param parameter option attribute attr property setting type"
)
_SAYS_NAME = frozenset(_SAYS_NAME_WORDS.split())
_SAYS_VALUE_WORDS = "value val v content data default input string text"
_SAYS_VALUE = frozenset(_SAYS_VALUE_WORDS.split())
_FLAG = re.compile(r"--?[A-Za-z][\w\-]{0,80}")
_USER_FLAGS = frozenset(("-u", "--user", "--proxy-user", "--auth"))
_DIGITS = re.compile(r"[0-9]{1,9}")


class _Pass:
    """One run over one value, with its count of hidden places. With a ``truncation``, over no more than is shown."""

    __slots__ = ("count", "names", "paths", "truncation")

    def __init__(self, names: frozenset[str], paths: tuple[Path, ...], truncation: Truncation | None = None) -> None:
        self.names = names
        self.paths = paths
        self.truncation = truncation
        self.count = 0

    def value(self, obj: object, path: Path, *, item: bool = False) -> object:
        """The value at this path; ``item`` says that it is one of a list."""
        if obj is None or isinstance(obj, bool | int | float):
            if self.truncation:
                self.truncation.scalar()
            return obj
        if isinstance(obj, str):
            return self.shown_text(obj, path, Truncation.MAX_TEXT)
        if not isinstance(obj, Mapping | list | tuple | set | frozenset):
            return self.shown_text(clean_text(obj, 10_000), path, Truncation.MAX_TEXT)
        if len(path) >= _MAX_DEPTH:
            return self.hide(obj)
        if self.truncation and not self.truncation.enter(len(path), not obj):
            return "…"
        if isinstance(obj, Mapping):
            return self.mapping(obj, path)
        return self.sequence(list(obj), path, pair=item or isinstance(obj, tuple))

    def mapping(self, obj: Mapping[object, object], path: Path) -> dict[str, object]:
        shown: dict[str, object] = {}
        hidden = self.paired(obj)
        for taken, (key, value) in enumerate(obj.items()):
            if self.truncation and self.truncation.full(taken):
                shown["…"] = f"{len(obj) - taken} more"
                break
            name = self.shown_text(str(key), path, Truncation.MAX_KEY)
            shown[name] = self.hidden(value) if key in hidden else self.under(str(key), value, path)
        return shown

    def sequence(self, items: list[object], path: Path, *, pair: bool) -> list[object]:
        shown: list[object] = []
        for taken, value in enumerate(items):
            if self.truncation and self.truncation.full(taken):
                shown.append(f"… {len(items) - taken} more")
                break
            before = items[taken - 1] if taken else None
            if isinstance(before, str) and self.follows(before, value, pair=pair and len(items) == 2):
                shown.append(self.hidden(value))
            else:
                # A list is a level of depth, and no part of a dotted path.
                shown.append(self.value(value, (*path, ""), item=True))
        return shown

    def paired(self, obj: Mapping[Any, object]) -> set[object]:
        """The keys of values whose name is another value: ``{"name": "DB_PASSWORD", "value": …}``."""
        if len(obj) > 20:
            return set()
        for key, value in obj.items():
            kind = str(key).lower()
            # A validator says where: {"loc": ["body", "password"], "input": …}.
            names = (
                [value] if kind in _SAYS_NAME else value if kind == "loc" and isinstance(value, list | tuple) else ()
            )
            if any(
                isinstance(name, str) and len(name) <= MAX_KEY and secret_contexts.names_secret(kind, name, self.named)
                for name in names
            ):
                return {other for other in obj if str(other).lower() in _SAYS_VALUE}
        return set()

    def follows(self, before: str, value: object, *, pair: bool) -> bool:
        """Whether an item is the value of the one before it: a flag's, or a pair's."""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            return False
        if _FLAG.fullmatch(before):
            text = str(value)
            if before in _USER_FLAGS and ":" in text:
                return True
            return not text.startswith("-") and self.named(before, number=_is_number(value))
        return pair and len(before) <= MAX_KEY and self.named(before, number=_is_number(value))

    def under(self, key: str, value: object, path: Path) -> object:
        here = (*path, joined(key[-MAX_KEY:])) if self.names or self.paths else (*path, key)
        if value is None or (isinstance(value, bool) and not self.chosen(here)):
            return self.value(value, here)
        if self.chosen(here) or is_secret_key(key, number=_is_number(value)):
            return self.hidden(value)
        return self.value(value, here)

    def chosen(self, path: Path) -> bool:
        """Whether the constructor's keys name this place."""
        if path[-1] in self.names:
            return True
        names = tuple(filter(None, path)) if self.paths else ()
        return any(names[-len(wanted) :] == wanted for wanted in self.paths)

    def hidden(self, value: object) -> object:
        """A value under a secret name; that there is none is no secret."""
        if value is None or isinstance(value, bool):
            return self.value(value, ())
        if self.truncation:
            self.truncation.budget -= len(REDACTED) + 4
        return self.hide(value)

    def hide(self, value: object) -> str:
        # What holds a replacement already was counted when that was made.
        if not (isinstance(value, str) and REDACTED in value):
            self.count += 1
        return REDACTED

    def named(self, phrase: str, *, number: bool = False) -> bool:
        """Whether a name in running text promises a secret."""
        last = phrase.rpartition(" ")[2]
        if is_secret_key(phrase, number=number, followed=False) or is_secret_key(last, number=number):
            return True
        if not self.names:
            return False
        words = phrase.split(" ")
        return any(joined("".join(words[-n:])) in self.names for n in range(1, min(len(words), 3) + 1))

    def shown_text(self, text: str, path: Path, most: int) -> str:
        """The text without its secrets, looking at no more of it than will be shown."""
        if self.truncation is None:
            return self.text(text, path)
        room = self.truncation.room(most)
        if len(text) <= room + _OVERLAP:
            return self.truncation.text(clean_text(self.text(text, path), len(text) + room), most, 0)
        inner = self.nested(text, path, Truncation(room)) if text[:1] in ("{", "[") else text
        if inner is text:
            inner = self.text(text[: room + _OVERLAP], path, shown=room)
        return self.truncation.text(clean_text(inner, len(text) + room), most, len(text))

    def text(self, text: str, path: Path, *, shown: int | None = None) -> str:
        """The text without its secrets. With ``shown``, only what comes of its first so many characters.

        A replacement may complete another pattern around it. Going on until nothing changes makes the result final; a
        text that does not settle is hidden whole.
        """
        if text == REDACTED or (shown is None and absence(self.names).proven(text)):
            return text
        edge = len(text) if shown is None else shown
        for _ in range(_MAX_PASSES):
            before = text
            if shown is None and text[:1] in ("{", "[", '"', " ", "\n", "\t") and len(path) < _MAX_DEPTH:
                text = self.nested(text, path)
                edge = len(text)
            text, edge = self.replaced(text, edge, partial=shown is not None)
            if text == before:
                return text[:edge]
        return self.hide(text)

    def nested(self, text: str, path: Path, truncation: Truncation | None = None) -> str:
        """JSON inside a string, whose names may be escaped beyond the reach of patterns."""
        try:
            value = msgspec.json.decode(text)
            if not isinstance(value, dict | list | str):
                return text
            inner = _Pass(self.names, self.paths, truncation)
            clean = inner.value(value, (*path, ""))
            self.count += inner.count
            return text if clean == value else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text

    def replaced(self, text: str, edge: int, *, partial: bool) -> tuple[str, int]:
        """The text with every secret in it replaced once, and where ``edge`` is then."""
        spans = sorted(self.spans(text, partial))
        spans = list(_joined_spans(iter(sorted(spans + _repeated(text, spans))), len(text), len(text)))
        parts: list[str] = []
        done = moved = 0
        for start, end in spans:
            parts += [text[done:start], self.hide(text[start:end])]
            if start < edge:
                moved += len(REDACTED) - (min(end, edge) - start)
            done = end
        return ("".join([*parts, text[done:]]), edge + moved) if parts else (text, edge)

    def spans(self, text: str, partial: bool) -> Iterator[Span]:
        yield from secret_shapes.find(text)
        if ":" in text or "=" in text or "%3" in text:
            yield from _joined_spans(secret_text.find(text, self.named), len(text), _MAX_INSIDE)
        for found in secret_contexts.find(text, self.named, partial=partial):
            yield from _joined_spans(found, len(text), _MAX_INSIDE)
        for found in secret_errors.find(text, self.named):
            yield from _joined_spans(found, len(text), _MAX_INSIDE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and _DIGITS.fullmatch(value) is not None)


def _repeated(text: str, spans: list[Span]) -> list[Span]:
    """Where the same secrets are repeated without a name; what may be a plain word is left alone."""
    known = {text[start:end] for start, end in spans[: 4 * _MAX_KNOWN] if end - start <= 200}
    repeated = sorted(value for value in known if looks_random(value) and REDACTED not in value)[:_MAX_KNOWN]
    if not repeated:
        return []
    return [match.span() for match in re.finditer("|".join(map(re.escape, repeated)), text)]


def _joined_spans(spans: Iterator[Span], size: int, most: int) -> Iterator[Span]:
    """Overlapping spans as one. One that holds more than ``most`` others takes the rest of the text.

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
        if inside > most:
            last = size
        if last == size:
            break
    if last:
        yield first, last
