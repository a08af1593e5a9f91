"""Encryption at rest: nothing is stored in the clear, and what cannot be decrypted is dead at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import Keyring, errors
from sloppyjobs.domain.dependencies import After, Result
from sloppyjobs.domain.sealed import is_sealed
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing import capture, drain
from sloppyjobs.testing.conformance.records import row

NEW, OLD = Keyring.generate(), Keyring.generate()
CANARY = "canary-7f3a"


def _encrypted(jobs: Jobs, *keys: str) -> Jobs:
    """The same database, with keys."""
    pytest.importorskip("cryptography")
    made = Jobs(jobs.storage, encryption=Keyring(keys or [NEW]))
    made.define("echo", _echo)
    return made


def _echo(ctx: Any, payload: Any) -> Any:
    ctx.log("info", f"{CANARY} line", field=f"{CANARY} field")
    return {"said": payload}


def test_payload_result_and_log_are_stored_encrypted(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    job = secret.enqueue("echo", {"name": CANARY})
    assert drain(secret) == 1
    assert secret.get(job.id).result == secret.wait(job).result == {"said": {"name": CANARY}}
    stored = row(jobs, job.id)
    assert is_sealed(stored.payload)
    assert is_sealed(stored.result or "")
    lines = jobs.storage.inspection.logs()
    assert CANARY not in repr((stored, lines))
    shown = secret.admin.get_job(job.id)
    assert shown.payload_preview.value == {"name": CANARY}
    assert shown.result_preview is not None
    assert shown.result_preview.value == {"said": {"name": CANARY}}
    [line] = secret.admin.logs(job.id)
    assert (line.message, line.fields) == (f"{CANARY} line", {"field": f"{CANARY} field"})
    [listed] = secret.admin.list_jobs()
    assert listed.payload_preview is not None
    assert CANARY in listed.payload_preview.text


def test_many_jobs_are_encrypted_each_for_itself(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    with capture(secret) as captured:
        written = secret.enqueue_many([("echo", {"same": CANARY})] * 3)
    captured.assert_enqueued("echo", payload={"same": CANARY}, times=3)
    texts = {row(jobs, job.id).payload for job in written}
    assert len(texts) == 3
    assert CANARY not in repr(texts)
    assert drain(secret) == 3
    assert [secret.get(job.id).result for job in written] == [{"said": {"same": CANARY}}] * 3


def test_the_claim_protocol_decrypts_and_encrypts(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    job = secret.enqueue("echo", CANARY)
    [claim] = secret.claim("w")
    assert (claim.payload, claim.payload_json) == (CANARY, f'"{CANARY}"')
    assert secret.complete(claim, [CANARY])
    assert secret.get(job.id).result == [CANARY]
    assert CANARY not in repr(row(jobs, job.id))


def test_a_job_whose_key_is_missing_is_dead_at_once_and_runs_when_it_is_back(jobs: Jobs) -> None:
    job = _encrypted(jobs, OLD).enqueue("echo", CANARY, max_attempts=5)
    jobs.define("echo", _echo)
    newer = _encrypted(jobs, NEW)
    for without in (jobs, newer):
        assert drain(without) == 1
        dead = without.get(job.id)
        assert (dead.status, dead.error_code) == ("dead", errors.DecryptionFailed.code)
        assert "Add the key" in without.admin.explain(job.id).reasons[0].text
        without.admin.retry(job.id)
    both = _encrypted(jobs, NEW, OLD)
    assert drain(both) == 1
    assert both.get(job.id).result == {"said": CANARY}


def test_claims_of_others_do_not_get_what_cannot_be_decrypted(jobs: Jobs) -> None:
    job = _encrypted(jobs, OLD).enqueue("echo", CANARY)
    plain = jobs.declare("plain").enqueue(1)
    assert [claim.id for claim in jobs.claim("w", limit=5)] == [plain.id]
    assert jobs.get(job.id).error_code == errors.DecryptionFailed.code


def test_what_was_changed_or_moved_to_another_row_is_not_decrypted(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    first, second = secret.enqueue("echo", 1), secret.enqueue("echo", 2)
    inspection = jobs.storage.inspection
    text = row(jobs, first.id).payload
    at = len(text) // 2
    changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    inspection.set_job(second.id, payload=text)
    inspection.set_job(first.id, payload=changed)
    drain(secret)
    for job in (first, second):
        assert (secret.get(job.id).status, secret.get(job.id).error_code) == ("dead", errors.DecryptionFailed.code)
    assert "cannot be read" in secret.admin.get_job(first.id).payload_preview.text


def test_a_result_that_cannot_be_read_says_so(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    job = secret.enqueue("echo", CANARY, idempotency_key="once")
    drain(secret)
    with pytest.raises(errors.DecryptionFailed, match="which is not here"):
        _ = jobs.get(job.id).result
    assert [jobs.get(job.id).status, jobs.wait(job).status] == ["succeeded"] * 2
    jobs.declare("echo")
    again = jobs.enqueue("echo", idempotency_key="once")
    with pytest.raises(errors.DecryptionFailed, match="which is not here"):
        _ = again.existing and again.result
    shown = jobs.admin.get_job(job.id)
    key = Keyring([NEW]).ids[0]
    assert shown.payload_preview.text == f"encrypted (key {key} is not here)"
    assert "$enc" not in repr((shown, jobs.admin.list_jobs(), jobs.admin.logs(job.id)))


def test_what_was_written_before_stays_readable(jobs: Jobs) -> None:
    jobs.define("echo", _echo)
    waiting, ended = jobs.enqueue("echo", 1, queue="later"), jobs.enqueue("echo", 2)
    jobs.create_worker(queues=["default"]).run_once()
    secret = _encrypted(jobs)
    drain(secret)
    assert [secret.get(job.id).result for job in (waiting, ended)] == [{"said": 1}, {"said": 2}]


def test_a_payload_that_looks_encrypted_is_a_payload(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    alike = {"$enc": {"v": 1, "k": "00000000", "d": "AAAA"}}
    jobs.define("echo", _echo)
    plain, sealed = jobs.enqueue("echo", alike, queue="plain"), secret.enqueue("echo", alike)
    jobs.create_worker(queues=["plain"]).run_once()
    drain(secret)
    assert jobs.get(plain.id).result == secret.get(sealed.id).result == {"said": alike}
    assert jobs.admin.get_job(plain.id).payload_preview.value == alike


def test_schedules_are_encrypted_too(jobs: Jobs, clock: FakeClock) -> None:
    secret = _encrypted(jobs)
    secret.recurring("often", "echo", {"name": CANARY}, every=600)
    assert CANARY not in repr(jobs.storage.schedules.get("often"))
    assert secret.admin.get_recurring("often").payload_preview.value == {"name": CANARY}
    assert "is not here" in jobs.admin.get_recurring("often").payload_preview.text
    clock.advance(600)
    assert drain(secret) == 1
    triggered = secret.admin.trigger_recurring("often")
    drain(secret)
    assert [job.result for job in secret.fires("often")] == [{"said": {"name": CANARY}}] * 2
    assert CANARY not in repr(row(jobs, triggered.id))
    assert [("$enc" in repr(job), job.status) for job in jobs.fires("often")] == [(False, "succeeded")] * 2


def test_a_schedule_whose_key_is_missing_is_set_aside(jobs: Jobs, clock: FakeClock) -> None:
    _encrypted(jobs).recurring("often", "echo", CANARY, every=600)
    clock.advance(600)
    assert jobs.tick_recurring() == []
    assert "is not here" in (jobs.admin.get_recurring("often").last_error or "")


@pytest.mark.parametrize(("rows", "status"), [(3, "succeeded"), (0, "cancelled")])
def test_conditions_compare_encrypted_results(jobs: Jobs, rows: int, status: str) -> None:
    secret = _encrypted(jobs)
    seen: list[Any] = []
    secret.define("load", lambda ctx, _payload: seen.append(ctx.parents["echo"]))
    when = Result("/said/rows", ">", 0)
    parent = secret.enqueue("echo", {"rows": rows})
    child = secret.enqueue("load", depends_on=After(parent, when=when))
    drain(secret)
    after = secret.enqueue("load", depends_on=After(parent, when=when))
    drain(secret)
    assert [secret.get(job.id).status for job in (child, after)] == [status] * 2
    assert seen == [{"said": {"rows": rows}}] * (2 if rows else 0)


def test_two_secrets_of_one_job_are_different_texts(jobs: Jobs) -> None:
    secret = _encrypted(jobs)
    job = secret.enqueue("echo", 1)
    payload = row(jobs, job.id).payload
    drain(secret)
    jobs.storage.inspection.set_job(job.id, result=payload)
    with pytest.raises(errors.DecryptionFailed, match="changed, or belongs to another row"):
        _ = secret.get(job.id).result


def test_an_archived_job_is_shown_and_restored(jobs: Jobs, clock: FakeClock) -> None:
    secret = _encrypted(jobs)
    job = secret.enqueue("echo", {"name": CANARY})
    drain(secret)
    secret.admin.delete(job.id)
    clock.advance(timedelta(days=2))
    secret.admin.purge(archive=True)
    assert CANARY not in repr(jobs.storage.inspection.archive())
    shown = secret.admin.get_archived(job.id)
    assert shown.payload_preview.value == {"name": CANARY}
    assert [line.message for line in shown.logs] == [f"{CANARY} line"]
    assert CANARY not in repr(jobs.admin.get_archived(job.id))
    with pytest.raises(errors.DecryptionFailed):
        jobs.admin.restore(job.id)
    again = secret.admin.restore(job.id)
    drain(secret)
    assert secret.get(again.id).result == {"said": {"name": CANARY}}


def _stepped(ctx: Any, payload: Any) -> Any:
    first = ctx.step("look", lambda: f"{CANARY} looked")
    return [first, ctx.wait_for("approved")]


def test_steps_and_signals_are_encrypted_each_for_its_name(jobs: Jobs, clock: FakeClock) -> None:
    old = _encrypted(jobs, OLD)
    old.define("stepped", _stepped)
    job = old.enqueue("stepped", CANARY)
    drain(old)
    assert old.signal(job.id, "approved", {"by": CANARY})
    assert CANARY not in repr(jobs.storage.steps.known(job.id))
    assert CANARY not in repr(jobs.admin.steps(job.id))
    shown = {one.name: one.result_preview for one in old.admin.steps(job.id)}
    assert CANARY in repr(shown["look"])
    assert CANARY in repr(shown["approved"])
    both = _encrypted(jobs, NEW, OLD)
    both.define("stepped", _stepped)
    assert _rekeyed(both) == (3, 0)
    new = _encrypted(jobs, NEW)
    new.define("stepped", _stepped)
    clock.advance(1)
    drain(new)
    assert new.get(job.id).result == [f"{CANARY} looked", {"by": CANARY}]


def test_a_step_whose_key_is_missing_is_dead_at_once(jobs: Jobs) -> None:
    secret = _encrypted(jobs, OLD)
    secret.define("stepped", _stepped)
    jobs.define("stepped", _stepped)
    job = jobs.enqueue("stepped", 1, max_attempts=5)
    drain(jobs)
    assert secret.signal(job.id, "approved", CANARY)
    drain(jobs)
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code) == ("dead", errors.DecryptionFailed.code)
    secret.admin.retry(job.id)
    drain(secret)
    assert secret.get(job.id).result == [f"{CANARY} looked", CANARY]


def test_callbacks_of_a_batch_are_encrypted(jobs: Jobs) -> None:
    old = _encrypted(jobs, OLD)
    batch = old.open_batch("import", on_complete=("echo", {"name": CANARY}))
    batch.enqueue("echo", 1)
    assert CANARY not in repr(jobs.storage.inspection.batches())
    both = _encrypted(jobs, NEW, OLD)
    assert _rekeyed(both) == (2, 0)
    assert _rekeyed(both) == (0, 0)
    new = _encrypted(jobs, NEW)
    new.get_batch(batch.id).seal()
    drain(new)
    [callback] = [one.job_id for one in new.admin.get_batch(batch.id).callbacks]
    assert new.get(callback).result == {"said": {"name": CANARY}}


# Keys that are changed


def _rekeyed(jobs: Jobs, limit: int = 2) -> tuple[int, int]:
    """Every step; how many rows were rewritten, and how many could not be read."""
    rewritten = unreadable = 0
    cursor = None
    while True:
        step = jobs.admin.rekey(limit, cursor, actor="ada")
        rewritten, unreadable = rewritten + step.rewritten, unreadable + step.unreadable
        cursor = step.cursor
        if cursor is None:
            return rewritten, unreadable


def _everything(jobs: Jobs, clock: FakeClock) -> tuple[str, str, str]:
    """A job that ended, an archived one and one that waits, with a schedule and log lines."""
    jobs.recurring("often", "echo", {"name": CANARY}, every=600_000)
    archived, ended = jobs.enqueue("echo", {"a": CANARY}), jobs.enqueue("echo", {"e": CANARY})
    drain(jobs)
    jobs.admin.delete(archived.id)
    clock.advance(timedelta(days=2))
    jobs.admin.purge(archive=True)
    waiting = jobs.enqueue("echo", {"w": CANARY}, queue="later")
    return archived.id, ended.id, waiting.id


@pytest.mark.parametrize("before", ["an old key", "the clear"])
def test_a_rotation_leaves_nothing_under_the_old_key(jobs: Jobs, clock: FakeClock, before: str) -> None:
    old = _encrypted(jobs, OLD) if before == "an old key" else jobs
    if old is jobs:
        jobs.define("echo", _echo)
    archived, ended, waiting = _everything(old, clock)
    both = _encrypted(jobs, NEW, OLD)
    seen = both.admin.encryption()
    assert (seen.outdated if old is not jobs else seen.in_the_clear) >= 6
    assert _rekeyed(both) == (5, 0)
    assert _rekeyed(both) == (0, 0)
    seen = both.admin.encryption()
    assert (seen.outdated, seen.in_the_clear, seen.missing, set(seen.needed)) == (0, 0, (), set(seen.keys[:1]))
    new = _encrypted(jobs, NEW)
    drain(new)
    assert [new.get(id).result for id in (ended, waiting)] == [{"said": {"e": CANARY}}, {"said": {"w": CANARY}}]
    assert [line.message for line in new.admin.logs(ended)] == [f"{CANARY} line"]
    assert [line.message for line in new.admin.get_archived(archived).logs] == [f"{CANARY} line"]
    assert new.admin.get_archived(archived).payload_preview.value == {"a": CANARY}
    assert new.admin.get_recurring("often").payload_preview.value == {"name": CANARY}
    inspection = jobs.storage.inspection
    assert CANARY not in repr((inspection.jobs(), inspection.logs(), inspection.archive()))
    assert {one.actor for one in jobs.admin.audit(action="rekey")} == {"ada"}


def test_rows_whose_key_is_missing_are_counted_and_left(jobs: Jobs) -> None:
    job = _encrypted(jobs, OLD).enqueue("echo", CANARY)
    new = _encrypted(jobs, NEW)
    new.enqueue("echo", 1)
    text = row(jobs, job.id).payload
    assert _rekeyed(new) == (0, 1)
    assert row(jobs, job.id).payload == text
    assert new.admin.encryption().missing == Keyring([OLD]).ids
    assert jobs.admin.encryption().missing == tuple(sorted(Keyring([NEW, OLD]).ids))


def test_a_row_that_changes_meanwhile_is_left_as_it_is(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _encrypted(jobs, OLD).enqueue("echo", CANARY)
    both = _encrypted(jobs, NEW, OLD)
    kind = type(jobs.storage.sealed)
    read = kind.texts

    def texts(sealed: Any, area: str, keys: Any) -> Any:
        found = read(sealed, area, keys)
        jobs.storage.inspection.set_job(job.id, payload='"somebody else"')
        return found

    monkeypatch.setattr(kind, "texts", texts)
    step = both.admin.rekey()
    assert (step.rewritten, step.changed) == (0, 1)
    monkeypatch.undo()
    assert row(jobs, job.id).payload == '"somebody else"'
    assert _rekeyed(both) == (1, 0)
    drain(both)
    assert both.get(job.id).result == {"said": "somebody else"}


def test_a_rotation_needs_keys_and_its_own_cursor(jobs: Jobs) -> None:
    with pytest.raises(errors.InvalidOption, match="no keys"):
        jobs.admin.rekey()
    for cursor in ("nonsense", '["users"]', '["rekey_1","users"]', '[1,"jobs"]', "{}", "[]"):
        with pytest.raises(errors.InvalidOption, match="cursor"):
            _encrypted(jobs).admin.rekey(cursor=cursor)
    for limit in (0, -1, 10_001, True):
        with pytest.raises(errors.InvalidOption, match="limit"):
            _encrypted(jobs).admin.rekey(limit)


def test_how_far_a_rotation_is_and_that_it_has_stopped_is_shown(jobs: Jobs, clock: FakeClock) -> None:
    _everything(_encrypted(jobs, OLD), clock)
    both = _encrypted(jobs, NEW, OLD)
    assert both.admin.encryption().rekey is None
    first = both.admin.rekey(1, actor="ada")
    clock.advance(10)
    second = both.admin.rekey(1, first.cursor, actor="ada")
    run = both.admin.encryption().rekey
    assert run is not None
    assert (run.state, run.actor, run.examined, run.moved_at) == ("running", "ada", 2, clock.now())
    assert run.total == run.examined + run.left > 2
    assert (run.rate, run.key_id) == (0.2, both.admin.encryption().keys[0])
    assert run.eta == clock.now() + timedelta(seconds=run.left / 0.2)
    clock.advance(61)
    stopped = both.admin.encryption().rekey
    assert stopped is not None
    assert (stopped.state, stopped.eta, stopped.examined) == ("stopped", None, 2)
    assert stopped.moved_at == clock.now() - timedelta(seconds=61)
    cursor = second.cursor
    while cursor is not None:
        clock.advance(1)
        cursor = both.admin.rekey(1, cursor).cursor
    done = both.admin.encryption().rekey
    assert done is not None
    assert (done.state, done.left, done.percent, done.finished_at) == ("finished", 0, 100.0, clock.now())
    assert done.examined == run.total
    clock.advance(1)
    both.admin.rekey(1)
    again = both.admin.encryption().rekey
    assert again is not None
    assert (again.state, again.examined, again.rewritten) == ("running", 1, 0)
