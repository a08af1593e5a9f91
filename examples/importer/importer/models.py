"""Files that were uploaded, and the prices that came out of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from importer import db


class Import(db.Model):  # type: ignore[name-defined,misc]
    """A file on its way. How far it is say its job and its batch; nothing is written down twice."""

    id: Mapped[int] = mapped_column(primary_key=True)
    filename: Mapped[str] = mapped_column(String(200))
    content: Mapped[str] = mapped_column(Text)
    job_id: Mapped[str | None] = mapped_column(String(40))
    rows_by_tenant: Mapped[dict[str, int] | None] = mapped_column(JSON)
    """What the check has found: whoever approves should know what."""
    approved_by: Mapped[str | None] = mapped_column(String(80))
    batch_id: Mapped[str | None] = mapped_column(String(40))
    report: Mapped[dict[str, Any] | None] = mapped_column(JSON)


class Price(db.Model):  # type: ignore[name-defined,misc]
    """What an article costs at a tenant's."""

    tenant: Mapped[str] = mapped_column(String(80), primary_key=True)
    article: Mapped[str] = mapped_column(String(80), primary_key=True)
    cents: Mapped[int] = mapped_column()
