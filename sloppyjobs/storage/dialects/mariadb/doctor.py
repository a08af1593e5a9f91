"""What can be wrong with a MariaDB or MySQL server and the connections to it."""

from __future__ import annotations

from sloppyjobs.storage.checks import Check

CHECKS: dict[str, Check] = {}
