"""Hides secrets in everything that is shown."""

from sloppyjobs.domain.redaction.redactor import Redactor

__all__ = ["Redactor"]
