"""``jobs.workflow``: a named graph of jobs, written whole at the end of a block, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import structs

from sloppyjobs.domain import options
from sloppyjobs.domain import payload as payloads
from sloppyjobs.domain.dependencies import After, Dependency, FlowJob, Result, dependencies
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.workflows import MOST_EDGES, MOST_JOBS, NewWorkflow, check_graph
from sloppyjobs.enqueue.asynchronous import run_from_coroutine
from sloppyjobs.enqueue.option_rules import METADATA_LIMIT, OPTIONS
from sloppyjobs.enqueue.option_types import FlowOptions
from sloppyjobs.enqueue.request import NewJobs, is_asynchronous
from sloppyjobs.errors import InvalidWorkflow
from sloppyjobs.internals import Internals

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

Parent = Job[Any] | FlowJob | str | After
_ELSEWHERE = {"depends_on": "after", "depends_on_any": "any"}

Write = Callable[..., list[Job]]
"""Writes jobs, in the transaction of a session or connection where one is given."""


class Flow:
    """A workflow that is being put together. Use it in a ``with`` block, or in an ``async with`` block.

    The end of the block writes everything, in one transaction or in the caller's; an exception in the block writes
    nothing. Afterwards ``jobs`` holds what was written.
    """

    def __init__(
        self,
        new: NewWorkflow,
        make: Callable[..., NewJob],
        write: Write,
        session: Any = None,
        connection: Any = None,
    ) -> None:
        self._new = new
        self._make = make
        self._write = write
        self._session = session
        self._connection = connection
        self._added: list[NewJob] = []
        self._edges = 0
        self._closed = False
        self._jobs: list[Job] = []

    @property
    def id(self) -> str:
        """The id under which it is written: ``jobs.admin.get_workflow(flow.id)``."""
        return self._new.id

    @property
    def name(self) -> str:
        """Its name."""
        return self._new.name

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Its jobs, in the order in which they were added; none before the block has ended."""
        return tuple(self._jobs)

    def add(
        self,
        name: str,
        payload: Any = None,
        *,
        after: Parent | Sequence[Parent] = (),
        on: str = "success",
        any: bool = False,
        when: Result | None = None,
        **options: Unpack[FlowOptions],
    ) -> FlowJob:
        """Add a job that starts when those in ``after`` have ended; the answer can stand in ``after`` of later ones.

        ``after`` names jobs of this workflow, or jobs that are there already, by themselves or by their ids. Each must
        end as ``on`` says: "success", "failure" or "always"; with ``when``, succeed with such a result; an ``After``
        says it for one of them. With ``any`` one of them is enough. ``options`` are those of ``enqueue``. Raises
        ``UnknownJob``, ``InvalidPayload``, ``InvalidOption`` or ``InvalidWorkflow``.
        """
        if self._closed:
            raise InvalidWorkflow(f"the workflow {self.name!r} is closed: its block has ended")
        if len(self._added) == MOST_JOBS:
            raise InvalidWorkflow(f"the workflow {self.name!r} has {MOST_JOBS:,} jobs already: divide it")
        parents = self._parents(after, on, when)
        given = self._given(options, parents, any)
        self._edges += len(parents)
        if self._edges > MOST_EDGES:
            raise InvalidWorkflow(f"the workflow {self.name!r} has more than {MOST_EDGES:,} dependencies")
        new = self._make(name, payload, given)
        terms = structs.replace(new.terms, workflow_id=self.id, depends_on=parents, depends_on_any=any)
        self._added.append(structs.replace(new, terms=terms))
        return FlowJob(new.id, new.terms.name, self.id)

    def _given(self, chosen: Mapping[str, Any], parents: Sequence[Dependency], any_parent: bool) -> dict[str, Any]:
        accepted = OPTIONS.keys() - _ELSEWHERE.keys()
        for option in chosen:
            if option in _ELSEWHERE:
                raise options.refuse(option, chosen[option], f"in a workflow this is {_ELSEWHERE[option]}=")
            if option not in accepted:
                raise options.unknown(option, accepted, "add")
        if options.one_of("any", any_parent, (True, False)) and not parents:
            raise options.refuse("any", any_parent, "says something of the jobs in after: pass after as well")
        return {"correlation_id": self._new.correlation_id, **chosen}

    def _parents(self, after: Any, on: str, when: Result | None) -> tuple[Dependency, ...]:
        """The jobs to wait for, each with how it must end."""
        one = isinstance(after, str | Job | FlowJob | After)
        if not one and not isinstance(after, list | tuple | set | frozenset):
            raise options.refuse("after", after, "must be jobs of this workflow, other jobs, their ids, or After(job)")
        options.one_of("on", on, ("success", "failure", "always"))
        given = [after] if one else list(after)
        for option, value, usual in (("on", on, "success"), ("when", when, None)):
            if value != usual and not given:
                raise options.refuse(option, value, "says something of the jobs in after: pass after as well")
        for parent in given:
            named = parent.job if isinstance(parent, After) else parent
            if isinstance(named, FlowJob) and named.flow_id != self.id:
                raise InvalidWorkflow(
                    f"after names {named!r}, which is of another workflow: write that one first, and pass its jobs"
                )
        return dependencies([parent if isinstance(parent, After) else After(parent, on, when) for parent in given])

    def _whole(self) -> NewWorkflow:
        """What is to be written, checked."""
        edges = check_graph(self.name, self._added)
        return structs.replace(self._new, jobs=len(self._added), edges=edges)

    def _begin(self) -> Flow:
        if self._closed or self._added:
            raise InvalidWorkflow(f"the workflow {self.name!r} has been written already: make another one")
        return self

    def __enter__(self) -> Flow:
        for option, given, wrong in (
            ("session", self._session, is_asynchronous(self._session)),
            ("connection", self._connection, hasattr(self._connection, "sync_connection")),
        ):
            if wrong:
                raise options.refuse(option, given, "is asynchronous: use `async with jobs.workflow(...)`")
        return self._begin()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._closed = True
        if kind is None:
            self._jobs = self._write(self._added, self._whole(), session=self._session, connection=self._connection)

    async def __aenter__(self) -> Flow:
        return self._begin()

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._closed = True
        if kind is None:
            work = partial(self._write, self._added, self._whole())
            self._jobs = await run_from_coroutine(work, self._session, self._connection)


