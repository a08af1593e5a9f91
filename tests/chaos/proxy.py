"""A TCP proxy in front of PostgreSQL that fails on command: delay, black-hole, reset, or drop an answer.

It runs in threads of the test's own process and listens on a free port of 127.0.0.1. Faults concern the connections
that are open when they are asked for, those that come later, or both, as each method says.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

from sqlalchemy import URL, make_url

CHUNK = 65536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
SSL_REQUESTS = (80877103, 80877104)
"""What a client may send before its startup message: whether the server speaks TLS or GSSAPI."""
READY = b"Z\x00\x00\x00\x05I"
"""ReadyForQuery, outside any transaction: what was asked for is committed, or rolled back."""


class Statements:
    """The texts of the statements that a client sends, prepared ones too, from the bytes of its connection."""

    def __init__(self) -> None:
        self._buffer = b""
        self._started = False
        self._prepared: dict[bytes, bytes] = {}

    def executed(self, data: bytes) -> list[bytes]:
        """The statements that begin with the messages in ``data``."""
        self._buffer += data
        found: list[bytes] = []
        while (message := self._next()) is not None:
            kind, body = message
            if kind == b"Q":
                found.append(body)
            elif kind == b"P":
                name, text, _ = body.split(b"\x00", 2)
                self._prepared[name] = text
            elif kind == b"B":
                _, name, _ = body.split(b"\x00", 2)
                found.append(self._prepared.get(name, b""))
        return found

    def _next(self) -> tuple[bytes, bytes] | None:
        kind = 1 if self._started else 0
        if len(self._buffer) < kind + 4:
            return None
        end = kind + int.from_bytes(self._buffer[kind : kind + 4])
        if len(self._buffer) < end:
            return None
        message, self._buffer = self._buffer[:end], self._buffer[end:]
        if not self._started:
            self._started = int.from_bytes(message[4:8]) not in SSL_REQUESTS
        return message[:kind], message[kind + 4 :]


class Link:
    """One client connection and its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.statements = Statements()
        self.drops_next_answer = False
        self.black_holed = threading.Event()
        self.closed = threading.Event()

    def reset(self) -> None:
        """Close both sides at once; the client sees a reset, not an orderly end."""
        self.closed.set()
        for side in (self.client, self.server):
            try:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                # Wakes a thread that reads from it; a mere close would not.
                side.shutdown(socket.SHUT_RD)
            except OSError:
                pass
            side.close()


class FaultyProxy:
    """Forwards to ``target`` (host, port) until it is told to misbehave. Use as a context manager."""

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.target = target
        self.delay = 0.0
        """Seconds that every chunk waits, in both directions."""
        self.refuse = False
        """New connections are closed at once, as by a server that is down."""
        self.black_hole_new = False
        """New connections are accepted, and nothing passes on them."""
        self.commits_dropped = 0
        """How many answers to COMMIT were dropped so far."""
        self.answers_dropped = 0
        """How many answers to statements that were asked for by their text were dropped so far."""
        self._drop_commits = 0
        self._drop_answers: list[bytes] = []
        self._links: list[Link] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="faulty-proxy", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._listener.close()
        self.reset()

    def url(self, real: str | URL) -> str:
        """The URL of the same database through this proxy."""
        through = make_url(real)
        query = {key: value for key, value in through.query.items() if key not in ("host", "port")}
        through = through.set(host="127.0.0.1", port=self.port, query=query)
        return through.render_as_string(hide_password=False)

    @property
    def links(self) -> list[Link]:
        """The connections that are open now."""
        with self._lock:
            return [link for link in self._links if not link.closed.is_set()]

    def reset(self) -> None:
        """Reset every open connection."""
        for link in self.links:
            link.reset()

    def black_hole(self) -> list[Link]:
        """From now on nothing passes on the open connections, in either direction; new ones work."""
        links = self.links
        for link in links:
            link.black_holed.set()
        return links

    def drop_commit_answers(self, count: int = 1) -> None:
        """Let the server commit, then reset the connection instead of passing on its answer; ``count`` times."""
        with self._lock:
            self._drop_commits += count

    def drop_answer_to(self, text: str, count: int = 1) -> None:
        """Let the server execute a statement that contains ``text``, then reset instead of passing on its answer.

        Within a transaction it is the answer to its end that is dropped; so in any case the effect is committed.
        """
        with self._lock:
            self._drop_answers += [text.encode()] * count

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            link = Link(client, server)
            if self.black_hole_new:
                link.black_holed.set()
            with self._lock:
                self._links = [other for other in self._links if not other.closed.is_set()] + [link]
            for source, sink, from_server in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(link, source, sink, from_server), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self.target, str):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self.target)
            return server
        return socket.create_connection(self.target)

    def _pump(self, link: Link, source: socket.socket, sink: socket.socket, from_server: bool) -> None:
        try:
            while data := source.recv(CHUNK):
                if self.delay:
                    time.sleep(self.delay)
                if not from_server:
                    self._watch(link, data)
                elif self._must_drop(data) or self._was_asked_to_drop(link, data):
                    link.reset()
                    return
                if not link.black_holed.is_set():
                    sink.sendall(data)
        except OSError:
            pass
        if not link.black_holed.is_set() and not link.closed.is_set():
            link.closed.set()
            source.close()
            sink.close()

    def _watch(self, link: Link, data: bytes) -> None:
        for statement in link.statements.executed(data):
            with self._lock:
                wanted = next((text for text in self._drop_answers if text in statement), None)
                if wanted is not None and not link.drops_next_answer:
                    self._drop_answers.remove(wanted)
                    link.drops_next_answer = True

    def _was_asked_to_drop(self, link: Link, data: bytes) -> bool:
        if not link.drops_next_answer or READY not in data:
            return False
        with self._lock:
            self.answers_dropped += 1
        return True

    def _must_drop(self, data: bytes) -> bool:
        # CommandComplete ('C', length, tag) of a COMMIT. A single autocommitted statement has another tag.
        if b"COMMIT\x00" not in data:
            return False
        with self._lock:
            if self._drop_commits <= 0:
                return False
            self._drop_commits -= 1
            self.commits_dropped += 1
            return True


def server_address(url: str | URL) -> tuple[str, int] | str:
    """Where the server of this URL listens: host and port, or the path of its socket."""
    parsed = make_url(url)
    host = parsed.host or parsed.query.get("host") or "127.0.0.1"
    port = parsed.port or int(str(parsed.query.get("port") or 5432))
    assert isinstance(host, str)
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
