"""Secrets that are known by their shape alone: keys in PEM, JWTs, and tokens that their issuers mark with a prefix.

Pure: no I/O, no clock. Every search takes time in proportion to the text: a pattern either fails within a fixed
number of characters, or starts only where a run of characters starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]
"""Where a secret starts and ends in a text."""


def find(text: str) -> Iterator[Span]:
    """Every secret that can be seen without knowing its name."""
    if "-----BEGIN" in text:
        yield from _pem(text)
    if "eyJ" in text:
        yield from _json_tokens(text)
    for match in _SCHEME.finditer(text):
        if not _is_prose(match[1].lower(), match[2]):
            yield match.span(2)
    for match in _TOKENS.finditer(text):
        yield match.span()
    for match in _HOOKS.finditer(text):
        yield match.span(1)


def has_token(run: str) -> bool:
    """Whether a run of characters without a blank has an issuer's token in it, or an address that lets anybody in."""
    return _TOKENS.search(run) is not None or _HOOKS.search(run) is not None


# One line for each issuer: the fixed start, and how much of the rest must follow. Where a token is longer than
# that, everything goes that could be part of it. Each is told from words by its prefix or by its length.
_PREFIXES = (
    r"A(?:KIA|SIA|ROA|IDA|BIA|CCA)[A-Z0-9]{12}",  # AWS
    r"LTAI[A-Za-z0-9]{12}",  # Alibaba Cloud
    r"AIza[\w\-]{30}",  # Google: API keys, OAuth secrets and tokens
    r"GOCSPX-[\w\-]{16}",
    r"ya29\.[\w\-]{16}",
    r"1//0[\w\-]{24}",
    r"gh[pousr]_[A-Za-z0-9]{16}",  # GitHub
    r"github_pat_\w{16}",
    r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[\w\-]{16}",  # GitLab
    r"GR1348941[\w\-]{16}",
    r"ATATT3[\w\-]{20}",  # Atlassian
    r"ATBB[A-Za-z0-9]{20}",
    r"xox[abceoprs](?:\.xox[abp])?-[A-Za-z0-9\-]{8}",  # Slack
    r"xapp-[0-9]-[A-Za-z0-9\-]{8}",
    r"[0-9]{8,10}:AA[\w\-]{30}",  # Telegram bots
    r"[MNO][\w\-]{23,27}\.[\w\-]{6}\.[\w\-]{27}",  # Discord bots
    r"hv[sbr]\.[\w\-]{20}",  # HashiCorp Vault
    r"[sbr]\.(?=[A-Za-z]{0,23}[0-9])[A-Za-z0-9]{24}(?![A-Za-z0-9])",
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w\-]{20}",  # Terraform
    r"sk-[\w\-]{16}",  # OpenAI, Anthropic, OpenRouter
    r"(?:gsk|pplx|xai|r8|hf|tgp|nvapi)[_\-][A-Za-z0-9]{24}",  # other models
    r"[sr]k_(?:live|test)_\w{8}",  # Stripe
    r"whsec_[\w+/]{16}",
    r"sq0(?:atp|csp|idp)-[\w\-]{16}",  # Square
    r"(?:access_token\$(?:production|sandbox)\$)[a-z0-9]{8}",  # Braintree
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{16}",  # Shopify
    r"SG\.[\w\-]{16}",  # SendGrid
    r"xkeysib-[a-f0-9]{32}",  # Brevo
    r"key-[a-f0-9]{32}",  # Mailgun
    r"[a-f0-9]{32}-us[0-9]{1,2}",  # Mailchimp
    r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{16}",  # Resend
    r"SK[a-f0-9]{32}",  # Twilio
    r"npm_[A-Za-z0-9]{30}",  # package registries
    r"pypi-[\w\-]{30}",
    r"rubygems_[a-f0-9]{32}",
    r"dckr_pat_[\w\-]{16}",
    r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    r"do[opr]_v1_[a-f0-9]{32}",  # DigitalOcean
    r"dapi[a-f0-9]{32}",  # Databricks
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.\-]{20}",  # Doppler
    r"HRKU-[\w\-]{20}",  # Heroku
    r"FlyV1 [\w\-]{20}",  # Fly.io
    r"fo1_[\w\-]{20}",
    r"gl(?:c|sa)_[\w+/]{20}",  # Grafana
    r"NRAK-[A-Z0-9]{20}",  # New Relic
    r"sntry[su]_[\w+/=]{20}",  # Sentry
    r"pscale_(?:tkn|pw|oauth)_[\w\-.]{20}",  # PlanetScale
    r"sb[pv]?_(?:publishable_|secret_)?[A-Za-z0-9_]{30}",  # Supabase
    r"PMAK-[a-f0-9\-]{24}",  # Postman
    r"pul-[a-f0-9]{32}",  # Pulumi
    r"tskey-[a-z]{1,20}-[\w\-]{12}",  # Tailscale
    r"lin_(?:api|oauth)_[A-Za-z0-9]{20}",  # Linear
    r"ntn_[A-Za-z0-9]{24}",  # Notion
    r"figd_[\w\-]{20}",  # Figma
    r"EAA[A-Za-z0-9]{40}",  # Meta
    r"AKC[A-Za-z0-9]{24}",  # JFrog
    r"v1\.0-[a-f0-9]{24}-[a-f0-9]{20}",  # Cloudflare
    r"AGE-SECRET-KEY-1[A-Z0-9]{20}",  # age
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{16}",  # a key in PEM, in base64
    r"[A-Za-z0-9_~.\-]{3}[0-9]Q~[\w~.\-]{24}",  # Microsoft Entra
)
# The rest is everything that could be part of a token, so that no part of it looks like the start of another.
_TOKENS = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_PREFIXES)})[\w\-./+=]*+")

