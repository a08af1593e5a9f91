"""Jobs with every kind of option at once, and the worker that runs them: ``mixture.py URL``."""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress
from typing import Any

from sloppyjobs import After, Cancel, Jobs, Result, Retry, Snooze
from sloppyjobs.errors import KeyConflict

LIMITS: dict[str, dict[str, Any]] = {
    "narrow": {"concurrency": 3},
    "wide": {"concurrency": 500},
    "fast": {"concurrency": None, "rate": 200, "per": 1},
}
UNDECLARED = "undeclared"


def define(jobs: Jobs) -> Jobs:
    """Handlers that mostly work, with steps or without; one adds to its own batch."""
    retry = Retry(max_attempts=4, backoff="fixed", initial=0.05)

    @jobs.define("work", retry=retry)
    def work(_ctx: Any, payload: Any) -> Any:
        chance = random.random()
        if chance < 0.08:
            raise ValueError("no luck")
        if chance < 0.12:
            return Cancel("enough") if chance < 0.10 else Snooze(0.05)
        time.sleep(0.01 if chance < 0.3 else 0)
        return {"rows": payload["n"]}

    @jobs.define("stepped", retry=retry)
    def stepped(ctx: Any, _payload: Any) -> Any:
        first = ctx.step("first", lambda: 1)
        ctx.sleep("nap", 0.1)
        if random.random() < 0.1:
            raise ValueError("later")
        return ctx.step("second", lambda: first + 1)

    @jobs.define("grow", retry=retry)
    def grow(ctx: Any, _payload: Any) -> None:
        if ctx.batch is not None:
            ctx.batch.enqueue("work", {"n": 1})

    jobs.define("report", lambda _ctx, _payload: None, retry=retry)
    return jobs


class Producer:
    """Writes jobs, batches and workflows; the same ones for the same seed."""

    def __init__(self, jobs: Jobs, seed: int) -> None:
        self._jobs = jobs
        self._random = random.Random(seed)
        self._recent: list[str] = []

    def write(self) -> None:
        """Write some."""
        for make in self._random.choices((self._single, self._bulk, self._batch, self._workflow), (5, 2, 2, 2)):
            # A job that runs cannot be replaced; then nothing is written.
            with suppress(KeyConflict):
                make()
        self._recent = self._recent[-40:]

    def _maybe(self, share: float) -> bool:
        return self._random.random() < share

    def _options(self) -> dict[str, Any]:
        pick = self._random
        chosen: dict[str, Any] = {}
        if self._maybe(0.3):
            chosen["resource"] = pick.choice([*LIMITS, UNDECLARED])
            chosen["partition"] = pick.choice(["a", "b", None])
        if self._maybe(0.2):
            chosen |= {"business_key": f"key-{pick.randrange(30)}", "unique": pick.choice(["live", "live", "pending"])}
            chosen["on_conflict"] = pick.choice(["return", "replace"])
        if self._maybe(0.2):
            chosen["tags"] = tuple(pick.sample(["a", "b", "c"], 2))
        if self._maybe(0.1):
            chosen["expires"] = pick.choice([1.5, 60])
        if self._maybe(0.1):
            chosen["delay"] = pick.random()
        if self._maybe(0.2):
            chosen["priority"] = pick.randrange(5)
        if self._recent and self._maybe(0.3):
            parents = pick.sample(self._recent, min(len(self._recent), pick.randrange(1, 3)))
            chosen["depends_on"] = [After(parent, on=pick.choice(["success", "always"])) for parent in set(parents)]
            chosen["depends_on_any"] = self._maybe(0.3)
        return chosen

    def _single(self) -> None:
        for _ in range(10):
            name = self._random.choice(["work", "work", "stepped"])
            self._recent.append(self._jobs.enqueue(name, {"n": self._random.randrange(5)}, **self._options()).id)

    def _bulk(self) -> None:
        items = [("work", {"n": n}, self._options() if self._maybe(0.5) else {}) for n in range(40)]
        self._recent += [job.id for job in self._jobs.enqueue_many(items)[:3]]

    def _batch(self) -> None:
        called = ("report", {})
        with self._jobs.batch("mixed", on_complete=called, on_success=called, success_rate=0.5) as batch:
            for _ in range(5):
                batch.enqueue(self._random.choice(["work", "grow", "stepped"]), {"n": 1}, **self._options())
            batch.enqueue_many([("work", {"n": n}) for n in range(20)])

    def _workflow(self) -> None:
        with self._jobs.workflow("mixed") as flow:
            first = flow.add("work", {"n": 2})
            limited = {"resource": "wide"} if self._maybe(0.3) else {}
            middle = [flow.add("work", {"n": n}, after=first, **limited) for n in range(8)]
            flow.add("work", {"n": 1}, after=middle, on=self._random.choice(["success", "always"]))
            flow.add("work", {"n": 1}, after=first, on="failure")
            flow.add("work", {"n": 1}, after=After(first, when=Result("/rows", ">", 1)))


if __name__ == "__main__":
    define(Jobs(sys.argv[1])).create_worker(concurrency=8, lease=2, heartbeat=0.5, poll_interval=0.1).run()
