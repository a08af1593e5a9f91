"""The admin service: what an operator sees and does. The UI and the command line call nothing else."""

from __future__ import annotations

from sloppyjobs.admin.service import Admin

__all__ = ["Admin"]
