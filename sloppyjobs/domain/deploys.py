"""Deploys of an application: what a version and a note may be. Pure: no I/O, no clock."""

from __future__ import annotations

import unicodedata

from sloppyjobs.domain import options

VERSION_LENGTH = options.NAME_LENGTH
NOTE_LENGTH = 500
VERSION_VARIABLE = "SLOPPYJOBS_APP_VERSION"
"""Where the environment, and the configuration of a Flask application, name the application's version."""


def app_version(option: str, value: object) -> str:
    """A version as it is shown in charts and lists: 1 to 128 characters on one line, without invisible ones."""
    return _line(option, value, VERSION_LENGTH, ("Cc", "Cf", "Zl", "Zp"))


def note(option: str, value: object) -> str | None:
    """What somebody says about a deploy, up to 500 characters on one line; None for nothing."""
    if value is None or value == "":
        return None
    return _line(option, value, NOTE_LENGTH, ("Cc", "Zl", "Zp"))


def _line(option: str, value: object, longest: int, refused: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise options.refuse(option, value, "must be text")
    given = value.strip(" ")
    accepted = f"must have 1 to {longest} characters on one line"
    if len(given) > longest:
        raise options.refuse(option, value, f"{accepted}; this has {len(given):,}")
    kinds = {unicodedata.category(character) for character in given}
    if not kinds - {"Zs", "Cf"}:
        raise options.refuse(option, value, f"{accepted}, and not only blanks")
    if kinds & {*refused, "Cs"}:
        raise options.refuse(option, value, f"{accepted}, without control characters or lone surrogates")
    return given
