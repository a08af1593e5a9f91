"""Forms that are refused in place: what was typed stays, and the field that is wrong says so.

A view that refuses calls ``refused(limit="Write a number from 1 to 41.")`` and renders the page of the form again with
status 422 and this value; the page draws its fields with ``templates/sloppyjobs/field-parts.html``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from flask import request

REFUSED = 422
"""The status of a page whose form was refused."""
LONGEST = 2_000
"""Characters of a field that are shown again."""
_NONE: Mapping[str, str] = MappingProxyType({})


class Form(NamedTuple):
    """What was typed into a form, and what is wrong with it, by the names of its fields."""

    typed: Mapping[str, str] = _NONE
    errors: Mapping[str, str] = _NONE
    of: str = ""
    """Which form of the page it is, where there are several."""

    def about(self, of: str) -> Form:
        """This form where it is the one of that name; an untouched one otherwise."""
        return self if self.of == of else EMPTY

    def value(self, name: str, untouched: object = "") -> str:
        """What was typed into a field; ``untouched`` in a form that was not sent."""
        return self.typed.get(name, "") if self.typed else str(untouched)


EMPTY = Form()
"""A form that was not sent."""


def refused(of: str = "", **errors: str) -> Form:
    """The form of this request, with a sentence for each field that is wrong."""
    return Form({name: value[:LONGEST] for name, value in request.form.items()}, errors, of)
