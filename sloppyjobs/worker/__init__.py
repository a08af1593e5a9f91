"""Workers: the processes that run jobs."""

from sloppyjobs.worker.context import Context, Signal
from sloppyjobs.worker.worker import Worker

__all__ = ["Context", "Signal", "Worker"]
