"""The pages in the navigation, in their groups, each with the key that follows ``g``."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One line of the navigation: the endpoint (also the name of its icon), its words, and its key."""

    endpoint: str
    text: str
    key: str


GROUPS: tuple[tuple[Entry, ...], ...] = (
    (Entry("overview", "Overview", "o"), Entry("jobs", "Jobs", "j"), Entry("dead", "Dead", "d")),
    (
        Entry("queues", "Queues", "q"),
        Entry("recurring", "Recurring", "r"),
        Entry("workflows", "Workflows", "f"),
        Entry("batches", "Batches", "b"),
    ),
    (Entry("workers", "Workers", "w"), Entry("limits", "Limits", "m"), Entry("locks", "Locks", "l")),
    (Entry("alerts", "Alerts", "t"), Entry("archive", "Archive", "v"), Entry("audit", "Audit", "a")),
)
COUNTED = ("dead", "workers")
"""The entries that carry a number."""
KEYS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("/",), "find a job"),
    (("j", "k"), "next and previous row"),
    (("x",), "select the row"),
    (("Shift", "x"), "select up to the row"),
    (("Enter",), "open the row"),
    (("?",), "this list"),
)
"""The other keys, as the help lists them."""
