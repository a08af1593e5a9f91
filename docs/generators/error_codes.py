"""The page on error codes: ``python docs/generators/error_codes.py > docs/reference/errors.md``.

Codes and meanings come from ``sloppyjobs/errors.py``; only the advice stands here, and one that is missing or left over
is an error.
"""

from __future__ import annotations

import inspect
import sys

from sloppyjobs import errors

INTRODUCTION = """\
# Error codes

<!-- Generated: python docs/generators/error_codes.py > docs/reference/errors.md -->

Every error of the library is a `JobsError` with a `code` that stays the same across releases; the text is for people
and may change. The same codes are stored with failed attempts, shown in the admin pages, and printed by the command
line, which exits with 1.

```python
from sloppyjobs import Jobs, JobsError

jobs = Jobs("sqlite:///shop.db")
try:
    jobs.enqueue("unheard-of")
except JobsError as error:
    print(error.code)
```

```text
SLOPPY_E_JOBS_UNKNOWN_JOB
```
"""

ADVICE = {
    "JobsError": "Read the text: it says what was wrong and what is expected.",
    "UnknownJob": "Define or declare the name before enqueueing; or the job was purged.",
    "UnknownJobType": "Nothing of this name is defined here or was run lately, or the caller does not see its queues.",
    "UnknownCause": "The cause was forgotten after 90 days, or it is in a queue that the caller does not see.",
    "UnknownSchedule": "`sloppyjobs recurring` lists the names.",
    "UnknownLimit": "`sloppyjobs limits` lists the names.",
    "PermitNotHeld": "Nothing: its permit came back already. `sloppyjobs limits show` lists who holds permits.",
    "UnknownWorkflow": "`sloppyjobs workflows` lists them; the jobs of an old one may have been purged.",
    "UnknownWorker": "`sloppyjobs workers` lists them; those that stopped a day ago are removed.",
    "UnknownAlert": "`sloppyjobs alerts` lists the rules.",
    "UnknownBatch": "`sloppyjobs batches` lists them; those that ended 90 days ago are removed.",
    "BatchClosed": "Open another batch; or add from inside a running job of it, by `ctx.batch`.",
    "UnknownQueue": "`sloppyjobs queues` lists the names.",
    "InvalidPayload": "Send what the job's `input` says, as JSON, and below the limit. A stored job with such a payload"
    " is dead at once: repair the handler's schema, then retry it.",
    "UpcastFailed": "Register or repair the upcast that the text names, deploy it, then retry the job.",
    "PayloadNewer": "Nothing: finish the deployment, and a worker with the new code runs the job.",
    "InvalidOption": "Give the option a value that the text accepts.",
    "DuplicateJob": "Give one of the two another name; a module that is imported under two names defines twice.",
    "SchemaVersionMismatch": "Older tables: `sloppyjobs init` upgrades them. Newer tables: upgrade the library.",
    "SchemaMissing": "`sloppyjobs init`, or `jobs.init()`.",
    "DriverMissing": "Install the extra that the text names, such as `sloppyjobs[postgres]`.",
    "StorageUnavailable": "Try again when the database is back. Where `maybe_done` is true, look first whether the work"
    " was done, or repeat it with the same `idempotency_key`.",
    "InvalidTransition": "Look at the job again: it has moved on since.",
    "Expired": "Nothing: the job was not to be run late. Give it more time with a longer `expires`, or add workers.",
    "InvalidWorkflow": "Name jobs that exist, fewer of them, and no circle.",
    "InvalidStep": "Give each step of a handler a name of its own, and return what fits. Where a stored"
    " result does not fit a changed function, rename the step, or convert the old form.",
    "SignalTimeout": "Nothing, where the handler catches it. Otherwise the job is dead: a retry waits"
    " for the signal anew.",
    "KeyConflict": "Wait for the job that has the key, or cancel it; or enqueue with another `on_conflict`.",
    "DecryptionFailed": "Add the key that the text names to the keyring and retry. If the text was changed, restore the"
    " row, or delete the job.",
    "LockConflict": "Try later, or leave the work to whoever holds the lock.",
    "HandlerFailed": "Read the traceback, repair the cause, and retry.",
    "JobTimeout": "Make the work smaller or the `timeout` longer; let the handler look at `ctx.signal`.",
    "JobAborted": "Nothing: a handler that ends by it stops as it was asked to.",
    "LeaseExpired": "Look whether the worker was killed (memory?) or could not reach the database; lengthen the `lease`"
    " where handlers keep the interpreter busy for that long.",
    "RowUnreadable": "The text names the columns. Somebody, or another program, has written to the table. The job is"
    " dead at once, and it alone: repair the row and retry the job, or delete it.",
    "StaleLease": "Nothing: the job was given to another worker meanwhile, and its outcome counts.",
    "InvalidSchedule": "Correct the expression, the zone or the instant.",
    "ReadTimeout": "Narrow the filters.",
    "WaitTimeout": "Wait longer, or look whether a worker runs.",
}

STORED = {
    "LOOP_ENDED": (
        "A handler broke the event loop on which this coroutine ran.",
        "Nothing: it is queued again while attempts are left. Find the handler that closes or breaks the loop.",
    ),
    "RELEASED": ("A worker that was shutting down gave the job back.", "Nothing: the attempt does not count."),
    "SNOOZED": ("The handler asked to be called again later.", "Nothing: the attempt does not count."),
    "CANCELLED": ("The job was cancelled while it ran.", "Nothing; it was wanted."),
}


def document() -> str:
    """The page."""
    found = {
        name: error
        for name, error in vars(errors).items()
        if inspect.isclass(error) and issubclass(error, errors.JobsError)
    }
    stored = {name for name, value in vars(errors).items() if isinstance(value, str) and name.isupper()} - {"PREFIX"}
    if set(found) != set(ADVICE) or stored != set(STORED):
        raise SystemExit(f"advise in {__file__}: {set(found) ^ set(ADVICE) | stored ^ set(STORED)}")
    lines = [INTRODUCTION, "| code | error | meaning | what to do |", "|---|---|---|---|"]
    lines += [f"| `{one.code}` | `{name}` | {_sentence(one)} | {ADVICE[name]} |" for name, one in found.items()]
    lines += ["\nStored with an attempt, and never raised:\n", "| code | meaning | what to do |", "|---|---|---|"]
    lines += [f"| `{getattr(errors, name)}` | {text} | {advice} |" for name, (text, advice) in STORED.items()]
    return "\n".join(lines) + "\n"


def _sentence(error: type[errors.JobsError]) -> str:
    return " ".join((error.__doc__ or "").split()).replace("``", "`")


if __name__ == "__main__":
    sys.stdout.write(document())
