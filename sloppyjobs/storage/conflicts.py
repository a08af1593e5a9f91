"""Write conflicts: what was decided by a read does not hold any more when it is written.

Locks keep that from happening where the database has them. Where it has none, the condition of each update decides.
"""

from __future__ import annotations


class Conflict(Exception):
    """A row has changed between the read and the write: the transaction is undone and run again."""


def all_changed(changed: int, meant: int) -> None:
    """Raise ``Conflict`` unless a conditional statement changed all the rows that it was meant to change."""
    if changed != meant:
        raise Conflict(f"{meant - changed} of {meant} rows have been changed by others meanwhile")
