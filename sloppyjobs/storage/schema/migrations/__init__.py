"""Alembic migrations on the library's own version table, run from code."""
