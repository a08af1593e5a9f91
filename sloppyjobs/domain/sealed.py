"""Encrypted texts as they are stored: which text is one, and which key it needs. Pure; ``encryption`` has the keys.

An envelope is JSON, so that it fits wherever JSON is expected. It begins with a brace and a space, which our encoder
never writes: no payload of an application looks like one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

MARK = '{ "$enc":'
"""What every envelope begins with."""
HEAD_LENGTH = 48
"""Characters from which it can be told which key an envelope needs."""
_HEAD = re.compile(r'\{ "\$enc":\{"v":1,"k":"([0-9a-f]{8})"')
_decode = msgspec.json.decode


OpenText = Callable[[str, str, str], str]
"""Takes the owner's id, what the text is, and the stored text; answers with the text, or ``DecryptionFailed``."""


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A value that is encrypted; the envelope."""

    text: str

    def __repr__(self) -> str:
        return f"<encrypted with key {key_of(self.text) or 'unknown'}>"


def envelope(key_id: str, data: str) -> str:
    """The envelope of encrypted data in base64."""
    return f'{MARK}{{"v":1,"k":"{key_id}","d":"{data}"}}}}'


def data_of(text: str) -> str | None:
    """The data of a whole envelope."""
    head = _HEAD.match(text)
    begin = 0 if head is None else head.end() + len(',"d":"')
    return text[begin:-3] if head is not None and text.endswith('"}}') and len(text) > begin else None


def is_sealed(text: str) -> bool:
    """Whether it is an envelope; a damaged row may hold something else than a text."""
    return isinstance(text, str) and text.startswith(MARK)


def is_whole(text: str) -> bool:
    """Whether a text that may have been cut is an envelope to its end."""
    return text.startswith(MARK) and text.endswith("}}")


def key_of(text: str) -> str | None:
    """The id of the key that an envelope needs, also of its start; None for any other text."""
    found = _HEAD.match(text)
    return None if found is None else found[1]


def decode_stored(text: str) -> Any:
    """The value of stored JSON; ``Sealed`` where it is encrypted. Raises where it is no JSON."""
    return Sealed(text) if text.startswith(MARK) else _decode(text)
