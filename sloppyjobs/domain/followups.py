"""What can hang on a job, as the bits of one column. Pure."""

from __future__ import annotations

from enum import IntFlag


class Followup(IntFlag):
    """What hangs on a job: the bits of its column ``followups``."""

    DEPENDANTS = 1
    KEY = 2
    """A business key, until the job ends."""
    BATCH = 4
    """A batch that counts it."""
    PERMIT = 8
    """A limit, of which it needs a permit to run."""
    PENDING_KEY = 16
    """A business key, until the job starts."""
    PARENTS = 32
    """Other jobs that it waits for."""
    ANY_PARENT = 64
    """One of them is enough."""
    STEPS = 128
    """Steps, sleeps and signals of its handler."""
