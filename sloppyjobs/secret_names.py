"""Which names promise a secret: ``apiKey``, ``user_password`` and ``x-api-key`` do, ``tokens_used`` does not.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_KEY = 128
"""Characters of a name that are looked at, from its end."""

# Secret as the end of a name written together: no other English word ends like these.
_ENDINGS = (
    "password passwords passwd passphrase pwd secret token apikey apikeys auth authorization cookie jwt "
    "credential credentials privatekey privatekeys privkey accesskey accesskeys accountkey sharedkey "
    "secretkey signingkey encryptionkey masterkey sshkey sessionid sessid pincode cardnumber creditcard "
    "securitycode connectionstring socialsecuritynumber recoverycode recoverycodes backupcode backupcodes "
    "verificationcode"
)
# Secret as a word of its own only: compare spin, possession, bearer and pallbearer.
_WORDS = "session pin cvv cvc ssn dsn otp totp bearer csrf xsrf sig signature"
# Secret unless the value is a number: max_tokens and sessions are mostly counts.
_UNLESS_NUMBERS = "tokens secrets cookies sessions pass"
# Words after a secret one that leave it a secret: password_hash, session_key, pin_code, token_value.
_TAILS = (
    "value values hash hashed header headers string str text raw plain plaintext data code codes id ids "
    "key keys body content encrypted enc confirm confirmation again repeat old new current hint salt base b v"
)
# In running text the value of these goes on to the end of the line.
WHOLE_LINE = ("authorization", "cookie", "passphrase", "connectionstring")

_ENDS = tuple(_ENDINGS.split())
_WHOLE = frozenset(_WORDS.split())
_COUNTABLE = frozenset(_UNLESS_NUMBERS.split())
_TAIL = frozenset(_TAILS.split())

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


def is_secret_key(key: str, *, number: bool = False) -> bool:
    """Whether a value under this name is hidden. ``number`` says that the value is one."""
    kind = _kind_of(key[-MAX_KEY:])
    return kind == "secret" or (kind == "countable" and not number)


def _words(key: str) -> list[str]:
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key)
    return [word.casefold() for word in _WORD.findall(key)]


def joined(key: str) -> str:
    """The name without case and separators."""
    return "".join(_words(key))


@lru_cache(maxsize=4096)
def _kind_of(key: str) -> str:
    words = _words(key)
    while words:
        if words[-1] in _WHOLE or "".join(words).endswith(_ENDS):
            return "secret"
        if words[-1] in _COUNTABLE:
            return "countable"
        if words[-1] not in _TAIL and not words[-1].isdigit():
            return ""
        words.pop()
    return ""
