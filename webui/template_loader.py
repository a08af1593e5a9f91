"""Templates as they are sent: the indentation that makes them readable in the source is left out."""

from __future__ import annotations

import re
from collections.abc import Callable

from jinja2 import Environment, FileSystemLoader

_INDENTATION = re.compile(r"^[ \t]+(?=[<{])", re.MULTILINE)
"""Before an element or a statement only: a line of text inside ``<pre>`` keeps its own."""


class UnindentedLoader(FileSystemLoader):
    """A loader for templates with one element a line, whose pages are not larger for it."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """The source without the indentation of its elements; line numbers stay."""
        source, path, is_current = super().get_source(environment, template)
        return _INDENTATION.sub("", source), path, is_current
