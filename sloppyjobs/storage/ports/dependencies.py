"""Jobs that wait for other jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.parents import ParentResult
from sloppyjobs.domain.sealed import OpenText
from sloppyjobs.domain.states import Status


class EdgeRow(NamedTuple):
    """The job at the other end of an edge, and what the edge is."""

    job_id: str
    name: str
    queue: str
    status: Status
    needs: str
    """Which end of the parent meets it: ``success``, ``failure`` or ``always``."""
    state: EdgeState


class Neighbours(NamedTuple):
    """What a job waits for, open edges first, and what waits for it, by id."""

    parents: Sequence[EdgeRow]
    children: Sequence[EdgeRow]


class DependencyPort(Protocol):
    """Edges between jobs; a store has it as ``dependencies``."""

    def read_results_by(self, open_text: OpenText) -> None:
        """Read results by this function from now on: encrypted ones, to compare them with what children need."""
        ...

    def parent_results(self, job_id: str) -> Sequence[ParentResult]:
        """The parents of a job, with their results."""
        ...
