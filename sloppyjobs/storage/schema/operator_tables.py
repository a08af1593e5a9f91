"""The tables of what operators do: deaths by cause, retries of a cause, forms that were sent, rekeys, deploys."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant


def deaths(prefix: str, metadata: MetaData) -> None:
    """Deaths of jobs that were dead and are no more, by cause, queue and hour: a retry does not forget them."""
    Table(
        f"{prefix}job_deaths",
        metadata,
        Column("cause", Word, primary_key=True),
        Column("queue", ByteText, primary_key=True),
        Column("hour", Instant, primary_key=True),
        Column("name", ByteText, nullable=False),
        Column("error_type", KeyText),
        Column("error_frame", KeyText),
        Column("deaths", Integer, nullable=False),
        Column("first_at", Instant, nullable=False),
        Column("last_at", Instant, nullable=False),
    )


def retry_runs(prefix: str, metadata: MetaData) -> None:
    """Retries of a cause of death: a canary, or the rest at a rate."""
    runs = Table(
        f"{prefix}job_retry_runs",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("cause", Word, nullable=False),
        Column("name", ByteText, nullable=False),
        Column("error_type", KeyText),
        Column("error_frame", KeyText),
        # The queues that its actor sees, as JSON; none where that is all of them.
        Column("queues", LongText),
        Column("kind", Word, nullable=False),
        Column("state", Word, nullable=False),
        Column("rate", Number),
        Column("wanted", Integer, nullable=False),
        Column("retried", Integer, nullable=False),
        Column("actor", KeyText),
        Column("reason", LongText),
        Column("created_at", Instant, nullable=False),
        Column("next_at", Instant),
        Column("ended_at", Instant),
        Column("ended_because", LongText),
    )
    c = runs.c
    Index(f"ix_{prefix}job_retry_runs_cause", c.cause, c.created_at, c.id)
    Index(f"ix_{prefix}job_retry_runs_due", c.state, c.next_at)


def retry_members(prefix: str, metadata: MetaData) -> None:
    """The jobs of such a retry, in its order."""
    Table(
        f"{prefix}job_retry_members",
        metadata,
        Column("run_id", ByteText, primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("job_id", ByteText, nullable=False),
        # Its attempts before; more of them means that it was tried again.
        Column("attempt_count", Integer, nullable=False),
    )


def form_keys(prefix: str, metadata: MetaData) -> None:
    """Forms of the admin pages that were sent, and what the first sending was answered."""
    keys = Table(
        f"{prefix}job_form_keys",
        metadata,
        Column("key", ByteText, primary_key=True),
        # Who does what the form asks for: whose row it is, when the answer to its insertion was lost.
        Column("claimed_by", ByteText, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("answer", LongText),
    )
    Index(f"ix_{prefix}job_form_keys_created_at", keys.c.created_at)


def rekeys(prefix: str, metadata: MetaData) -> None:
    """Runs of ``rekey``: how far each is, and when it last moved."""
    rekeys = Table(
        f"{prefix}job_rekeys",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("key_id", ByteText, nullable=False),
        Column("actor", KeyText),
        Column("total", BigInteger, nullable=False),
        Column("examined", BigInteger, nullable=False),
        Column("rewritten", BigInteger, nullable=False),
        Column("changed", BigInteger, nullable=False),
        Column("unreadable", BigInteger, nullable=False),
        Column("started_at", Instant, nullable=False),
        Column("moved_at", Instant, nullable=False),
        Column("finished_at", Instant),
    )
    Index(f"ix_{prefix}job_rekeys_moved", rekeys.c.moved_at, rekeys.c.id)


def deploys(prefix: str, metadata: MetaData) -> None:
    """Deploys of applications, as operators marked them or workers noticed them."""
    deploys = Table(
        f"{prefix}job_deploys",
        metadata,
        # One more than the latest: of two who mark at once, one finds the number taken, and looks again.
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        # Empty where no application was named.
        Column("application", ByteText, nullable=False),
        Column("version", ByteText, nullable=False),
        Column("note", LongText),
        Column("actor", KeyText),
        Column("worker_id", ByteText),
        Column("created_at", Instant, nullable=False),
    )
    Index(f"ix_{prefix}job_deploys_application", deploys.c.application, deploys.c.number)
