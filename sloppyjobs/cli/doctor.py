"""``doctor``: what is wrong, or may become so, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
from msgspec.structs import replace
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding


@click.command()
@click.option(
    "--repair", is_flag=True, help="Recompute what blocks jobs: dependencies, permits, sleeps, batches, keys."
)
@signed
@as_json
@pass_target
def doctor(target: Target, repair: bool, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Check the database, its settings and its workers.

    Exit code 1 when a check fails; a warning is none. With --repair, jobs that wait for something that is there already
    go on; workers do the same from time to time.
    """
    found = target.jobs.storage.doctor.diagnose()
    if not any(one.check == "schema" and one.status == FAIL for one in found):
        if repair:
            found.append(_repaired(target.admin.repair(actor=actor, reason=reason)))
        found += _operation(target)
    found = [replace(one, hint=target.as_typed(one.hint)) if one.hint else one for one in found]
    ok = not any(one.status == FAIL for one in found)
    output.emit({"ok": ok, "checks": found}, as_json, lambda out: _render(out, target, found))
    if not ok:
        click.get_current_context().exit(1)


def _repaired(done: Mapping[str, int]) -> Finding:
    if not any(done.values()):
        return Finding("repair", OK, "nothing was blocked that need not be")
    parts = [f"{done['waiting']} jobs went on", f"{done['batches']} members of batches", f"{done['keys']} keys"]
    return Finding("repair", OK, ", ".join(parts))


def _operation(target: Target) -> Iterator[Finding]:
    """How the jobs are doing."""
    seen = target.admin.overview()
    if seen.idle_queues:
        detail = f"jobs wait and no live worker takes from: {_names(seen.idle_queues)}"
        yield Finding("queues", FAIL, detail, "start `sloppyjobs --app module:jobs worker` for these queues")
    else:
        yield Finding("queues", OK, "every queue with jobs has a worker")
    yield from _handlers(target)
    if seen.paused_queues:
        hint = "end a pause with `sloppyjobs queues resume NAME`"
        yield Finding("pauses", WARN, f"paused: {_names(seen.paused_queues)}", hint)
    if seen.stale_workers:
        detail = f"stopped responding: {_names([worker.id for worker in seen.stale_workers])}"
        yield Finding("workers", WARN, detail, "they crashed or lost the database; their jobs come back by themselves")
    for worker in seen.stuck_workers:
        status = FAIL if worker.stuck >= worker.concurrency else WARN
        hint = (
            "their handlers go on after a timeout or a cancellation: restart the worker, and let them heed ctx.signal"
        )
        yield Finding("workers", status, f"{worker.hostname}:{worker.pid}: {worker.trouble}", hint)
    if not seen.stale_workers and not seen.stuck_workers:
        yield Finding("workers", OK, f"{seen.live_workers} live")
    yield from _encryption(target)
    yield from _schedules(target, [fire.schedule for fire in seen.late_schedules])


def _handlers(target: Target) -> Iterator[Finding]:
    found = target.admin.unhandled()
    if not found:
        yield Finding("handlers", OK, "every queued job has a live worker that knows its name, or no worker at all")
        return
    lanes = [f"{one.name} ({one.count} in {one.queue})" for one in found]
    detail = f"jobs wait, and no live worker of their queue has a handler for: {_names(lanes)}"
    hint = (
        "start a worker whose code defines these names, or restart one that runs older code; "
        "`sloppyjobs workers` shows what each knows, `sloppyjobs cancel --name NAME` gives the jobs up"
    )
    yield Finding("handlers", FAIL, detail, hint)


def _schedules(target: Target, late: list[str]) -> Iterator[Finding]:
    page = target.admin.list_recurring(page_size=500)
    failed = [one.name for one in page if one.last_error is not None]
    vanished = [one.name for one in page if one.vanished]
    if late:
        hint = "workers tick unless they have --no-recurring; see `sloppyjobs tick`"
        yield Finding("schedules", FAIL, f"due and not fired: {_names(late)}", hint)
    if failed:
        hint = "see `sloppyjobs recurring list`; register them again when mended"
        yield Finding("schedules", FAIL, f"failed when they were due: {_names(failed)}", hint)
    if vanished:
        hint = "`sloppyjobs recurring delete NAME` removes what is not wanted any more"
        yield Finding("schedules", WARN, f"no longer declared in code: {_names(vanished)}", hint)
    if not late and not failed and not vanished:
        yield Finding("schedules", OK, f"{len(page)} on time" if page else "none")


def _encryption(target: Target) -> Iterator[Finding]:
    """Keys that stored texts need, as far as the oldest and the latest rows tell."""
    seen = target.admin.encryption()
    if seen.missing:
        detail = f"stored texts need keys that are not here: {_names(seen.missing)}"
        hint = "add them to the keyring, or to SLOPPYJOBS_ENCRYPTION_KEYS; jobs that need them are dead at once"
        yield Finding("encryption", FAIL, detail, hint)
    elif seen.on and (seen.outdated or seen.in_the_clear):
        detail = f"{seen.outdated:,} texts are under an older key, {seen.in_the_clear:,} in the clear, or more"
        yield Finding("encryption", WARN, detail, "encrypt them with the first key: `sloppyjobs rekey`")
    elif seen.on:
        yield Finding("encryption", OK, f"on, with key {seen.keys[0]}")


def _names(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _render(out: Console, target: Target, found: list[Finding]) -> None:
    out.print(f"[dim]{output.plain(target.where())}[/]", soft_wrap=True)
    made = output.table("", "CHECK", "FOUND", whole=("", "CHECK"))
    for one in found:
        hint = f"\n[dim]→ {output.plain(one.hint)}[/]" if one.hint else ""
        made.add_row(output.word(one.status), one.check, output.plain(one.detail) + hint)
    out.print(made)
