"""A quick proof that a text holds nothing to hide, for the many texts of which that is true.

Pure: no I/O, no clock. It is one-sided: what it cannot rule out, the patterns look at. Every pattern needs something
that is ruled out here: a name that promises a secret, a known shape, or a fixed word. None of these goes on beyond the
end of a line or a colon with a blank, so each part between those is looked at by itself. Parts are cached,
because tracebacks repeat all but the last of theirs. Messages of one cause often differ in their numbers alone: words
are looked for with every digit as a 0, so once for all of them. Where none of their words is long enough for a token,
one such text stands for all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from sloppyjobs.domain.redaction import secret_shapes
from sloppyjobs.domain.redaction.secret_names import NAME_ENDS, NAME_WORDS

LONGEST_PART = 2_000
"""Characters of a part that is looked at here."""
MOST_PARTS = 2_048
"""Harmless parts that are cached; then the cache is cleared."""
LONGEST_SHAPE = 500
"""Characters of a text whose shape is cached: all of it, with every digit as a 0."""
LONGEST_START, MOST_STARTS = 8_000, 128
"""The same of the lines before the last one of a text: tracebacks of one cause share them."""

# Whatever starts like this may be JSON, which is parsed before the patterns see it.
_JSON_STARTS = ("{", "[", '"', " ", "\n", "\t")

# What the patterns need that do without a secret name, in small letters.
_FIXED = ("@", "\\", "eyj", "-----begin", "basic", "bearer", "failing row", "input_value=", "identified", "flyv0")
_QUOTED_KEY = re.compile(r"key [\"']")
_PERCENT = re.compile(r"%[0-9a-f]{2}")
# Flags with credentials, and the letters that mean a password for some programs.
_FLAG = re.compile(r"(?:^|[^\w\-])-(?:[paw]|-?(?:u|user|proxy-user)(?!\w))")
# Names of which the patterns would see a part only.
_LONGEST_NAME, _LONGEST_PATH = 40, 127
_LONG_NAME = re.compile(rf"[\w\-]{{{_LONGEST_NAME + 1}}}|[\w\-./:]{{{_LONGEST_PATH + 1}}}")

_SHORTEST_TOKEN = 13
"""Characters without a blank that every token has whose shape is known; ``FlyV1`` is in ``_FIXED``."""

_ONE_DIGIT = bytes.maketrans(b"0123456789", b"0" * 10)


def _one_digit(name: str) -> str:
    """The name with every digit as a 0."""
    return name.translate(str.maketrans("0123456789", "0" * 10))


# Names are compared without separators, so the text is, too.
_SEPARATORS = bytes(code for code in range(128) if not chr(code).isalnum())
_ENDS = tuple(_one_digit(end) for end in NAME_ENDS if not any(other in end for other in NAME_ENDS if other != end))
_WORDS = tuple(sorted(map(_one_digit, NAME_WORDS)))
# As a word of its own, as names are split: "pin", "userPin", "PIN2"; after a "b", which may be a prefix of quotes.
_WORD = re.compile(
    rf"(?:(?<![a-z])[bB]?(?:{'|'.join(_WORDS)})|{'|'.join(word.capitalize() for word in _WORDS)}"
    rf"|(?<![A-Z])[bB]?(?:{'|'.join(word.upper() for word in _WORDS)}))(?![a-z])"
)
# Each name above contains one of these, and most texts contain none of them.
_STEM_WORDS = (
    "key pass pw code cred number token secret auth sess cookie pin otp sid sig ssn cv dsn jwt srf iban senha bearer "
    "mnemonic seedphrase connectionstring contrasena kennwort wachtwoord"
)
STEMS = tuple(_STEM_WORDS.split())


class Absence:
    """Knows of texts that they hold no secret, neither by the common rules nor under further ``names``."""

    __slots__ = ("_harmless", "_harmless_starts", "_names", "_shapes", "_without_words")

    def __init__(self, names: frozenset[str]) -> None:
        self._names = tuple(_one_digit(name) for name in names)
        self._harmless: set[str] = set()
        self._without_words: set[bytes] = set()
        self._harmless_starts: set[str] = set()
        self._shapes: set[bytes] = set()

    def proven(self, text: str) -> bool:
        """Whether redaction would leave this text as it is; False where that is not certain."""
        if text.startswith(_JSON_STARTS):
            return False
        end = text.rfind("\n", 0, -1)
        if end < 0 or end > LONGEST_START:
            return self._all_harmless(text)
        start, known = text[:end], self._harmless_starts
        if start not in known:
            if not self._all_harmless(start):
                return False
            if len(known) >= MOST_STARTS:
                known.clear()
            known.add(start)
        return self._all_harmless(text[end + 1 :])

    def _all_harmless(self, text: str) -> bool:
        if len(text) > LONGEST_SHAPE or not text.isascii():
            return self._parts_harmless(text)
        shape, known = text.encode().translate(_ONE_DIGIT), self._shapes
        if shape in known:
            return True
        if not self._parts_harmless(text):
            return False
        # Texts of one shape have their blanks in the same places, so none of them has a word that may be a token.
        if all(len(run) < _SHORTEST_TOKEN for run in text.split()):
            if len(known) >= MOST_PARTS:
                known.clear()
            known.add(shape)
        return True

    def _parts_harmless(self, text: str) -> bool:
        known = self._harmless
        for part in text.replace("\n", ": ").split(": "):
            if part in known:
                continue
            if not self._is_harmless(part):
                return False
            if len(known) >= MOST_PARTS:
                known.clear()
            known.add(part)
        return True

    def _is_harmless(self, part: str) -> bool:
        # Beyond ASCII, letters have look-alikes, and more than one small or large form.
        if len(part) > LONGEST_PART or not part.isascii():
            return False
        same_digits, known = part.encode().translate(_ONE_DIGIT), self._without_words
        if same_digits not in known:
            if not self._has_no_words(same_digits.decode()):
                return False
            if len(known) >= MOST_PARTS:
                known.clear()
            known.add(same_digits)
        # A loop, which takes half as long as ``all`` does.
        for run in part.split():  # noqa: SIM110
            if len(run) >= _SHORTEST_TOKEN and not _is_harmless_run(run):
                return False
        return True

    def _has_no_words(self, part: str) -> bool:
        """Whether the part, with every digit as a 0, has neither a fixed word nor a name of a secret."""
        small = part.lower()
        if _has_one(_FIXED, small):
            return False
        if ("key " in small and _QUOTED_KEY.search(small)) or ("%" in small and _PERCENT.search(small)):
            return False
        if "-" in small and _FLAG.search(small):
            return False
        squeezed = small.encode().translate(None, _SEPARATORS).decode()
        if self._names and _has_one(self._names, squeezed):
            return False
        return not _has_one(STEMS, squeezed) or not (
            _has_one(_ENDS, squeezed) or (_has_one(_WORDS, small) and _WORD.search(part))
        )


def _is_harmless_run(run: str) -> bool:
    return not (secret_shapes.has_token(run) or (len(run) > _LONGEST_NAME and _LONG_NAME.search(run)))


def _has_one(words: Iterable[str], text: str) -> bool:
    # A loop, which takes half as long as ``any`` does.
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


@lru_cache(maxsize=64)
def absence(names: frozenset[str]) -> Absence:
    """The one for these names, with the parts that it has cached."""
    return Absence(names)
