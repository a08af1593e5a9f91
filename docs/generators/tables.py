"""The page on the tables: ``python docs/generators/tables.py > docs/reference/tables.md``.

Names, types, keys and indexes come from ``sloppyjobs/storage/schema/tables.py``; only the sentences stand here, and one
that is missing or left over is an error.
"""

from __future__ import annotations

import re
import sys

from sqlalchemy import Dialect, Index, Table
from sqlalchemy.dialects import postgresql

from sloppyjobs.storage.dialects.postgres.schema import STYLE
from sloppyjobs.storage.schema.tables import Tables

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]

INTRODUCTION = """\
# Tables

<!-- Generated: python docs/generators/tables.py > docs/reference/tables.md -->

Everything is kept in these tables, with PostgreSQL's types. On SQLite instants are text of one width
(`2030-01-31T12:00:00.000000Z`), which sorts as it should. `sloppyjobs sql` prints the statements that make them. Read
them as you like; write them only through the library, because a status without its event breaks the promise that the
events of a job give its row. The prefix `sloppy_` and, on PostgreSQL, the schema are options of the storage.

One more table, `sloppy_job_schema`, holds the schema's version and when it was reached.
"""

JOB = {
    "id": "Its id, `job_` and 26 characters that sort by creation.",
    "name": "The name of its definition.",
    "queue": "The queue it waits in.",
    "status": "Where it is in its life; see [events](events.md).",
    "priority": "Higher first, within a queue.",
    "run_at": "Not before this instant.",
    "created_at": "When it was enqueued, by the database's clock.",
    "updated_at": "When its row was last changed by a transition.",
    "attempt_count": "How many attempts have started.",
    "max_attempts": "How many attempts it may have; a retry of a dead job raises it.",
    "timeout_seconds": "How long one attempt may take.",
    "locked_by": "The worker that runs it, while it is `processing`.",
    "locked_until": "When the worker's lease ends unless it is renewed.",
    "idempotency_key": "At most one job has it.",
    "correlation_id": "What ties it to a request or to the job that enqueued it.",
    "schedule_id": "The schedule that enqueued it.",
    "occurrence_at": "For which occurrence of the schedule.",
    "principal": "On whose behalf it was enqueued.",
    "payload": "What the handler gets, as JSON.",
    "retry_policy": "Its retry policy as JSON, where it is not the default.",
    "metadata": "What the application noted, as JSON.",
    "result": "What the handler returned, as JSON.",
    "progress_percent": "How far the handler says it is.",
    "progress_message": "And in words.",
    "progress_fields": "And in fields of the application, as JSON.",
    "followups": "What hangs on it, as a set of bits; none for a plain job.",
    "business_key": "At most one live job has it.",
    "superseded_by": "The job that took its place.",
    "supersedes": "The job whose place it took.",
    "expires_at": "When it is cancelled unless it has started.",
    "tags": "Its tags, as JSON.",
    "waiting_for": "What it waits for, while it is `waiting`: `jobs`, `permit`, `sleep` or `signal`.",
    "workflow_id": "The workflow that it belongs to.",
    "batch_id": "The batch that it belongs to.",
    "resource": "The limit under which it runs.",
    "partition_key": "The partition of the limit.",
    "payload_version": "The version of its payload; NULL for the first.",
    "base_priority": "The priority that it was enqueued with, where its queue has raised it since; NULL else.",
    "error_code": "The [code](errors.md) of the last failure.",
    "error_type": "The exception's class.",
    "error_frame": "The application's module and function in which it was raised.",
    "error_message": "The exception's text, cleaned and truncated.",
    "paused_from": "The status to which `resume` brings it back.",
    "finished_at": "When it ended; retention counts from here.",
}

TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "jobs": ("One row for each job that is not purged.", JOB),
    "attempts": (
        "One row for each time a worker took a job.",
        {
            "job_id": "The job.",
            "attempt_number": "1, 2, 3 …; it never starts again. Handlers see it as `ctx.fence`.",
            "worker_id": "The worker that took it.",
            "status": "`running`, `succeeded`, `failed`, `timed_out`, `lost`, `cancelled`, `snoozed`, `suspended` or"
            " `released`.",
            "started_at": "When it was claimed.",
            "finished_at": "When its end was accepted.",
            "run_seconds": "How long the handler ran, by the worker's clock.",
            "error_code": "Why it did not succeed.",
            "error_type": "The exception's class.",
            "error_frame": "The application's module and function in which it was raised.",
            "error_message": "The exception's text, cleaned and truncated.",
            "traceback": "The traceback, cleaned and truncated.",
        },
    ),
    "events": (
        "One row for each edge that a job took, written in the same transaction as the change itself.",
        {
            "id": "A number that the database gives; it orders the events of a job.",
            "job_id": "The job.",
            "event_type": "What happened; see [events](events.md).",
            "from_status": "The status before; none for `created`.",
            "to_status": "The status after.",
            "attempt_number": "The attempt that it was about.",
            "worker_id": "The worker that reported it.",
            "actor": "Who commanded it.",
            "message": "The reason or the error's text.",
            "created_at": "When.",
        },
    ),
    "steps": (
        "One row for each step, sleep and signal of a job.",
        {
            "job_id": "The job.",
            "kind": "`step`, `sleep` or `signal`.",
            "name": "Its name, which the handler gives.",
            "state": "`done`, `waiting`, `ready` (the handler has not been told yet), `timed_out` or `early`.",
            "attempt_number": "The attempt that did it, or asked for it last.",
            "place": "Its number in the order in which the handler came to them; 0 for a signal nobody has asked for.",
            "created_at": "When the handler first came to it, or when an early signal came.",
            "finished_at": "When it was done, over or there.",
            "wake_at": "When the sleep is over, or the signal times out.",
            "run_seconds": "How long the step's function ran.",
            "size": "Bytes of the result.",
            "result": "The step's result, or the signal's value, as JSON.",
            "token": "Which call sent the signal.",
        },
    ),
    "queues": (
        "One row for each queue that was ever used.",
        {
            "name": "The queue.",
            "created_at": "When it was first seen.",
            "paused_at": "Since when it is paused.",
            "paused_until": "Until when; none for ever.",
            "paused_by": "Who paused it.",
            "pause_reason": "Why.",
            "ageing_seconds": "Seconds of waiting after which the priority of a job rises by one; none for never.",
            "ageing_most": "By how much at most.",
            "ageing_declared_as": "The ageing that code declared last, as JSON.",
            "ageing_application": "The application that declared it.",
            "ageing_vanished_at": "When code stopped declaring it; priorities do not rise since.",
        },
    ),
    "recurring": (
        "One row for each schedule.",
        {
            "id": "Its id.",
            "name": "Its name; there is one of each.",
            "job_name": "Which job it enqueues.",
            "queue": "Into which queue; none for the definition's.",
            "priority": "With which priority; none for the definition's.",
            "payload": "With which payload, as JSON.",
            "job_defaults": "The definition's settings when it was registered, for schedulers that do not know it.",
            "kind": "`cron`, `interval` or `once`.",
            "cron": "The expression of five fields.",
            "interval_seconds": "The interval.",
            "run_once_at": "The instant of a schedule that fires once.",
            "timezone": "The zone in which the expression is read.",
            "misfire": "What happens to missed occurrences: `run-once`, `catch-up-limited` or `ignore`.",
            "catch_up_limit": "How many missed occurrences are caught up at most.",
            "paused": "Whether it is held back.",
            "declared": "Whether the code declares it, as opposed to having registered it once.",
            "application": "Which application declares it.",
            "vanished_at": "When the code stopped declaring it; it does not fire any more.",
            "next_run_at": "The next occurrence.",
            "last_run_at": "The last occurrence that fired.",
            "last_error": "Why it could not fire.",
            "last_error_at": "When that was.",
            "missed": "The occurrences that it passed over lately, and why, as JSON.",
            "created_at": "When it was registered.",
            "updated_at": "When it was last changed.",
        },
    ),
    "workers": (
        "One row for each worker process that was alive not long ago.",
        {
            "id": "Its id, new at every start.",
            "hostname": "Its host.",
            "pid": "Its process.",
            "queues": "The queues it works on, as JSON.",
            "names": "The jobs it has handlers for, as JSON.",
            "concurrency": "How many handlers it runs at once.",
            "heartbeat_seconds": "How often it says that it lives.",
            "version": "Its version of the library.",
            "status": "`running`, `quiet`, `draining` or `stopped`.",
            "running": "How many handlers ran when it last said so.",
            "started_at": "When it started.",
            "heartbeat_at": "When it last said that it lives.",
            "stopped_at": "When it said goodbye.",
            "wanted": "What an operator wants of it: `quiet` or `stop`; none to let it work.",
            "memory": "Bytes of memory of its process; none where that is not known.",
            "done": "Attempts of this process that succeeded.",
            "failed": "Attempts of this process that failed or timed out.",
            "app_version": "The version of the application, where it is known.",
        },
    ),
    "locks": (
        "One row for each named lock that was taken and not released.",
        {
            "name": "The lock.",
            "owner": "Who holds it.",
            "locked_until": "Until when; then it is free.",
            "updated_at": "When it was last taken or extended.",
        },
    ),
    "stats": (
        "Settlements per minute, so that no page counts history.",
        {
            "minute": "The minute.",
            "queue": "The queue.",
            "name": "The job's name.",
            "shard": "Workers count in different rows, so that they never wait for each other.",
            "succeeded": "Attempts that succeeded.",
            "failed": "Attempts that failed, whether they are tried again or not.",
            "dead": "Attempts that left their job dead.",
            "cancelled": "Attempts that ended in a cancellation.",
            "run_seconds": "How long their handlers ran, in sum.",
        },
    ),
    "audit": (
        "One row for each command of an operator.",
        {
            "id": "A number that the database gives.",
            "created_at": "When.",
            "actor": "Who.",
            "action": "What.",
            "target_type": "A job, a queue, a schedule, or jobs in bulk.",
            "target": "Which one.",
            "reason": "Why, in the operator's words.",
            "detail": "Numbers and filters of the command, as JSON.",
        },
    ),
    "keys": (
        "One row for each business key that is taken.",
        {
            "key": "The key.",
            "job_id": "The job that has it.",
            "until_start": "1 where the job gives it up when it starts, 0 where it keeps it until it ends.",
            "reserved_until": "Until when nobody else gets it, even if the job ends sooner.",
            "created_at": "When it was taken.",
        },
    ),
    "expiries": (
        "One row for each job that expires, until that time has come.",
        {"job_id": "The job.", "expires_at": "When."},
    ),
    "tags": (
        "One row for each tag of each job, by which jobs are listed.",
        {"tag": "The tag.", "created_at": "When the job was enqueued.", "job_id": "The job."},
    ),
    "limits": (
        "One row for each [limit](../howto/limits.md).",
        {
            "name": "The resource; jobs name it as theirs.",
            "concurrency": "How many of its jobs run at once in each partition; NULL for any number.",
            "rate": "How many of its jobs start in `per_seconds` in each partition; NULL for any number.",
            "per_seconds": "The span of the rate.",
            "declared": "Whether code declares it.",
            "declared_as": "What the code said last, as JSON.",
            "application": "The application that declares it.",
            "vanished_at": "Since when no code declares it any more; it limits nothing then.",
            "created_at": "When it was written.",
            "updated_at": "When it was changed.",
        },
    ),
    "permits": (
        "One row for each permit that a running job holds. The key is what bounds their number.",
        {
            "resource": "The resource.",
            "partition_key": "The partition; empty for jobs that name none.",
            "slot": "A number below the limit's.",
            "job_id": "The job that holds it.",
            "taken_at": "Since when.",
        },
    ),
    "parked": (
        "One row for each job that waits for a permit, in the order in which they get one.",
        {
            "job_id": "The job.",
            "resource": "The resource.",
            "partition_key": "The partition; empty for jobs that name none.",
            "place": "Its priority with the sign changed.",
            "run_at": "As in the job.",
            "created_at": "As in the job.",
            "released": "1 from its release to its claim, else 0.",
            "released_at": "When it was released.",
        },
    ),
    "buckets": (
        "One row for each partition of a resource with a rate.",
        {
            "resource": "The resource.",
            "partition_key": "The partition; empty for jobs that name none.",
            "full_at": "When its bucket of tokens is full again.",
        },
    ),
    "dependencies": (
        "One row for each job that another one waits for, or has waited for.",
        {
            "child_id": "The job that waits.",
            "parent_id": "The job that it waits for.",
            "needs": "Which end of the parent it needs: `success`, `failure` or `always`.",
            "result_test": "What the result of the parent must be, as JSON.",
            "state": "0 while it is open, 1 where it is met, 2 where the parent has ended otherwise.",
        },
    ),
    "workflows": (
        "One row for each named graph of jobs, until the last of its jobs is purged.",
        {
            "id": "Its id, `flow_` and 26 characters that sort by creation.",
            "name": "Its name.",
            "status": "`open` while its jobs say how it stands; then how it has ended for good.",
            "jobs": "How many jobs were written with it.",
            "edges": "How many dependencies they have.",
            "correlation_id": "What its jobs have that give none.",
            "metadata": "What the application noted, as JSON.",
            "counts": "How many of its jobs had which status when it ended, as JSON.",
            "created_at": "When it was written, by the database's clock.",
            "finished_at": "When its last job ended.",
            "cancelled_at": "When somebody cancelled it as a whole.",
            "cancelled_by": "Who it was.",
            "cancel_reason": "And why.",
        },
    ),
    "batches": (
        "One row for each batch, until 90 days after its end.",
        {
            "id": "Its id, `batch_` and 26 characters that sort by creation.",
            "name": "Its name.",
            "status": "`open`, `running`, `succeeded`, `failed` or `cancelled`.",
            "success_rate": "Which part of its jobs must succeed for it to succeed.",
            "callbacks": "The jobs that it calls for, by kind, as JSON.",
            "metadata": "What the application noted, as JSON.",
            "created_at": "When it was opened.",
            "updated_at": "When its row was last changed.",
            "sealed_at": "Since when nothing can be added from outside.",
            "finished_at": "When it ended; none while it has not, or not again.",
            "first_ended_at": "When it ended for the first time.",
            "first_status": "And how.",
            "succeeded_at": "When it succeeded for the first time.",
            "cancelled_at": "When it was cancelled.",
            "action": "`cancel` or `retry` while workers carry that out.",
            "action_after": "The last job that was retried.",
            "actor": "Who gave the last command.",
            "reason": "And why.",
        },
    ),
    "batch_members": (
        "One row for each job of a batch that has not ended, or is dead.",
        {"batch_id": "The batch.", "state": "0 while it has not ended, 1 where it is dead.", "job_id": "The job."},
    ),
    "batch_counts": (
        "The numbers of each batch, to be added up: by queue, and in shards, so that nobody waits for others.",
        {
            "batch_id": "The batch.",
            "queue": "The queue of the jobs.",
            "shard": "Which of the rows that are added up.",
            "total": "Jobs that were added.",
            "succeeded": "Jobs that succeeded.",
            "dead": "Jobs that are dead; a retry takes them off.",
            "cancelled": "Jobs that were cancelled, replaced, or deleted before they ended.",
            "first_at": "When the first of them ended.",
            "last_at": "When the last of them ended.",
        },
    ),
    "logs": (
        "What handlers logged, a bounded number of lines for each job.",
        {
            "id": "A number that the database gives; it orders the lines.",
            "job_id": "The job.",
            "attempt_number": "In which attempt.",
            "level": "`debug`, `info`, `warning`, `error` or `critical`.",
            "message": "The line.",
            "fields": "What was logged with it, as JSON.",
            "created_at": "When.",
        },
    ),
    "archive": (
        "Jobs that a purge moved out of the way, with their history. The columns of a job, and five more.",
        {
            **JOB,
            "archived_at": "When it was moved here.",
            "history": "Its attempts, events and log lines, as JSON.",
            "ended_as": "The status that it was deleted from.",
            "restored_as": "The job that it was restored as last.",
            "restored_at": "And when.",
        },
    ),
    "alert_rules": (
        "The rules for [alerts](../howto/alerts.md), as workers declared them last.",
        {
            "name": "The rule.",
            "watch": "What it watches, as JSON.",
            "target": "Whom it tells: a function's name, or a webhook's host.",
            "job_name": "The job that delivers its alerts.",
            "queue": "And its queue.",
            "seen_at": "When a worker last declared it.",
            "muted_at": "When it was muted; none while it is not.",
            "muted_until": "Until when; none for good.",
            "muted_by": "Who muted it.",
            "mute_reason": "Why.",
        },
    ),
    "deploys": (
        "[Deploys](../howto/deployment.md#mark-deploys) of applications, marked or noticed by workers.",
        {
            "number": "One more than that of the deploy before, so that two who mark at once do not write two.",
            "application": "Whose deploy it is, as `Jobs(application=…)` says; empty for all.",
            "version": "The version of the application.",
            "note": "What was said about it.",
            "actor": "Who marked it.",
            "worker_id": "The worker that noticed it by its own version; none where somebody marked it.",
            "created_at": "When.",
        },
    ),
    "rekeys": (
        "Runs of [`sloppyjobs rekey`](../howto/encryption.md): how far each is.",
        {
            "id": "The run.",
            "key_id": "The id of the key that it encrypts with.",
            "actor": "Who started it.",
            "total": "Rows that there were when it began.",
            "examined": "Rows that it has looked at.",
            "rewritten": "Rows that it has encrypted.",
            "changed": "Rows that somebody else changed meanwhile.",
            "unreadable": "Rows that it could not decrypt.",
            "started_at": "When it began.",
            "moved_at": "When it last did something.",
            "finished_at": "When it reached the end; none while it runs, or where it has stopped half-way.",
        },
    ),
    "alerts": (
        "Alerts that were raised. Whoever writes the row of a rule, a cause and a window first has raised it, and has "
        "written the job that delivers it in the same transaction.",
        {
            "rule": "The rule.",
            "cause": "A digest of what is in trouble, or `test`.",
            "window_start": "The start of the window.",
            "job_id": "The job that delivers it.",
            "created_at": "When it was raised.",
            "window_seconds": "How long the window is.",
            "target": "Whom it tells.",
            "told": "What it says, redacted, as JSON.",
            "state": "`pending`, `told` or `failed`.",
            "ended_at": "When it was told, or given up.",
            "tries": "How often it was tried.",
            "error": "Why it was not told.",
        },
    ),
    "redactions": (
        "The keys that definitions ask to hide with `redact=`, so that pages and commands without them hide the same. "
        "Workers write them when they start, and whoever enqueues with the first job.",
        {
            "name": "The name of the job.",
            "key": "One of its secret keys. It stays when the definition names it no more, because old jobs hold it.",
        },
    ),
    "throttles": (
        "Wrong passwords and tokens of the last minute, counted for all server processes of the admin pages. No "
        "address is written here: clients are spread over a fixed number of rows. A purge removes old ones.",
        {
            "client": "The kind of client, and the number of its row.",
            "failures": "How often it failed since then.",
            "since": "When the minute began.",
        },
    ),
    "deaths": (
        "Deaths of jobs that were dead and are no more, because they were retried or deleted. Pages and "
        "`admin` add those that are dead now. A purge removes old ones.",
        {
            "cause": "A digest of the job's name, the error's class and the raising frame.",
            "queue": "The queue of the jobs.",
            "hour": "The hour in which they died.",
            "name": "The name of the jobs.",
            "error_type": "The class of the error.",
            "error_frame": "The raising frame.",
            "deaths": "How many.",
            "first_at": "The first of them.",
            "last_at": "The last of them.",
        },
    ),
    "retry_runs": (
        "Retries of a cause of death: a canary, or the rest at a rate. A purge removes old ones.",
        {
            "id": "Its id.",
            "cause": "As in `sloppy_job_deaths`.",
            "name": "The name of the jobs.",
            "error_type": "The class of the error.",
            "error_frame": "The raising frame.",
            "queues": "The queues that its actor sees, as JSON; none for all.",
            "kind": "`canary` or `rest`.",
            "state": "`running`, `finished` or `stopped`.",
            "rate": "Jobs per minute; none for all at once.",
            "wanted": "How many jobs it is about.",
            "retried": "How many of them were retried so far.",
            "actor": "Who began it.",
            "reason": "Why.",
            "created_at": "When it began.",
            "next_at": "When the next jobs are due.",
            "ended_at": "When it ended.",
            "ended_because": "Why it ended.",
        },
    ),
    "retry_members": (
        "The jobs of a retry run, in its order.",
        {
            "run_id": "The run.",
            "number": "Its place in the run, from 1.",
            "job_id": "The job.",
            "attempt_count": "Its attempts before; more of them means that it was tried again.",
        },
    ),
    "form_keys": (
        "Forms of the admin pages that were sent in the last day: one that is sent twice is done once. A "
        "purge removes old ones.",
        {
            "key": "A digest of the form's key, of who sent it, where to, and of what it said.",
            "claimed_by": "The request that does what the form asks for.",
            "created_at": "When it was sent.",
            "answer": "What it was answered, as JSON; none while it is being done.",
        },
    ),
}


