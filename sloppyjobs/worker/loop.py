"""The worker's loop: each turn settles what has finished since the last one and claims as many as there is room for.

Round trips and commits are per turn, not per job. While the database works on a turn, handlers run on what was
claimed before.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice

from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import Claim, Ended, Settlement
from sloppyjobs.domain.states import AttemptStatus, Decision, Released, Status
from sloppyjobs.encryption import PLAIN, Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.worker.held_tasks import HeldTasks
from sloppyjobs.worker.look_times import LookTimes
from sloppyjobs.worker.middleware import MiddlewareChain
from sloppyjobs.worker.observe.settlement_hooks import SettlementHooks
from sloppyjobs.worker.prefetch import Prefetch
from sloppyjobs.worker.reports import WorkerReports
from sloppyjobs.worker.runners.by_isolation import Runners
from sloppyjobs.worker.runners.find_jobs import Find
from sloppyjobs.worker.settings import Settings
from sloppyjobs.worker.storage import LoopStorage
from sloppyjobs.worker.task import Task

log = get_logger("sloppyjobs.worker")

TURN_LIMIT = 500
"""Jobs claimed in one turn, and settled; larger batches gain nothing, and hold row locks for longer."""

_WISHES = {"quiet": "be quiet", "stop": "stop"}
_FAILED = (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT)


class WorkerLoop:
    """Claims, dispatches and settles the tasks of one worker. One thread turns it; others finish tasks and wake it."""

    def __init__(
        self,
        worker_id: str,
        storage: LoopStorage,
        definitions: Definitions,
        reports: WorkerReports,
        settings: Settings,
        middleware: MiddlewareChain,
        settlement_hooks: SettlementHooks,
        find: Callable[[], Find | None],
        sealing: Sealing = PLAIN,
    ) -> None:
        self.worker_id = worker_id
        self.storage = storage
        self.definitions = definitions
        self.reports = reports
        self.settings = settings
        self.middleware = middleware
        self.settlement_hooks = settlement_hooks
        self.sealing = sealing
        self.turns = 0
        self.turned_at = time.monotonic()
        self.unfinished_at_exit = 0
        self.done = self.failed = 0
        """Attempts that succeeded, and attempts that failed or timed out."""
        self.quiet = False
        """Whether it claims no more, for an operator wants it so."""
        self.left_for_operator = False
        """Whether it stops because an operator wants it to."""
        self.prefetch = Prefetch(settings.concurrency, settings.prefetch)
        self.look_times = LookTimes(settings.poll_interval)
        self.tasks = HeldTasks(settings.concurrency, reports, on_finished=self._interrupt, on_free_slot=self.wake)
        self.runners = Runners(settings.concurrency, self.tasks.finish, middleware.hooks, find)
        self._turns = storage.turns()
        self._claiming: ClaimRequest | None = None
        self._claimed: Sequence[Claim] = ()
        self._children: ClaimRequest | None = None
        self._started_children: Sequence[Claim] = ()
        self._unsettled: list[Settlement] = []
        self._settling: list[Settlement] = []
        self._woken = threading.Event()
        self._may_have_work = True
        self._next_poll = 0.0
        self._promoting = self._news = False
        self._exit_at: float | None = None

    # What other threads call

    def wake(self) -> None:
        """There may be something to claim."""
        self._may_have_work = True
        self._woken.set()

    def news(self) -> None:
        """Somebody has committed something: there may be something to claim, now or soon."""
        self._news = True
        self.wake()

    def drain(self, limit: float) -> None:
        """Claim no more; after ``limit`` seconds, release what has not finished."""
        self._exit_at = time.monotonic() + limit
        self._woken.set()

    def obey(self, wanted: str | None) -> bool:
        """Do as an operator wants: ``quiet``, ``stop``, or None to work; whether anything changes by that."""
        if self.draining or (wanted != "stop" and self.quiet is (wanted == "quiet")):
            return False
        log.info("worker %s: an operator wants it to %s", self.worker_id, _WISHES.get(wanted or "", "work"))
        if wanted == "stop":
            self.left_for_operator = True
            self.drain(self.settings.shutdown_timeout)
        else:
            self.quiet = wanted == "quiet"
            self.wake()
        return True

    @property
    def draining(self) -> bool:
        """Whether the worker is stopping."""
        return self._exit_at is not None

    def overdue(self, seconds: float) -> bool:
        """Whether the worker should have stopped so many seconds ago."""
        return self._exit_at is not None and time.monotonic() > self._exit_at + seconds

    @property
    def drained(self) -> bool:
        """Whether the worker is stopping and has nothing left to do."""
        held = self.tasks or self.tasks.finished or self._unsettled
        return self.draining and not (held or self._claimed or self._started_children or self._claiming)

    def full(self, longer_than: float = 0.0) -> set[str]:
        """The isolations in which nothing can run, because handlers go on whose attempts have ended."""
        stuck = self.tasks.stuck
        return stuck.full(longer_than) | self.runners.blocked() if stuck else set()

    def _interrupt(self) -> None:
        if not self._woken.is_set():
            self._woken.set()

    # What the loop's own thread calls

    def turn(self) -> None:
        """Settle, sweep, claim and dispatch.

        The claim is sent first, so that the database works while the last settlements are completed, the next ones
        are sent, and the last claims are dispatched. Settlements that are sent here are waited for at the next turn.
        """
        self.tasks.expire()
        if self.draining or self.quiet:
            self._dispatch()
            self._release_tasks()
        self._sweep_when_due()
        try:
            self._begin_claim()
            self._end_settling()
            self._begin_settling()
        finally:
            self._dispatch()
        self._end_claim()

    def turned(self) -> None:
        """A turn succeeded; health checks look at this."""
        self.turns += 1
        self.turned_at = time.monotonic()

    def wait(self) -> None:
        """Until a handler finishes, a timeout is due, there may be work, or it is time to poll."""
        now = time.monotonic()
        if self._news and (self.tasks or not self._may_have_work):
            # What can be claimed already has been, and need not wait until it is known what comes next.
            self._news = False
            self.look_times.news(now)
        # ``drain`` may have woken the loop at the same moment as the last handler that finished.
        if self.drained or self.tasks.finished or self._unsettled or self._settling or self._request() is not None:
            return
        self._dispatch()
        until = [self._next_look()] if self._exit_at is None else [self._exit_at]
        until += self.tasks.deadlines()
        if self._exit_at is None and self._next_poll > now:
            # Once it is time to poll, room is all that is missing, and whoever makes room wakes the loop.
            until.append(self._next_poll)
        self.sleep(max(0.0, min(min(until) - time.monotonic(), self.settings.poll_interval)))

    def sleep(self, seconds: float) -> None:
        """Until the loop is woken, as by ``drain``, but not longer than that."""
        self._woken.wait(seconds)
        self._woken.clear()

    def abandon_all(self) -> None:
        """Leave every attempt to its lease, because the database cannot be reached while stopping."""
        log.error("worker %s leaves %d attempts to their leases", self.worker_id, len(self.tasks))
        for task in self.tasks.unfinished():
            task.signal.abort("shutdown")
        self.tasks.clear()
        self._unsettled.clear()
        self._settling = []
        self._claiming = self._children = None
        self._claimed = self._started_children = ()
        self._turns.close()

    def close(self) -> None:
        """End the runners."""
        self._turns.close()
        self.runners.close()

    # Claims

    def _request(self) -> ClaimRequest | None:
        if not (self._may_have_work or time.monotonic() >= self._next_poll):
            return None
        return self._room_beside(self._expected_children())

    def _room_beside(self, reserved: int) -> ClaimRequest | None:
        """A request for as many jobs as there is room for beside so many, and those that are asked for already."""
        if self.draining or self.quiet:
            return None
        # Finished tasks take no room, so the next batch is claimed while the last one is settled.
        finished = len(self.tasks.finished) + len(self._unsettled) + len(self._settling)
        waiting = len(self.tasks) - finished + len(self._claimed) + len(self._started_children) + reserved
        waiting += sum(request.limit for request in (self._claiming, self._children) if request is not None)
        names, lost = self.definitions.handled(), 0
        if self.tasks.stuck:
            names, lost = self._runnable(names)
        room = self.prefetch.capacity(lost) - waiting
        if room <= 0 or not names:
            return None
        return ClaimRequest(self.worker_id, self.settings.queues, names, min(room, TURN_LIMIT), self.settings.lease)

    def _expected_children(self) -> int:
        """How many jobs are expected to start with the settlement of those that have finished."""
        finished = (settlement for _, settlement in self.tasks.finished.copy())
        return self._turns.expected(islice(chain(self._unsettled, finished), TURN_LIMIT))

    def _runnable(self, names: frozenset[str]) -> tuple[frozenset[str], int]:
        """The jobs for which there is a slot, and how many slots those have lost to handlers that are stuck."""
        full = self.full()
        stuck = self.tasks.stuck.by_isolation()
        lost = max((number for isolation, number in stuck.items() if isolation not in full), default=0)
        return frozenset(name for name in names if self.definitions.require(name).isolation not in full), lost

    def _begin_claim(self) -> None:
        if self._claiming is not None or (request := self._request()) is None:
            return
        # A wake-up that comes from here on may be for jobs that this claim does not see.
        self._may_have_work = False
        try:
            self._turns.begin_claim(request._replace(promote=True) if self._promoting else request)
        except Exception:
            self._may_have_work = True
            raise
        self._claiming, self._promoting = request, False

    def _end_claim(self) -> None:
        if self._claiming is None:
            return
        self._claimed = self._turns.claimed()
        request, self._claiming = self._claiming, None
        self._next_poll = time.monotonic() + self.settings.poll_interval
        if len(self._claimed) >= request.limit:
            # There is more, and the next claim is sent before these are dispatched.
            self._may_have_work = True
        else:
            self._dispatch()

    def _dispatch(self) -> None:
        """Give the claims of the last turn to their runners; the database may be busy with the next by now."""
        if not (self._claimed or self._started_children):
            return
        # Read before they are forgotten: a damaged row among them asks the database once more, which may fail.
        claims = [*self._started_children, *self._claimed]
        self._claimed = self._started_children = ()
        by_isolation: dict[str, list[Task]] = {}
        wrap = self.middleware.wrapper()
        for claim in claims:
            task = Task.of_claim(claim, self.definitions.require(claim.job.name), self.reports, wrap, self.sealing)
            self.tasks.add(task)
            job = claim.job
            if job.damage is not None:
                self.tasks.refuse(task, job.damage)
            elif job.expires_at is not None and claim.expired:
                self.tasks.expire_unstarted(task)
            elif task.unreadable is not None:
                self.tasks.refuse_unreadable(task, task.unreadable)
            else:
                by_isolation.setdefault(task.definition.isolation, []).append(task)
        for isolation, tasks in by_isolation.items():
            self.runners.submit(isolation, tasks)

    # Settlements

    def _begin_settling(self) -> None:
        self._collect_finished()
        if not self._unsettled:
            return
        if self.reports.used:
            self.reports.flush()
        children = self._room_beside(0)
        share = self._turns.share(self._unsettled[:TURN_LIMIT], 0 if children is None else children.limit)
        batch = self._unsettled[: share.number]
        if children is not None:
            # Twice as many as are expected; more would be kept from the next claim in vain.
            most = min(children.limit, 2 * share.children + 8)
            children = children._replace(limit=most) if share.children else None
        self._turns.begin_settle(batch, children)
        del self._unsettled[: len(batch)]
        self._settling, self._children = batch, children

    def _end_settling(self) -> None:
        if not self._settling:
            return
        accepted = self._turns.settled()
        self._started_children, children = self._turns.children(), self._children
        if children is not None and len(self._started_children) >= children.limit:
            # There may be others, for which there was no room.
            self._may_have_work = True
        batch, self._settling, self._children = self._settling, [], None
        self._settled(batch, accepted)

    def _collect_finished(self) -> None:
        finished = self.tasks.finished
        while finished:
            task, settlement = finished.popleft()
            if self.reports.used:
                self.reports.end_attempt(task.fence)
            self._unsettled.append(settlement)
            if settlement.run_seconds is not None:
                self.prefetch.ran(settlement.run_seconds)

    def _settled(self, batch: Sequence[Settlement], accepted: set[str]) -> None:
        ended: list[Ended] = []
        successes_too = self.settlement_hooks.wants_successes
        for settlement in batch:
            fence = settlement.job_id, settlement.attempt
            task = self.tasks.remove(fence)
            if settlement.job_id not in accepted:
                log.warning("attempt %d of job %s was stale when it ended; its outcome is ignored", *reversed(fence))
            elif task is not None and (successes_too or settlement.decision.attempt is not AttemptStatus.SUCCEEDED):
                ended.append(Ended(task.claim.job, settlement))
        outcomes = Counter(one.decision.attempt for one in batch if one.job_id in accepted)
        self.done += outcomes[AttemptStatus.SUCCEEDED]
        self.failed += sum(outcomes[status] for status in _FAILED)
        if ended:
            self._due_again(one.settlement.decision for one in ended)
            self.settlement_hooks.settled(ended)

    def _release_tasks(self) -> None:
        """Release what has not started; when the time to stop has come, also what has."""
        too_late = self._exit_at is not None and time.monotonic() >= self._exit_at
        for task in self.tasks.unfinished():
            if not self.tasks.release(task) and too_late:
                self.unfinished_at_exit += 1
                self.tasks.finish(task, Released())
                task.signal.abort("shutdown")

    # Sweeps

    def _sweep_when_due(self) -> None:
        """Look for what is due where it is time for that: by this turn's claim, or by a sweep, which does all else."""
        began, times, busy = time.monotonic(), self.look_times, bool(self.tasks)
        if self.draining:
            return
        if began < times.sweep_at(busy=busy):
            by_claim = self._can_promote()
            if began < times.due_at(busy=busy, by_claim=by_claim):
                return
            if by_claim:
                self._may_have_work = self._promoting = True
                times.claimed(began)
                return
        swept = self.storage.sweep()
        if swept.lost:
            self.settlement_hooks.lost(swept.lost)
        if swept.promoted or swept.expired:
            self._may_have_work = True
        times.swept(began, time.monotonic(), swept)

    def _can_promote(self) -> bool:
        """Whether a claim can be sent now that also queues what has become due."""
        return (
            self._claiming is None and self._turns.promotes and self._room_beside(self._expected_children()) is not None
        )

    def _next_look(self) -> float:
        times, busy = self.look_times, bool(self.tasks)
        return min(times.sweep_at(busy=busy), times.due_at(busy=busy, by_claim=self._can_promote()))

    def _due_again(self, decisions: Iterable[Decision]) -> None:
        """Remember when jobs that were just settled are due again; claim if one is now."""
        decisions = list(decisions)
        self._may_have_work = self._may_have_work or any(one.path[-1] is Status.QUEUED for one in decisions)
        self.look_times.settled(time.monotonic(), decisions)
