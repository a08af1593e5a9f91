"""Routes that share what was parsed work as those that do not."""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.exceptions import NotFound
from werkzeug.routing import BaseConverter, IntegerConverter, Map, Rule


class Doubled(IntegerConverter):
    """Another converter by the name of a known one."""

    def to_python(self, value: str) -> Any:
        return 2 * super().to_python(value)


class Word(BaseConverter):
    """Another pattern by the name of a known one."""

    regex = "[a-z]+"


def _rules() -> Map:
    rules = ["/a/<int:number>", "/b/<int(max=9):number>/<path:rest>", "/c/<word>", "/<any(x, y):which>"]
    return Map([Rule(rule, endpoint=rule) for rule in rules])


def test_the_second_application_is_as_good_as_the_first() -> None:
    for _ in range(3):
        bound = _rules().bind("localhost")
        assert bound.match("/a/12") == ("/a/<int:number>", {"number": 12})
        assert bound.match("/b/9/x/y") == ("/b/<int(max=9):number>/<path:rest>", {"number": 9, "rest": "x/y"})
        assert bound.match("/y") == ("/<any(x, y):which>", {"which": "y"})
        assert bound.build("/b/<int(max=9):number>/<path:rest>", {"number": 3, "rest": "q/r"}) == "/b/3/q/r"
        assert bound.build("/c/<word>", {"word": "ä b"}) == "/c/%C3%A4%20b"
        with pytest.raises(NotFound):
            bound.match("/b/10/x")


def test_a_converter_of_its_own_is_not_taken_for_that_of_another() -> None:
    assert _rules().bind("localhost").match("/a/7")[1] == {"number": 7}
    own = Map(converters={"int": Doubled, "default": Word})
    for rule in ("/a/<int:number>", "/c/<word>"):
        own.add(Rule(rule, endpoint=rule))
    assert own.bind("localhost").match("/a/7")[1] == {"number": 14}
    with pytest.raises(NotFound):
        own.bind("localhost").match("/c/7")
    assert _rules().bind("localhost").match("/a/7")[1] == {"number": 7}
    assert _rules().bind("localhost").match("/c/7")[1] == {"word": "7"}
