"""What this installation is called, and the others that the same application shows."""

from __future__ import annotations

import re
from typing import NamedTuple

from flask import Blueprint, current_app, request, url_for
from werkzeug.routing import BuildError

_LONGEST = 40
"""Characters of a name that are shown."""
_COLOURS = {
    "retrying": ("staging", "stage", "preview", "test", "qa", "pre", "non"),
    "dead": ("production", "prod", "live"),
}
"""Classes of colours, and the words of the environments that have them; the first that is found counts."""
_OTHER_COLOUR = "scheduled"
_WORD = re.compile(r"[a-z]+")


class Installation(NamedTuple):
    """The name of an installation, and where it stands: ``Shop`` and ``production``. Both may be empty."""

    title: str = ""
    environment: str = ""

    @classmethod
    def named(cls, title: str, environment: str) -> Installation:
        """With names that fit into the sidebar."""
        return cls(_short(title), _short(environment))

    @property
    def colour(self) -> str:
        """The class of the environment's colour: that of ``production`` for ``Production EU``, too."""
        given = set(_WORD.findall(self.environment.lower()))
        return next((colour for colour, words in _COLOURS.items() if given.intersection(words)), _OTHER_COLOUR)


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


class Place(NamedTuple):
    """An installation that the viewer can go to."""

    installation: Installation
    url: str
    current: bool


class InstallationBlueprint(Blueprint):
    """A blueprint of ours, which the others of its application find."""

    installation = Installation()


def places() -> list[Place]:
    """The installations of this application that have a title, in the order of their mounting.

    One whose address needs values, such as a tenant's name, is left out: only its own pages know them.
    """
    found = []
    for name, blueprint in current_app.blueprints.items():
        if isinstance(blueprint, InstallationBlueprint) and blueprint.installation.title:
            try:
                url = url_for(f"{name}.overview")
            except BuildError:
                continue
            found.append(Place(blueprint.installation, url, name == request.blueprint))
    return found