class WorkflowJobs:
    """What ``Jobs`` offers for graphs of jobs."""

    _internals: Internals
    _new_jobs: Callable[[], NewJobs]
    _insert_flow: Write

    @options.known_only("workflow")
    def workflow(
        self,
        name: str,
        *,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: Session | scoped_session[Any] | AsyncSession | async_scoped_session[Any] | None = None,
        connection: Connection | AsyncConnection | None = None,
    ) -> Flow:
        """A named graph of jobs: ``with jobs.workflow("nightly") as flow:``, and ``flow.add`` for each job.

        Everything is written at the end of the block, in the transaction of ``session`` or ``connection`` where one is
        given, or nothing is. From coroutines: ``async with``, also with an ``AsyncSession``. Jobs that give no
        ``correlation_id`` have the workflow's.
        """
        if metadata is not None and not isinstance(metadata, Mapping):
            raise options.refuse("metadata", metadata, "must be a mapping")
        new = NewWorkflow(
            self._internals.ids.new("flow"),
            options.text("name", name),
            jobs=0,
            edges=0,
            correlation_id=options.key("correlation_id", correlation_id),
            metadata=payloads.encode(dict(metadata), what="metadata", limit=METADATA_LIMIT) if metadata else None,
        )
        maker, ids = self._new_jobs(), self._internals.ids

        def make(name: str, payload: Any, given: Mapping[str, Any]) -> NewJob:
            return maker.make(name, payload, ids.new("job"), given)

        return Flow(new, make, self._insert_flow, session, connection)
