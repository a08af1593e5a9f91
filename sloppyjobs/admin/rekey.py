"""Encrypting with the first key of the keyring what is stored under another one, or in the clear."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from sloppyjobs.admin.filters import command_given
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import options
from sloppyjobs.domain.batches import decode_callbacks, encode_callbacks
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.sealed import key_of
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.encryption import PAYLOAD, RESULT, SCHEDULE, Sealing, sealed_as
from sloppyjobs.errors import DecryptionFailed, InvalidOption
from sloppyjobs.ids import Ids
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.sealed import RekeyDone, RekeyRecord, RowKey, SealedChange, SealedRow
from sloppyjobs.views.encryption import CLEAR, EncryptionView, RekeyRun, RekeyStep

LIMIT = 1_000
"""Rows that one step examines unless told otherwise."""
MOST = 10_000
WHOLE = 50
"""Rows whose whole texts are read at once, and written in one transaction."""
LOOKED_AT = 1_000
"""The oldest and the latest rows of each table that are examined for a summary."""
STOPPED = timedelta(minutes=1)
"""A run that has not moved for so long has stopped: a step takes seconds."""
_LEFT_OUT = re.compile(r'\{"_left_out":[0-9]+\}')
"""The fields of a log line that the library itself writes; it has nothing to hide."""
Texts = Mapping[str, str | None]


class RekeyAdmin:
    """The part of ``jobs.admin`` that concerns keys."""

    _storage: Store
    _sealing: Sealing
    _new_ids: Ids

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def encryption(self) -> EncryptionView:
        """Which keys the stored rows need, among the oldest and the latest 1,000 of each table."""
        self._storage.ensure_schema()
        found: Counter[str] = Counter()
        examined = 0
        for area in self._storage.sealed.areas():
            seen = self._storage.sealed.beginnings(area, None, LOOKED_AT)
            if len(seen) == LOOKED_AT:
                seen += self._storage.sealed.beginnings(area, None, LOOKED_AT, backward=True)
            rows = {row.key: row for row in seen}
            examined += len(rows)
            for row in rows.values():
                found.update(_keys(area, row.texts))
        ids = () if self._sealing.keyring is None else self._sealing.keyring.ids
        needed = {key: number for key, number in sorted(found.items()) if key != CLEAR}
        return EncryptionView(
            on=self._sealing.on,
            keys=ids,
            needed=needed,
            outdated=sum(number for key, number in needed.items() if ids and key != ids[0]),
            in_the_clear=found[CLEAR],
            missing=tuple(key for key in needed if key not in ids),
            examined=examined,
            rekey=self._last_run(),
        )

    def _last_run(self) -> RekeyRun | None:
        run = self._storage.sealed.last_run()
        actor = None if run is None else self._presenter().text(None, run.actor)
        return None if run is None else run_view(run, self._storage.clock.now(), actor)

    def rekey(
        self,
        limit: int = LIMIT,
        cursor: str | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
    ) -> RekeyStep:
        """Examine up to ``limit`` (1 to 10,000) rows, and encrypt with the first key what is not.

        Go on with the ``cursor`` of the answer until it is None. Rows that were written in the clear are encrypted
        too. A row that changes meanwhile is left as it is; workers and producers need not stop. Beginning anew does
        again only what is not done.
        """
        if self._sealing.keyring is None:
            raise InvalidOption("there are no keys here: give Jobs a Keyring, or set SLOPPYJOBS_ENCRYPTION_KEYS")
        command = command_given("rekey", actor, reason)
        size = options.whole("limit", limit, least=1, most=MOST)
        self._storage.ensure_schema()
        areas = tuple(self._storage.sealed.areas())
        run, area, after = _position(cursor, areas)
        if run is None:
            run = self._begin(areas, command.actor)
        rows = self._storage.sealed.beginnings(area, after, size)
        rewritten = changed = unreadable = 0
        for part in _parts([row.key for row in rows if self._outdated(area, row)]):
            changes, unread = self._changes(area, part)
            done = self._storage.sealed.replace(area, changes)
            rewritten, changed, unreadable = rewritten + done, changed + len(changes) - done, unreadable + unread
        if rewritten:
            self._storage.audit.record(command, "jobs", "rekey", {"rows": rewritten, "area": area})
        following = _next(run, area, rows, size, areas)
        moved = RekeyDone(len(rows), rewritten, changed, unreadable)
        self._storage.sealed.advance_run(run, moved, finished=following is None)
        return RekeyStep(*moved, following)

    def _begin(self, areas: Sequence[str], actor: str | None) -> str:
        """Write down that a run begins; its id."""
        assert self._sealing.keyring is not None
        now, sealed = self._storage.clock.now(), self._storage.sealed
        run = RekeyRecord(
            self._new_ids.new("rekey"), self._sealing.keyring.ids[0], actor, sum(map(sealed.count, areas)), now, now
        )
        sealed.begin_run(run)
        return run.id

    def _outdated(self, area: str, row: SealedRow) -> bool:
        assert self._sealing.keyring is not None
        # The history of an archived job has log lines inside, and the callbacks of a batch have payloads.
        return area in ("archive", "batches") or set(_keys(area, row.texts)) != {self._sealing.keyring.ids[0]}

    def _changes(self, area: str, keys: Sequence[RowKey]) -> tuple[list[SealedChange], int]:
        """What is to be written, and how many rows cannot be decrypted."""
        changes, unreadable = [], 0
        for row in self._storage.sealed.texts(area, keys):
            try:
                new = self._rewritten(area, row)
            except DecryptionFailed:
                unreadable += 1
                continue
            if new:
                changes.append(SealedChange(row.key, {name: row.texts[name] for name in new}, new))
        return changes, unreadable

    def _rewritten(self, area: str, row: SealedRow) -> Texts:
        """The texts that are not as they should be, as they should be."""
        if area == "logs":
            return self._line(row.owner, row.texts["message"] or "", row.texts["fields"])
        new: dict[str, str | None] = {}
        for name, text in row.texts.items():
            if text is None:
                continue
            if name == "history":
                made = self._history(row.owner, text)
            elif name == "callbacks":
                made = self._callbacks(text)
            else:
                made = self._text(row.owner, _what(area, name, row.key), text)
            if made != text:
                new[name] = made
        return new

    def _text(self, owner: str, what: str, text: str) -> str:
        if self._current(text):
            return text
        return self._sealing.seal(owner, what, self._sealing.open(owner, what, text))

    def _line(self, job_id: str, message: str, fields: str | None) -> Texts:
        if fields is not None and (self._current(fields) or _LEFT_OUT.fullmatch(fields)):
            return {}
        opened = self._sealing.open_line(job_id, message, fields)
        line = self._sealing.seal_line({"job_id": job_id, "message": opened[0], "fields": opened[1]})
        return {"message": line["message"], "fields": line["fields"]}

    def _history(self, job_id: str, text: str) -> str:
        try:
            history = msgspec.json.decode(text, type=dict[str, list[dict[str, object]]])
        except msgspec.MsgspecError:
            return text
        same = True
        for line in history.get("logs", ()):
            message, fields = line.get("message"), line.get("fields")
            if isinstance(message, str) and isinstance(fields, str | None):
                new = self._line(job_id, message, fields)
                line.update(new)
                same = same and not new
        return text if same else msgspec.json.encode(history).decode()

    def _callbacks(self, text: str) -> str:
        before = decode_callbacks(text)
        after = {kind: self._callback(job) for kind, job in before.items()}
        return text if after == before else encode_callbacks(after) or text

    def _callback(self, job: NewJob) -> NewJob:
        return msgspec.structs.replace(job, payload=self._text(job.id, PAYLOAD, job.payload))

    def _current(self, text: str) -> bool:
        assert self._sealing.keyring is not None
        return key_of(text) == self._sealing.keyring.ids[0]


def _what(area: str, name: str, key: RowKey) -> str:
    """What a text is encrypted as."""
    if area == "steps":
        return sealed_as(StepKind(key[1]), key[2])
    return RESULT if name == "result" else SCHEDULE if area == "schedules" else PAYLOAD


def _keys(area: str, texts: Texts) -> Iterator[str]:
    """The keys that the texts of a row need, or that they are in the clear."""
    if area == "logs":
        fields = texts["fields"]
        if fields is None or not _LEFT_OUT.fullmatch(fields):
            yield (None if fields is None else key_of(fields)) or CLEAR
        return
    for name, text in texts.items():
        if text is not None and name not in ("history", "callbacks"):
            yield key_of(text) or CLEAR


def _parts(keys: Sequence[RowKey]) -> Iterator[Sequence[RowKey]]:
    for start in range(0, len(keys), WHOLE):
        yield keys[start : start + WHOLE]


def _position(cursor: str | None, areas: Sequence[str]) -> tuple[str | None, str, RowKey | None]:
    """The run, its area, and the key after which to go on; no run at the beginning."""
    if cursor is None:
        return None, areas[0], None
    try:
        run, area, *key = msgspec.json.decode(cursor, type=list[str | int])
    except (msgspec.MsgspecError, ValueError):
        run, area, key = "", "", []
    if area not in areas or not isinstance(run, str):
        raise options.refuse("cursor", cursor, "must be the cursor of the step before")
    return run, str(area), tuple(key) or None


def _next(run: str, area: str, rows: Sequence[SealedRow], size: int, areas: Sequence[str]) -> str | None:
    if len(rows) == size:
        return msgspec.json.encode([run, area, *rows[-1].key]).decode()
    place = areas.index(area) + 1
    return msgspec.json.encode([run, areas[place]]).decode() if place < len(areas) else None


def run_view(run: RekeyRecord, now: datetime, actor: str | None) -> RekeyRun:
    """How far a run is."""
    state = "finished" if run.finished_at is not None else "stopped" if now - run.moved_at > STOPPED else "running"
    # What came after its beginning is examined too, and what was removed meanwhile is not.
    total = max(run.total, run.examined) if state != "finished" else run.examined
    left = total - run.examined
    seconds = (run.moved_at - run.started_at).total_seconds()
    rate = run.examined / seconds if seconds > 0 else None
    return RekeyRun(
        state=state,
        key_id=run.key_id,
        actor=actor,
        total=total,
        examined=run.examined,
        left=left,
        rewritten=run.rewritten,
        changed=run.changed,
        unreadable=run.unreadable,
        percent=100.0 * run.examined / total if total else 100.0,
        rate=rate,
        eta=run.moved_at + timedelta(seconds=left / rate) if rate and state == "running" else None,
        started_at=run.started_at,
        moved_at=run.moved_at,
        finished_at=run.finished_at,
    )
