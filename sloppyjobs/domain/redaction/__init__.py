"""Hides secrets in everything that is shown.

Its patterns never step back, so that no text takes them long. Groups are repeated in atomic groups, ``(?>(?:…)*)``, and
not possessively, ``(?:…)*+``, which Python before 3.11.5 matches wrongly.
"""

from sloppyjobs.domain.redaction.redactor import Redactor

__all__ = ["Redactor"]
