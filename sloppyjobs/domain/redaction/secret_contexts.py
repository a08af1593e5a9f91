"""Secrets whose name stands elsewhere: before a flag's value, in a pair, in a tag, in an address.

Pure: no I/O, no clock. Searches that must look back or ahead do so for a fixed number of characters.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from sloppyjobs.domain.redaction.secret_names import joined, words_of
from sloppyjobs.domain.redaction.secret_shapes import Span
from sloppyjobs.domain.redaction.secret_text import Named
from sloppyjobs.domain.redaction.secret_values import REDACTED, line_end, looks_random, value_span


def find(text: str, named: Named, *, partial: bool = False) -> Iterator[Iterator[Span]]:
    """Every such secret, by kind. ``partial`` says that the text goes on: what is not closed here may be later."""
    if "@" in text:
        yield _addresses(text)
        yield _bare_addresses(text)
    if "-" in text:
        yield _flags(text, named)
        yield _users(text)
        yield _commands(text)
    if "," in text:
        yield _tuples(text, named)
    if "<" in text or "&lt;" in text:
        yield _elements(text, named, partial)
    yield _pairs(text, named)
    yield _reversed_pairs(text, named)


# Addresses: the whole run at once, split by hand; looking for its "@" by pattern would be quadratic.
_URL = re.compile(r"""://[^\s"'<>`]++""")
_OUTSIDE_USER = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{1,5}[/?#]")
# Without a scheme, only before a port or a path: "mailto:ann@example.com" is no password.
_NO_SCHEME = re.compile(
    r"""(?<![\w.@:\-])[\w.\-%]{1,64}+:([^\s@/:"'<>]{1,200}+)@(?!sha[0-9])[\w.\-\[\]]{1,128}+(?=:[0-9]|/)"""
)
# Words that stand in for a password where the user is the token, and the other way round.
_NO_PASSWORD = frozenset(("x-oauth-basic", "x-token-auth"))
_PLAIN_USER_WORDS = "x-access-token oauth2 oauth token git gitlab-ci-token x-token-auth api apikey user"
_PLAIN_USER = frozenset(_PLAIN_USER_WORDS.split())


def _addresses(text: str) -> Iterator[Span]:
    for match in _URL.finditer(text):
        start = match.start() + 3
        least = 12 if text[max(0, match.start() - 5) : match.start()].lower().endswith(("http", "https")) else 20
        for piece in text[start : match.end()].split("://"):
            yield from _credentials(piece, start, least)
            start += len(piece) + 3


def _credentials(piece: str, start: int, least: int) -> Iterator[Span]:
    info, at, _ = piece.rpartition("@")
    user, colon, password = info.partition(":")
    if not at or _OUTSIDE_USER.search(user) or (colon and _PORT.match(password)):
        return
    token = user.lower() not in _PLAIN_USER and (
        (len(user) >= least and looks_random(user)) or len(user) >= 32 or password in _NO_PASSWORD
    )
    if token and user and user != REDACTED:
        yield start, start + len(user)
    if password and password not in _NO_PASSWORD and password != REDACTED:
        yield start + len(user) + 1, start + len(info)


def _bare_addresses(text: str) -> Iterator[Span]:
    for match in _NO_SCHEME.finditer(text):
        if match[1] != REDACTED:
            yield match.span(1)


# Command lines: as one text, and as the list of their words.
_FLAG = re.compile(r"""(?<![\w\-])(--?[A-Za-z][\w\-]{0,80}+)(?:["'][ \t]{0,4}+,\s{0,20}+|[ \t]{1,20}+)(?=[^\s\-])""")
_NO_VALUE_WORDS = "no without skip ask disable enable require show hide prompt"
_NO_VALUE = frozenset(_NO_VALUE_WORDS.split())
_USER = re.compile(
    r"""(?<![\w\-])(?:-u|--user|--proxy-user|--auth|-a)(?:["'][ \t]{0,4}+,\s{0,20}+["']|[ \t=]{1,4}+["']?)"""
    r"""([^\s:"',/]{1,100}+):([^\s"',]{1,400}+)"""
)
# Which letter means a password depends on the program.
_PROGRAM = re.compile(
    r"(?<![\w\-])(?:(?P<p>mysql\w{0,12}|mariadb[\w\-]{0,12})|(?P<p_>sshpass|mongo\w{0,8}|(?:docker|podman|buildah|oras|skopeo|az)"
    r" login)|(?P<a_>redis-cli)|(?P<w_>ldap[a-z]{2,8})|(?P<P_>sqlcmd|bcp))(?!\w)"
)
_SEPARATOR = r"""(?>(?:["']?[ \t,=]{1,4}+["']?)?)"""
_LETTER = {
    group: re.compile(rf"""(?<=[\s"'])-{group[0]}{_SEPARATOR if group[1:] else ""}([^\s"',\-][^\s"',]*+)""")
    for group in ("p", "p_", "a_", "w_", "P_")
}


def _flags(text: str, named: Named) -> Iterator[Span]:
    for match in _FLAG.finditer(text):
        words = words_of(match[1])
        if not words or words[0] in _NO_VALUE or not named(match[1]):
            continue
        start, end = value_span(text, match.end())
        found = text[start : min(end, start + 20)]
        if start < end and not (found.isdigit() and not named(match[1], number=True)):
            yield start, end


def _users(text: str) -> Iterator[Span]:
    for match in _USER.finditer(text):
        if not (match[1].isdigit() and match[2].isdigit()):
            yield match.span(2)


def _commands(text: str) -> Iterator[Span]:
    done = 0
    for match in _PROGRAM.finditer(text):
        if match.start() < done:
            continue
        done = line_end(text, match.end())
        for flag in _LETTER[match.lastgroup or "p"].finditer(text, match.end(), done):
            yield flag.span(1)


# Pairs: ('X-Api-Key', 'S'), [["Authorization", "S"]], {"name": "DB_PASSWORD", "value": "S"}.
_TUPLE = re.compile(
    r"""(?:\(|[\[,]\s{0,40}+\[)\s{0,40}+b?(\\{0,8}["'])([\w\-. %/]{1,128}+)\1\s{0,20}+,\s{0,40}+(?=b?\\{0,8}["'])"""
)
_TUPLE_END = re.compile(r"""\\{0,8}["']\s{0,40}+,?+\s{0,40}+[)\]]""")
_LONG = 2_000
_SAYS_NAME = r"name|key|k|field|header|variable|var|env|param|parameter|option|attribute|attr|property|setting|type"
_SAYS_VALUE = r"value|val|v|content|data|default|input"
_GAP = r"""\\{0,8}["']?\s{0,4}+[:=]>?\s{0,4}+"""
_PAIR = re.compile(
    rf"""(?i)(?<![\w\-])({_SAYS_NAME}){_GAP}b?\\{{0,8}}["']?([\w\-./]{{1,128}}+)\\{{0,8}}["']?\s{{0,40}}+[,;]?+\s{{0,40}}+"""
    rf"""\\{{0,8}}["']?(?:{_SAYS_VALUE}){_GAP}"""
)
_PAIR_REVERSED = re.compile(
    rf"""(?i)(?<![\w\-])(?:{_SAYS_VALUE}){_GAP}b?(?:\\{{0,8}}["']([^"'\\\n]{{1,500}}+)\\{{0,8}}["']|([^\s"',;:=&]{{1,500}}+))"""
    rf"""\s{{0,4}}+[,;]\s{{0,40}}+\\{{0,8}}["']?({_SAYS_NAME}){_GAP}b?\\{{0,8}}["']?([\w\-./]{{1,128}}+)"""
)


def names_secret(kind: str, name: str, named: Named) -> bool:
    """Whether a pair's name promises a secret; as a type, "token" says nothing."""
    return named(name) and (kind.lower() != "type" or not joined(name).endswith(("token", "key", "session")))


def _tuples(text: str, named: Named) -> Iterator[Span]:
    for match in _TUPLE.finditer(text):
        if named(match[2]):
            start, end = value_span(text, match.end())
            # A long one is hidden unseen: looking for the end of each of many would be quadratic.
            if end - start > _LONG or (start < end and _TUPLE_END.match(text, end)):
                yield start, end


def _pairs(text: str, named: Named) -> Iterator[Span]:
    for match in _PAIR.finditer(text):
        if names_secret(match[1], match[2], named):
            start, end = value_span(text, match.end())
            if start < end:
                yield start, end


def _reversed_pairs(text: str, named: Named) -> Iterator[Span]:
    for match in _PAIR_REVERSED.finditer(text):
        if names_secret(match[3], match[4], named):
            yield match.span(1 if match[1] else 2)


# Elements: <password>S</password>, <entry key="password">S</entry>; also with the brackets as entities.
_OPENING = re.compile(r"(?:<|&lt;)((?:[\w.\-]{1,64}+:)?[\w.\-]{1,128}+)([ \t\r\n][^<>&]{0,1000}+)?(?:(?<!/)>|&gt;)")
_CLOSING = re.compile(r"(?:<|&lt;)/([\w.\-:]{1,193})")
_TAG_NAME = re.compile(rf"""(?i)(?<![\w\-])(?:{_SAYS_NAME}|id)\s{{0,4}}=\s{{0,4}}["']?([\w\-./]{{1,128}})""")


def _elements(text: str, named: Named, partial: bool) -> Iterator[Span]:
    ends: dict[str, list[int]] = {}
    for closing in _CLOSING.finditer(text):
        ends.setdefault(closing[1], []).append(closing.start())
    for match in _OPENING.finditer(text):
        if not named(match[1]) and not any(named(one[1]) for one in _TAG_NAME.finditer(match[2] or "")):
            continue
        closings = ends.get(match[1], [])
        place = bisect_left(closings, match.end())
        # Without its end, "<token>" is a placeholder in a usage line.
        if place < len(closings) and closings[place] > match.end():
            yield match.end(), closings[place]
        elif place == len(closings) and partial:
            yield match.end(), len(text)
