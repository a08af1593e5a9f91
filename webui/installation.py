"""What this installation is called, and the others that the same application shows."""

from __future__ import annotations

from typing import NamedTuple

from flask import Blueprint, current_app, request, url_for
from werkzeug.routing import BuildError

_LONGEST = 40
"""Characters of a name that are shown."""
_COLOURS = {
    "dead": ("production", "prod", "live"),
    "retrying": ("staging", "stage", "preview", "test", "qa"),
}
"""Classes of colours, and the environments that have them."""
_OTHER_COLOUR = "scheduled"


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
        """The class of the environment's colour."""
        word = self.environment.lower()
        return next((colour for colour, words in _COLOURS.items() if word in words), _OTHER_COLOUR)


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
