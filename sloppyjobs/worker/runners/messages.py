"""Messages between a worker and the processes that run its handlers.

Each process has a connection of its own. A shared queue has a lock, and a process that is killed while holding it
blocks all the others.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from sloppyjobs import errors
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.storage.ports.claims import Fence

log = get_logger("sloppyjobs.worker")

Handle = Callable[[Fence, str, tuple[Any, ...]], Any]
"""Does what an attempt asks for; it is given a verb and its arguments."""

BACKLOG = 128
ACCEPT_PAUSE = 0.1
"""Seconds until the next connection is taken after one that could not be."""


class MessageServer:
    """The worker's end: each connection is read in a thread of its own."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._listener = Listener(backlog=BACKLOG, authkey=_key())
        self.address = self._listener.address
        self._closed = False
        self._accepting = threading.Thread(target=self._accept, name="sloppyjobs-processes", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Accept no more connections."""
        self._closed = True
        with suppress(OSError, EOFError, multiprocessing.AuthenticationError):
            # Closing alone does not wake a thread that waits for connections.
            Client(self.address, authkey=_key()).close()
        self._accepting.join(timeout=1)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
                threading.Thread(
                    target=self._receive, args=[connection], name="sloppyjobs-process", daemon=True
                ).start()
            except (OSError, EOFError, RuntimeError, multiprocessing.AuthenticationError):
                # A process that was killed as it connected; or there is no descriptor or thread left, which lasts.
                time.sleep(ACCEPT_PAUSE)

    def _receive(self, connection: Connection[Any, Any]) -> None:
        with connection, suppress(EOFError, OSError):
            while True:
                fence, verb, arguments, wants_reply = connection.recv()
                reply = self._reply(fence, verb, arguments)
                if wants_reply:
                    connection.send(reply)

    def _reply(self, fence: Fence, verb: str, arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        try:
            return self._handle(fence, verb, arguments), None
        except errors.JobsError as error:
            return None, error
        except Exception as error:
            log.exception("%s of attempt %d of job %s failed", verb, fence[1], fence[0])
            return None, errors.JobsError(f"{type(error).__name__}: {error}")


class MessageClient:
    """A process's end."""

    def __init__(self, address: Any) -> None:
        self._connection = Client(address, authkey=_key())
        self._lock = threading.Lock()

    def send(self, fence: Fence, verb: str, *arguments: Any) -> None:
        """Send a message, and do not wait."""
        with self._lock:
            self._connection.send((fence, verb, arguments, False))

    def call(self, fence: Fence, verb: str, *arguments: Any) -> Any:
        """Send a message, and wait for the reply; raises what the worker raised."""
        with self._lock:
            self._connection.send((fence, verb, arguments, True))
            reply, error = self._connection.recv()
        if error is not None:
            raise error
        return reply


def _key() -> bytes:
    """Known to a process and to those that it starts."""
    return bytes(multiprocessing.current_process().authkey)
