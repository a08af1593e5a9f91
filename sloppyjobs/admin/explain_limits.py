"""What a limit means for a job, in words."""

from __future__ import annotations

from collections.abc import Sequence

from sloppyjobs.admin.sentences import At, Relative, Sentence, span
from sloppyjobs.domain.limits import NO_PARTITION, Limit, lets_nothing_start
from sloppyjobs.storage.ports.limits import Held, LineState

NAMED = 3
"""Holders of permits that a sentence names."""
GOES_ON = "The next check by a worker lets it go on."


def waits_for_permit(line: LineState) -> Sentence:
    """Its place in line, who holds the permits, and what frees one."""
    resource, partition = line.partition
    of = f"{resource!r}" if partition == NO_PARTITION else f"{resource!r} for {partition!r}"
    if line.limit is None:
        return (f"It waited for a permit of {of}, and nothing limits {resource!r} any more. {GOES_ON}",)
    text = f"It waits for a permit of {of}: {_place(line)}."
    if lets_nothing_start(line.limit):
        return (f"{text} Somebody has written a limit that lets nothing start: set it anew, or delete it.",)
    full = line.limit.concurrency is not None and line.held >= line.limit.concurrency
    if full:
        text += _held(line, line.limit.concurrency or 0)
    if line.next_token_at is not None:
        begun = f" {_rate(line.limit)} have started already; the next may start "
        return (text, begun, Relative(line.next_token_at), ", at ", At(line.next_token_at), ".")
    return (text,) if full else (f"{text} A permit is free. {GOES_ON}",)


def not_limited(resource: str) -> Sentence:
    """A resource that no limit names."""
    return (f"It names the resource {resource!r}, and no limit of that name is in force: nothing limits it.",)


def _held(line: LineState, permits: int) -> str:
    if line.held > permits:
        # The limit was lowered while jobs held more.
        left = line.held - permits + 1
        back = f"The limit is {permits:,} by now: it comes when {left:,} of them have ended"
        return f" {line.held:,} permits are held{_by(line.holders)}. {back}, or their leases have expired."
    held = f" All {permits:,} permits are" if permits != 1 else " The only permit is"
    return f"{held} held{_by(line.holders)}. One comes back when its job ends or its lease expires."


def _place(line: LineState) -> str:
    if line.ahead == 0:
        return "it is next in line"
    more = "+" if line.ahead_more else ""
    return f"{line.ahead:,}{more} job{' is' if line.ahead == 1 else 's are'} ahead of it in line"


def _by(holders: Sequence[Held]) -> str:
    named = [f"{one.name} ({one.job_id})" if one.job_id else "a job in another queue" for one in holders[:NAMED]]
    if not named:
        return ""
    more = f" and {len(holders) - NAMED} more" if len(holders) > NAMED else ""
    return f" by {', '.join(named)}{more}"


def _rate(limit: Limit) -> str:
    return f"{limit.rate:,} in {span(limit.per or 0.0)}"
