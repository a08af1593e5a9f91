"""A small HTTP server beside the worker: ``/metrics`` for Prometheus, ``/healthz`` for whoever restarts workers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from prometheus_client.exposition import choose_encoder

from sloppyjobs import errors
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.worker.observe.metrics import LoopStatus, WorkerMetrics

log = get_logger("sloppyjobs.worker")

CLIENT_SECONDS = 10.0
"""How long a client may take over its request."""


_SLOTS = {"thread": "thread", "async": "coroutine", "process": "process"}


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    content_type: str
    body: bytes


Page = Callable[[str], Answer]
"""Answers a request; it is given the ``Accept`` header."""


class Endpoint:
    """Serves a few pages in threads of its own, on the first of some ports that is free."""

    def __init__(self, host: str, ports: Sequence[int], pages: Mapping[str, Page]) -> None:
        self._server = _listen(host, ports, pages)
        self._thread = threading.Thread(target=self._server.serve_forever, name="sloppyjobs-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=1)


def worker_pages(
    metrics: WorkerMetrics, loop_status: Callable[[], LoopStatus], stall_timeout: float
) -> dict[str, Page]:
    """The pages of a worker.

    It is healthy while its loop has turned within ``stall_timeout`` seconds and it has slots that are not stuck.
    """

    def show_metrics(accept: str) -> Answer:
        encode, content_type = choose_encoder(accept)
        return Answer(200, content_type, encode(metrics.registry))

    def show_health(_accept: str) -> Answer:
        now = loop_status()
        status = "stalled" if now.since_turn > stall_timeout else "stuck" if now.full else "ok"
        facts = {
            "status": status,
            "last_turn_seconds": round(now.since_turn, 3),
            "running": now.running,
            "draining": now.draining,
            "stuck": now.stuck,
        }
        if status == "stuck":
            kinds = " and ".join(_SLOTS.get(kind, kind) for kind in now.full)
            facts["detail"] = f"no {kinds} free: handlers go on after their attempts have ended; restart the worker"
        return Answer(200 if status == "ok" else 503, "application/json", json.dumps(facts).encode())

    return {"/metrics": show_metrics, "/healthz": show_health}


def _listen(host: str, ports: Sequence[int], pages: Mapping[str, Page]) -> ThreadingHTTPServer:
    class Requests(_Requests):
        """The requests of this server."""

        served = pages

    class Server(ThreadingHTTPServer):
        """IPv4 or IPv6, as the host says."""

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    refused: OSError | None = None
    for port in ports:
        try:
            return Server((host, port), Requests)
        except OSError as error:
            refused = error
    shown = f"port {ports[0]}" if len(ports) == 1 else f"any of the ports {ports[0]} to {ports[-1]}"
    raise errors.JobsError(f"the metrics cannot be served on {host}, {shown}: {refused}") from refused


class _Requests(BaseHTTPRequestHandler):
    """GET of one of a few pages; anything else is 404."""

    served: Mapping[str, Page] = {}
    server_version = "sloppyjobs"
    sys_version = ""
    timeout = CLIENT_SECONDS

    def do_GET(self) -> None:
        """Answer."""
        page = self.served.get(self.path.partition("?")[0])
        if page is None:
            self._send(Answer(404, "text/plain", b"there are /metrics and /healthz\n"))
            return
        try:
            answer = page(self.headers.get("Accept", ""))
        except Exception:
            log.exception("%s failed", self.path)
            answer = Answer(500, "text/plain", b"failed; the worker's log says why\n")
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: scrapes come every few seconds."""
