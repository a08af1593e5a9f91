"""The turnstile: each turn settles what has finished since the last one and claims as many as there is room for.

Round trips and commits are per turn, not per job. While the database works on a turn, handlers run on what was
claimed before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from sloppyjobs.domain.model import Claim, Ended, Settlement
from sloppyjobs.domain.states import AttemptStatus, Decision, Outcome, Released, Status, decide
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.claims import ClaimRequest, Fence
from sloppyjobs.worker import executor
from sloppyjobs.worker.middleware import Surroundings
from sloppyjobs.worker.observe.settlement_hooks import Aftermath
from sloppyjobs.worker.prefetch import Prefetch
from sloppyjobs.worker.reports import WorkerReports
from sloppyjobs.worker.runners.coroutines import AsyncRunner
from sloppyjobs.worker.runners.find_jobs import Find
from sloppyjobs.worker.runners.processes import ProcessRunner
from sloppyjobs.worker.runners.threads import Finish, Runner, ThreadRunner
from sloppyjobs.worker.settings import Settings
from sloppyjobs.worker.stuck import StuckHandlers
from sloppyjobs.worker.task import Task

log = logging.getLogger("sloppyjobs.worker")

TURN_LIMIT = 500
"""Jobs claimed in one turn, and settled; larger batches gain nothing, and hold row locks for longer."""

SWEEP_SECONDS = 0.05
"""Under load, leases and due times are looked at no more often than this."""


class Turnstile:
    """The tasks in a worker's hands, and the turns that bring and take them. One thread turns; others finish."""

    def __init__(
        self,
        worker_id: str,
        storage: Store,
        definitions: Definitions,
        reports: WorkerReports,
        settings: Settings,
        surroundings: Surroundings,
        aftermath: Aftermath,
        find: Callable[[], Find | None],
    ) -> None:
        self.worker_id = worker_id
        self.storage = storage
        self.definitions = definitions
        self.reports = reports
        self.settings = settings
        self.surroundings = surroundings
        self.aftermath = aftermath
        self.find = find
        self.turns = 0
        self.turned_at = time.monotonic()
        self.prefetch = Prefetch(settings.concurrency, settings.prefetch)
        self.given_up = 0
        self.stuck = StuckHandlers(settings.concurrency)
        self._tasks: dict[Fence, Task] = {}
        self._timed: dict[Fence, Task] = {}
        self._finished: deque[tuple[Task, Settlement]] = deque()
        self._turns = storage.turns()
        self._unsettled: list[Settlement] = []
        self._settling: list[Settlement] = []
        self._claiming: ClaimRequest | None = None
        self._fetched: Sequence[Claim] = ()
        self._runners: dict[str, Runner] = {}
        self._woken = threading.Event()
        self._news = True
        self._next_poll = 0.0
        self._next_sweep = 0.0
        self._give_up_at: float | None = None

    # What other threads call

    def wake(self) -> None:
        """There may be something to claim."""
        self._news = True
        self._woken.set()

    def finish(self, task: Task, outcome: Outcome) -> None:
        """An attempt has ended; the next turn settles it. Whatever comes after the first outcome is ignored."""
        seconds = task.run_seconds()
        claim = task.claim
        # Decided here, mostly while the turning thread waits for the database; and before the task counts as finished,
        # so that one whose outcome cannot be decided can still be finished with another.
        decision = decide(claim.attempt, claim.job.max_attempts, outcome)
        if task.finish():
            settlement = Settlement(claim.job.id, claim.attempt, self.worker_id, decision, seconds)
            self._finished.append((task, settlement))
            if not self._woken.is_set():
                self._woken.set()
        else:
            log.info("job %s finished after its attempt had ended; ignored", task.claim.id)
            if self.stuck.remove(task):
                # There is a slot to fill.
                self.wake()

    def held(self) -> list[Task]:
        """The attempts that are still ours to settle."""
        return [task for task in list(self._tasks.values()) if not task.finished]

    def running(self) -> int:
        """How many handlers run at this moment."""
        return sum(1 for task in list(self._tasks.values()) if task.started is not None and not task.finished)

    def abandon(self, task: Task, reason: str) -> None:
        """The attempt is not ours any more: stop its handler, settle nothing."""
        if not task.withdraw():
            self.stuck.add(task)
        if task.finish():
            log.warning("job %s is not ours any more: %s", task.claim.id, reason)
            task.signal.abort(reason)
            self._tasks.pop(task.fence, None)
            self.reports.conclude(task.fence)
            self.wake()
        else:
            self.stuck.remove(task)

    def full(self, longer_than: float = 0.0) -> set[str]:
        """The isolations in which nothing can run, because handlers go on whose attempts have ended."""
        if not self.stuck:
            return set()
        blocked = {kind for kind, runner in list(self._runners.items()) if runner.blocked}
        return self.stuck.full(longer_than) | blocked

    def give_back(self, task: Task) -> bool:
        """Release a task that has not started; False when it has."""
        if not task.withdraw():
            return False
        self.finish(task, Released())
        return True

    def drain(self, limit: float) -> None:
        """Claim no more; after ``limit`` seconds, release what has not finished."""
        self._give_up_at = time.monotonic() + limit
        self._woken.set()

    @property
    def draining(self) -> bool:
        """Whether the worker is on its way out."""
        return self._give_up_at is not None

    def overdue(self, seconds: float) -> bool:
        """Whether the worker should have left so many seconds ago."""
        return self._give_up_at is not None and time.monotonic() > self._give_up_at + seconds

    @property
    def drained(self) -> bool:
        """Whether nothing is left to do on the way out."""
        return self.draining and not (
            self._tasks or self._finished or self._unsettled or self._fetched or self._claiming
        )

    # What the turning thread calls

    def turn(self) -> None:
        """Settle, sweep, claim and hand out.

        The claim is sent first, so that the database has something to do while we see to what it has settled, send
        what has finished since, and hand out what was claimed before. What is sent to be settled is waited for at the
        next turn.
        """
        self._expire_handlers()
        if self.draining:
            self._hand_out()
            self._release_in_drain()
        self._sweep_when_due()
        try:
            self._begin_claim()
            self._end_settling()
            self._begin_settling()
        finally:
            self._hand_out()
        self._end_claim()

    def turned(self) -> None:
        """A turn went well; by this others know that the worker works."""
        self.turns += 1
        self.turned_at = time.monotonic()

    def wait(self) -> None:
        """Until a handler finishes, a timeout is due, there is news, or it is time to poll."""
        # Whoever told it to drain may have woken it together with the last handler that finished.
        if self.drained or self._finished or self._unsettled or self._settling or self._request() is not None:
            return
        self._hand_out()
        until = [self._give_up_at] if self._give_up_at is not None else [self._next_poll, self._next_sweep]
        until += [deadline for task in self._timed.values() if (deadline := task.deadline()) is not None]
        self._woken.wait(max(0.0, min(min(until) - time.monotonic(), self.settings.poll_interval)))
        self._woken.clear()

    def sleep(self, seconds: float) -> None:
        """Until somebody wakes the turnstile, as ``drain`` does, but not longer than that."""
        self._woken.wait(seconds)
        self._woken.clear()

    def forsake(self) -> None:
        """Leave everything to the leases, because the database cannot be reached on the way out."""
        log.error("worker %s leaves %d attempts to their leases", self.worker_id, len(self._tasks))
        for task in self.held():
            task.signal.abort("shutdown")
        self._tasks.clear()
        self._timed.clear()
        self._finished.clear()
        self._unsettled.clear()
        self._settling = []
        self._claiming = None
        self._fetched = ()
        self._turns.close()

    def close(self) -> None:
        """End the runners."""
        self._turns.close()
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()

    def new_runner(self, kind: str, size: int, finish: Finish) -> Runner:
        """A runner for handlers of that isolation."""
        match kind:
            case "async":
                return AsyncRunner(size, finish)
            case "process":
                return ProcessRunner(size, finish, self.surroundings.hooks, self.find)
            case _:
                return ThreadRunner(size, finish)

    # Steps of a turn

    def _begin_claim(self) -> None:
        if self._claiming is not None or (request := self._request()) is None:
            return
        # News that come from here on may be of jobs that this claim does not see.
        self._news = False
        try:
            self._turns.begin_claim(request)
        except Exception:
            self._news = True
            raise
        self._claiming = request

    def _end_claim(self) -> None:
        if self._claiming is None:
            return
        self._fetched = self._turns.claimed()
        request, self._claiming = self._claiming, None
        self._next_poll = time.monotonic() + self.settings.poll_interval
        if len(self._fetched) >= request.limit:
            # There is more, and the next claim is sent before these are handed out.
            self._news = True
        else:
            self._hand_out()

    def _begin_settling(self) -> None:
        self._gather_finished()
        if not self._unsettled:
            return
        self.reports.flush()
        batch = self._unsettled[:TURN_LIMIT]
        self._turns.begin_settle(batch)
        del self._unsettled[: len(batch)]
        self._settling = batch

    def _end_settling(self) -> None:
        if not self._settling:
            return
        accepted = self._turns.settled()
        batch, self._settling = self._settling, []
        self._let_go(batch, accepted)

    def _gather_finished(self) -> None:
        while self._finished:
            task, settlement = self._finished.popleft()
            self.reports.conclude(task.fence)
            self._unsettled.append(settlement)
            if settlement.run_seconds is not None:
                self.prefetch.ran(settlement.run_seconds)

    def _sweep_when_due(self) -> None:
        if self.draining or time.monotonic() < self._next_sweep:
            return
        swept = self.storage.sweep()
        self.aftermath.lost(swept.lost)
        if swept.promoted or swept.expired:
            self._news = True
        poll = self.settings.poll_interval
        soon = poll if swept.next_in is None else min(poll, swept.next_in)
        self._next_sweep = time.monotonic() + max(SWEEP_SECONDS, soon)

    def _request(self) -> ClaimRequest | None:
        # What has finished is not hoarded, so the next batch is claimed while the last one is settled.
        ended = len(self._finished) + len(self._unsettled) + len(self._settling)
        waiting = len(self._tasks) - ended + len(self._fetched)
        room = self.prefetch.capacity() - waiting
        if self.draining or room <= 0 or not (self._news or time.monotonic() >= self._next_poll):
            return None
        names = self.definitions.handled()
        if self.stuck:
            names, lost = self._runnable(names)
            room = self.prefetch.capacity(lost) - waiting
        if room <= 0 or not names:
            return None
        return ClaimRequest(self.worker_id, self.settings.queues, names, min(room, TURN_LIMIT), self.settings.lease)

    def _runnable(self, names: frozenset[str]) -> tuple[frozenset[str], int]:
        """The jobs for which there is a slot, and how many slots those have lost to handlers that are stuck."""
        full = self.full()
        kinds = {name: self.definitions.require(name).isolation for name in names}
        lost = max((number for kind, number in self.stuck.by_kind().items() if kind not in full), default=0)
        return frozenset(name for name, kind in kinds.items() if kind not in full), lost

    def _let_go(self, batch: Sequence[Settlement], accepted: set[str]) -> None:
        ended: list[Ended] = []
        every = self.aftermath.wants_successes
        for settlement in batch:
            fence = settlement.job_id, settlement.attempt
            task = self._tasks.pop(fence, None)
            if settlement.job_id not in accepted:
                log.warning("attempt %d of job %s was stale when it ended; its outcome is ignored", *reversed(fence))
            elif task is not None and (every or settlement.decision.attempt is not AttemptStatus.SUCCEEDED):
                ended.append(Ended(task.claim.job, settlement))
        if ended:
            self._sweep_for(one.settlement.decision for one in ended)
            self.aftermath.settled(ended)

    def _sweep_for(self, decisions: Iterable[Decision]) -> None:
        """What is due again before the next poll is promoted when it is due."""
        later = (Status.RETRYING, Status.SCHEDULED)
        soon = min((one.delay for one in decisions if one.path[-1] in later), default=None)
        if soon is not None:
            self._next_sweep = min(self._next_sweep, time.monotonic() + max(SWEEP_SECONDS, soon))

    def _hand_out(self) -> None:
        """Give the claims of the last turn to their runners; the database may be busy with the next by now."""
        if not self._fetched:
            return
        # Read before they are let go: a damaged row among them asks the database once more, which may fail.
        claims = list(self._fetched)
        self._fetched = ()
        by_kind: dict[str, list[Task]] = {}
        around = self.surroundings.around()
        for claim in claims:
            definition = self.definitions.require(claim.job.name)
            task = Task.hold(claim, definition, self.reports)
            self._tasks[task.fence] = task
            if claim.job.damage is not None:
                self._refuse(task, claim.job.damage)
                continue
            if around is not None:
                task.handler = around(definition)
            if claim.job.timeout is not None:
                self._timed[task.fence] = task
            by_kind.setdefault(definition.isolation, []).append(task)
        for kind, tasks in by_kind.items():
            self._runner(kind).submit(tasks)

    def _refuse(self, task: Task, damage: str) -> None:
        """A job whose row cannot be read ends without having run, and alone."""
        task.withdraw()
        log.error("job %s cannot be run, because its row is damaged: %s", task.claim.id, damage)
        self.finish(task, executor.unreadable(damage))

    def _runner(self, kind: str) -> Runner:
        found = self._runners.get(kind)
        if found is None:
            found = self._runners[kind] = self.new_runner(kind, self.settings.concurrency, self.finish)
        return found

    def _expire_handlers(self) -> None:
        now = time.monotonic()
        for fence, task in list(self._timed.items()):
            deadline = task.deadline()
            if task.finished:
                del self._timed[fence]
            elif deadline is not None and task.started is not None and now >= deadline:
                self.stuck.add(task)
                self.finish(task, executor.timed_out(task))
                task.signal.abort("timeout")

    def _release_in_drain(self) -> None:
        too_late = self._give_up_at is not None and time.monotonic() >= self._give_up_at
        for task in self.held():
            if not self.give_back(task) and too_late:
                self.given_up += 1
                self.finish(task, Released())
                task.signal.abort("shutdown")
