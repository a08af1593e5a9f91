"""What is said between a worker and the processes that run its handlers.

Each process has a line of its own. A queue that they share has a lock, and whoever is killed while holding it silences
all the others.
"""

from __future__ import annotations

import logging
import multiprocessing
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from sloppyjobs import errors
from sloppyjobs.storage.ports.claims import Fence

log = logging.getLogger("sloppyjobs.worker")

Answer = Callable[[Fence, str, tuple[Any, ...]], Any]
"""Does what an attempt asks for: a verb and its arguments."""

CALLERS = 128


class Switchboard:
    """The worker's end: hears every line in a thread of its own."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = Listener(backlog=CALLERS, authkey=_key())
        self.address = self._listener.address
        self._closed = False
        self._accepting = threading.Thread(target=self._accept, name="sloppyjobs-processes", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Take no more calls."""
        self._closed = True
        with suppress(OSError, EOFError, multiprocessing.AuthenticationError):
            # Closing alone does not wake a thread that waits for calls.
            Client(self.address, authkey=_key()).close()
        self._accepting.join(timeout=1)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                line = self._listener.accept()
            except (OSError, EOFError, multiprocessing.AuthenticationError):
                # A process that was killed as it called; the next one may live.
                continue
            threading.Thread(target=self._hear, args=[line], name="sloppyjobs-process", daemon=True).start()

    def _hear(self, line: Connection[Any, Any]) -> None:
        with line, suppress(EOFError, OSError):
            while True:
                fence, verb, arguments, asks = line.recv()
                answered = self._answered(fence, verb, arguments)
                if asks:
                    line.send(answered)

    def _answered(self, fence: Fence, verb: str, arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        try:
            return self._answer(fence, verb, arguments), None
        except errors.JobsError as error:
            return None, error
        except Exception as error:
            log.exception("%s of attempt %d of job %s failed", verb, fence[1], fence[0])
            return None, errors.JobsError(f"{type(error).__name__}: {error}")


class Line:
    """A process's end."""

    def __init__(self, address: Any) -> None:
        self._line = Client(address, authkey=_key())
        self._lock = threading.Lock()

    def tell(self, fence: Fence, verb: str, *arguments: Any) -> None:
        """Say something, and go on."""
        with self._lock:
            self._line.send((fence, verb, arguments, False))

    def ask(self, fence: Fence, verb: str, *arguments: Any) -> Any:
        """Say something, and wait for the answer; raises what the worker raised."""
        with self._lock:
            self._line.send((fence, verb, arguments, True))
            answer, error = self._line.recv()
        if error is not None:
            raise error
        return answer


def _key() -> bytes:
    """Known to a process and to those that it starts."""
    return bytes(multiprocessing.current_process().authkey)