# Addresses that let anybody in who knows them; the host stays readable.
_HOOKS = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/"
    r"|\.webhook\.office\.com/|outlook\.office\.com/webhook/|chat\.googleapis\.com/v1/spaces/"
    r"|api\.telegram\.org/(?:file/)?bot|hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/"
    r"|\.logic\.azure\.com(?::443)?/workflows/)([^\s\"'<>`]{6,}+)"
)

_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def _pem(text: str) -> Iterator[Span]:
    position = 0
    while begin := _PEM_BEGIN.search(text, position):
        end = _PEM_END.search(text, begin.end())
        # Without an end the key may go on as far as the text does.
        position = end.end() if end else len(text)
        yield begin.start(), position


_DOTTED = re.compile(r"(?<![\w\-.])[\w\-.]*?eyJ[\w\-.]*+")
_LEAST_HEADER, _LEAST_BODY, _LEAST_ALONE = 8, 4, 30


def _json_tokens(text: str) -> Iterator[Span]:
    """JWTs, and other JSON in base64: a part of a dotted run that has an object's beginning in it."""
    for run in _DOTTED.finditer(text):
        start = run.start()
        while start < run.end():
            dot = text.find(".", start, run.end())
            stop = dot if dot >= 0 else run.end()
            begin = text.find("eyJ", start, stop)
            if begin >= 0 and (
                stop - begin >= _LEAST_ALONE
                or (dot >= 0 and stop - begin >= _LEAST_HEADER and run.end() - stop > _LEAST_BODY)
            ):
                yield begin, run.end()
                break
            start = stop + 1


_SCHEME = re.compile(r"(?i)(?<![A-Za-z0-9])(bearer|basic)[ \t]{1,8}([A-Za-z0-9+/=._~\-]++)")
# Words that follow a scheme's name in prose: "bearer of", "Basic authentication", "Bearer realm=".
_AFTER_SCHEME_WORDS = (
    "of is was or and with for in must token tokens auth authentication authorization scheme credentials realm "
    "realm= format header access"
)
_AFTER_SCHEME = frozenset(_AFTER_SCHEME_WORDS.split())
_NOT_PROSE = re.compile(r"[^a-z]")


def _is_prose(scheme: str, value: str) -> bool:
    word = value.rstrip(".")
    # "Basic" begins many a sentence; credentials in base64 are hardly ever lower-case letters only.
    return word.lower() in _AFTER_SCHEME or (scheme == "basic" and not _NOT_PROSE.search(word))
