"""Ports of loopback that nobody uses."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

_RANGE = range(20_000, 32_000)
"""Below those that the kernel gives to connections."""


def free_ports(count: int) -> list[int]:
    """So many ports that nobody listens on."""
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = random.choice(_RANGE)
            try:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
        return found
