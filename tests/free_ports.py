"""Ports that nobody uses, for the servers that tests start as processes of their own."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

_RANGE = range(20_000, 32_000)
"""Below those that the kernel gives to connections: none of them can take a port between our look and its use."""
_CHOICE = random.Random()


def free_port() -> int:
    """A port that nobody listens on."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody listens on."""
    while True:
        first = _CHOICE.choice(_RANGE)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first
