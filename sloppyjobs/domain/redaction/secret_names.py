"""Which names promise a secret: ``apiKey``, ``GITHUB_TOKEN_PROD`` and ``x-api-key`` do, ``tokens_used`` does not.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

MAX_KEY = 128
"""Characters of a name that are looked at, from its end."""

# Secret as the end of a name written together, and whatever follows it, unless that is in _ABOUT:
# password_prod, apiKeyEu, GITHUB_TOKEN_CI.
_STRONG = (
    "password passwords passwd passphrase passcode passcodes pwd passwort kennwort wachtwoord secret token apikey "
    "apikeys credential credentials creds privatekey privatekeys privkey accesskey accesskeys accountkey "
    "sharedkey secretkey signingkey encryptionkey masterkey sshkey hmackey aeskey rsakey enckey fernetkey authkey "
    "appkey subscriptionkey consumerkey licensekey cardnumber ccnumber creditcard securitycode connectionstring "
    "socialsecuritynumber seedphrase mnemonic"
)
# Secret as the end of a name written together: no other English word ends like these.
_ENDINGS = (
    "auth authorization cookie jwt sessionid sessid pincode pinnumber recoverycode recoverycodes backupcode "
    "backupcodes verificationcode mfacode accesscode logincode"
)
# Secret as a word of its own only: compare spin, possession, inside, bearer and pallbearer.
_WORDS = "session pin pw cvv cvc cvn ssn dsn otp totp bearer csrf xsrf sig signature sid iban contrasena senha"
# Secret unless the value is a number: max_tokens and sessions are mostly counts.
_UNLESS_NUMBERS = "tokens secrets cookies sessions pass"
# Words after a secret one that leave it a secret: password_hash, session_key, pin_code, token_value.
_TAILS = (
    "value values hash hashed header headers string str text raw plain plaintext data code codes id ids "
    "key keys body content encrypted enc confirm confirmation again repeat old new current hint salt base b v"
)
# Deployments and the like, which also follow the words above: session_key_prod, pin_test.
_PLACES = "prod production dev development stage staging test testing live sandbox qa uat preprod"
# Words that make a name one about a secret: password_policy, token_count, secret_url.
_ABOUT = (
    "count counts total used usage budget limit limits limiter max min length len size bytes number per rate "
    "ratio type types kind class category name names label title description desc url uri urls endpoint path "
    "paths file files filename dir directory field fields form format policy policies rule rules requirement "
    "requirements strength score quality reset resets change changes update updates rotation rotate refresh "
    "renewal expiry expires expire expiration exp ttl lifetime age duration timeout time times date at on until "
    "since version provider providers service server host manager store stores storage vault backend backends "
    "handler validator validation check checks checker error errors status state states reason result attempts "
    "tries failures failure retry retries optional missing valid invalid is has exists present absent bucket "
    "buckets cost price symbol address balance supply decimals standard holder holders owner issuer audience "
    "scope scopes algorithm alg method methods mode level index idx position offset line column start end range "
    "window stream probability logprobs embedding embeddings stdin prompt fd env command generator factory parser "
    "lexer reader writer group groups role roles arn ref reference"
)
# In running text the value of these goes on to the end of the line.
WHOLE_LINE = ("authorization", "cookie", "passphrase", "connectionstring")
# After a colon the values of these may be several words.
PHRASES = (
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "mnemonic", "seedphrase", "passwort",
    "kennwort", "pw", "pass",
)  # fmt: skip

_STRONG_ENDS = tuple(_STRONG.split())
_ENDS = (*_STRONG_ENDS, *_ENDINGS.split())
_WHOLE = frozenset(_WORDS.split())
_COUNTABLE = frozenset(_UNLESS_NUMBERS.split())
_PLACE = frozenset(_PLACES.split())
_TAIL = frozenset(_TAILS.split()) | _PLACE
_ABOUT_IT = frozenset(_ABOUT.split())
_PLACE_ENDS = ("prod", "dev", "test", "staging", "live")
_MAX_AFTER = 3

NAME_ENDS = _ENDS
"""Every secret name has one of these in it, read without separators, or it has one of ``NAME_WORDS`` as a word."""
NAME_WORDS = _WHOLE | _COUNTABLE

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_ESCAPED = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
# Letters of other scripts that look like Latin ones.
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕԁԛԝһкмтвнАЕОРСУХІЈЅКМТВНαορνικτυΑΒΕΗΙΚΜΝΟΡΤΥΧΖοıɡɑℓ",
    "aeopcyxijsdqwhkmtbhAEOPCYXIJSKMTBHaopviktuABEHIKMNOPTYXZoigal",
)
INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
"""Characters without a width, which hide a name from searches and from nobody's eyes."""
_DROP_INVISIBLE = dict.fromkeys(map(ord, INVISIBLE))


def is_secret_key(key: str, *, number: bool = False, followed: bool = True) -> bool:
    """Whether a value under this name is hidden. ``number`` says that the value is one.

    Without ``followed``, unknown words after the secret one are prose: "token for the night" is no name.
    """
    kind = _kind_of(key[-MAX_KEY:], followed)
    return kind == "secret" or (kind == "countable" and not number)


def joined(key: str) -> str:
    """The name without case, separators and disguise."""
    return "".join(words_of(key))


def words_of(key: str) -> list[str]:
    """The words of a name, in small Latin letters where they look like such."""
    if "%" in key:
        key = unquote(key)
    if "\\u" in key:
        key = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), key)
    if not key.isascii():
        key = _folded(key)
    return [word.casefold() for word in _WORD.findall(key)]


def _folded(key: str) -> str:
    spread = unicodedata.normalize("NFKD", key.translate(_LOOK_ALIKES).translate(_DROP_INVISIBLE))
    return "".join(letter for letter in spread if not unicodedata.combining(letter)).translate(_LOOK_ALIKES)


@lru_cache(maxsize=4096)
def _kind_of(key: str, followed: bool) -> str:
    words = words_of(key)
    return _kind_at_the_end(list(words)) or (_kind_followed(words) if followed else "")


def _kind_at_the_end(words: list[str]) -> str:
    while words:
        name = "".join(words)
        if words[-1] in _WHOLE or name.endswith(_ENDS):
            return "secret"
        if words[-1] in _COUNTABLE:
            return "countable"
        for place in _PLACE_ENDS:
            if name.endswith(place) and name.removesuffix(place).endswith(_STRONG_ENDS):
                return "secret"
        if words[-1] not in _TAIL and not words[-1].isdigit():
            return ""
        words.pop()
    return ""


def _kind_followed(words: list[str]) -> str:
    """A secret word with others after it is one still, unless they say that it is about something else."""
    for after in range(1, min(_MAX_AFTER, len(words) - 1) + 1):
        if words[-after] in _ABOUT_IT or words[-after].endswith("ed"):
            return ""
        if "".join(words[:-after]).endswith(_STRONG_ENDS):
            return "countable"
    return ""
