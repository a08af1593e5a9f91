"""Workers: the processes that run jobs."""

from sloppyjobs.worker.context import AsyncContext, Context, Signal
from sloppyjobs.worker.worker import Worker

__all__ = ["AsyncContext", "Context", "Signal", "Worker"]
