"""Deploys of an application."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sloppyjobs.domain.spreads import Spread


class DeployView(msgspec.Struct, frozen=True, kw_only=True):
    """A deploy, as somebody marked it or a worker noticed it. The note and the actor are redacted."""

    number: int
    version: str
    created_at: datetime
    note: str | None = None
    actor: str | None = None
    application: str | None = None
    """Whose it is, where applications that share a database have names; None for all."""
    worker_id: str | None = None
    """The worker that noticed it, by the version of its application; None where somebody marked it."""
    existing: bool = False
    """Of ``mark_deploy``: whether the latest deploy had this version already, so that nothing was written."""


class DeployComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Run times of one kind of job before and since the latest deploy, of at least 20 runs on each side."""

    deploy: DeployView
    before: Spread
    """Of runs that began before it, and after the deploy before that one."""
    since: Spread

    @property
    def slower(self) -> bool:
        """Whether half of the runs take clearly longer: a quarter more, and 10 ms."""
        if self.before.p50 is None or self.since.p50 is None:
            return False
        return self.since.p50 >= max(1.25 * self.before.p50, self.before.p50 + 0.01)
