"""The application that is under load: ``python -m cluster.application worker|producer URL LOG``.

Producers enqueue in every way there is, and never give up on a job with a key. Handlers take a while, and some fail at
first. All of them write the history.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import DBAPIError

from sloppyjobs import Jobs, Retry, StorageUnavailable
from sloppyjobs.testing import history

LEASE = 6.0
PAUSE = 0.02
"""Seconds between two enqueues of a producer."""


def connect(url: str, *, pooler: bool = False) -> Jobs:
    """The jobs of this application; through a pooler, without what it does not pass on."""
    jobs = Jobs(url)
    if pooler:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        from sloppyjobs import storage

        address = url.replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(address, poolclass=NullPool, connect_args={"prepare_threshold": None})
        jobs = Jobs(storage.postgres(engine, notify=False))
    retry = Retry(max_attempts=20, backoff="fixed", initial=0.2, jitter=True)
    jobs.define("work", work, retry=retry)
    jobs.define("stumble", stumble, retry=retry)
    return jobs


def work(_ctx: Any, _payload: Any) -> None:
    """Take some hundredths of a second, so that whatever is killed holds some."""
    time.sleep(random.uniform(0.01, 0.1))


def stumble(ctx: Any, _payload: Any) -> None:
    """Fail at first."""
    if ctx.attempt == 1:
        raise ConnectionError("not today")


class Producer:
    """Enqueues until it is told to stop."""

    def __init__(self, jobs: Jobs, log: history.Log) -> None:
        self.jobs = jobs
        self.client = history.Client(jobs, log)
        self.log = log
        self.stopping = threading.Event()

    def run(self) -> None:
        """One enqueue after the other, each of another kind."""
        kinds: list[Callable[[int], None]] = [
            self.with_key,
            self.plain,
            self.bulk,
            self.later,
            self.in_transaction,
            self.rolled_back,
            self.under_a_lock,
        ]
        number = 0
        while not self.stopping.wait(PAUSE):
            number += 1
            try:
                kinds[number % len(kinds)](number)
            except StorageUnavailable:
                # It is in the history as one that failed; the next one may go well.
                self.stopping.wait(0.2)

    def with_key(self, number: int) -> None:
        """Repeated until it is acknowledged."""
        key = f"order-{os.getpid()}-{number}"
        while not self.stopping.is_set():
            try:
                self.client.enqueue("work", {"n": number}, idempotency_key=key)
            except StorageUnavailable:
                self.stopping.wait(0.2)
            else:
                return

    def plain(self, number: int) -> None:
        """At once, and it fails at first."""
        self.client.enqueue("stumble", {"n": number})

    def bulk(self, number: int) -> None:
        """Ten at once."""
        self.client.enqueue_many([("work", {"n": number}, {"priority": place}) for place in range(10)])

    def later(self, number: int) -> None:
        """Due in a while."""
        self.client.enqueue("work", {"n": number}, delay=0.5)

    def in_transaction(self, number: int) -> None:
        """In a transaction of the application's own."""
        self._in_transaction(number, commit=True)

    def rolled_back(self, number: int) -> None:
        """In a transaction that is rolled back."""
        self._in_transaction(number, commit=False)

    def under_a_lock(self, number: int) -> None:
        """While nobody else does."""
        locks = self.client.locks(f"producer-{os.getpid()}")
        if locks.acquire("till", ttl=5):
            self.client.enqueue("work", {"n": number})
            locks.release("till")

    def _in_transaction(self, number: int, *, commit: bool) -> None:
        try:
            with self.jobs.storage.engine.connect() as connection:
                job = self.client.enqueue("work", {"n": number}, connection=connection)
                if commit:
                    connection.commit()
                    self.log.committed(job)
                else:
                    connection.rollback()
                    self.log.rolled_back(job)
        except StorageUnavailable:
            raise
        except DBAPIError:
            # The transaction is the application's own, and so is its error. Its end is not known.
            self.stopping.wait(0.2)


def main() -> None:
    """Run as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["worker", "producer"])
    parser.add_argument("url")
    parser.add_argument("log")
    parser.add_argument("--pooler", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    jobs = connect(options.url, pooler=options.pooler)
    log = history.Log(options.log)
    if options.role == "worker":
        history.record_handlers(jobs, log)
        jobs.create_worker(
            concurrency=8, lease=LEASE, heartbeat=1, poll_interval=0.5, shutdown_timeout=30, maintenance=False
        ).run()
        return
    producer = Producer(jobs, log)
    signal.signal(signal.SIGTERM, lambda *_: producer.stopping.set())
    producer.run()


if __name__ == "__main__":
    main()