def document() -> str:
    """The page."""
    tables = Tables(style=STYLE)
    described = {getattr(tables, name).name for name in TABLES}
    undescribed = set(tables.metadata.tables) - described
    if undescribed:
        raise SystemExit(f"say in {__file__} what these tables are for: {', '.join(sorted(undescribed))}")
    return "\n".join([INTRODUCTION, *(_table(getattr(tables, name), *text) for name, text in TABLES.items())])


def _table(table: Table, purpose: str, sentences: dict[str, str]) -> str:
    named, described = set(table.columns.keys()), set(sentences)
    if named != described:
        raise SystemExit(f"{table.name}: describe {sorted(named - described)}, forget {sorted(described - named)}")
    lines = [f"## {table.name}\n", purpose, "", "| column | type | |", "|---|---|---|"]
    for column in table.columns:
        kind = re.sub(r' COLLATE ".*"', "", column.type.compile(POSTGRESQL)).lower()
        lines.append(
            f"| `{column.name}` | {kind}{'' if column.nullable else ', not null'} | {sentences[column.name]} |"
        )
    keys = ", ".join(f"`{column.name}`" for column in table.primary_key)
    lines += ["", f"Primary key: {keys}.", *_indexes(table)]
    return "\n".join(lines) + "\n"


def _indexes(table: Table) -> list[str]:
    found = [_index(index) for index in sorted(table.indexes, key=lambda index: str(index.name))]
    return ["", "Indexes:", "", *found] if found else []


def _index(index: Index) -> str:
    columns = ", ".join(str(part).rpartition(".")[2] for part in index.expressions)
    where = index.dialect_options["postgresql"]["where"]
    condition = f" where `{where}`" if where is not None else ""
    return f"- {'unique ' if index.unique else ''}`{index.name}` on `{columns}`{condition}"


if __name__ == "__main__":
    sys.stdout.write(document())
