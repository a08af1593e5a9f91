"""The options of an enqueue, as type checkers see them; ``option_rules`` checks their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from sloppyjobs.domain.dependencies import After, FlowJob
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import Retry

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session, scoped_session

Duration = float | timedelta
Parents = Job[Any] | FlowJob | str | After | Sequence[Job[Any] | FlowJob | str | After]
"""Jobs to wait for."""
Moment = datetime | str


class _Own(TypedDict, total=False):
    queue: str | None
    priority: int | None
    idempotency_key: str | None
    max_attempts: int | None
    retry: Retry | None
    timeout: Duration | None
    correlation_id: str | None
    metadata: Mapping[str, Any] | None
    principal: str | None
    tags: Iterable[str] | None
    version: int | None
    expires: Duration | None
    business_key: str | None
    on_conflict: Literal["return", "reject", "replace"] | None
    unique: Literal["live", "pending"] | None
    unique_for: Duration | None
    resource: str | None
    partition: str | int | None


class _Terms(_Own, total=False):
    depends_on: Parents | None
    depends_on_any: bool | None


class _Transaction(TypedDict, total=False):
    session: Session | scoped_session[Any] | None
    connection: Connection | None


class EnqueueOptions(_Terms, total=False):
    """What can be asked for of one job: the third part of an item of ``enqueue_many``."""

    delay: Duration | None
    run_at: Moment | None


class FlowOptions(_Own, total=False):
    """The same for a job of a workflow, whose dependencies are given by themselves."""

    delay: Duration | None
    run_at: Moment | None


class CallOptions(EnqueueOptions, _Transaction, total=False):
    """What a call that enqueues one job takes."""


class DelayedOptions(_Terms, _Transaction, total=False):
    """The same for a call that says itself when the job is due."""


Item = tuple[str] | tuple[str, Any] | tuple[str, Any, EnqueueOptions | Mapping[str, Any]]
"""A job of ``enqueue_many``.

A list of items that is built in a variable has plain dictionaries in it, which a checker does not take for options:
they are checked when the call is made.
"""
