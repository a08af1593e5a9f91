"""Keeps Alembic's autogenerate away from our tables: they have migrations of their own.

An application's ``flask db migrate`` or ``alembic revision --autogenerate`` finds our tables in the database and not in
the application's metadata, and would write a migration that drops them. What ``register`` adds to Alembic takes those
operations out again. The Flask extension calls it; an ``env.py`` without Flask calls it itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

SCHEMA_TABLE = "job_schema"

# Under Alembic's name, so that it is shown where Alembic has just announced the tables as removed.
log = logging.getLogger("alembic.autogenerate.sloppyjobs")

_registered = False


def register() -> None:
    """Add our comparison to Alembic's, for this process; repeating it does nothing."""
    global _registered  # noqa: PLW0603 - Alembic's registry is global too
    if _registered:
        return
    from alembic import util  # noqa: PLC0415 - applications that never migrate need not import it
    from alembic.autogenerate import comparators  # noqa: PLC0415

    # After Alembic's own comparison. Before 1.18 functions run in the order of their registration.
    priorities = getattr(util, "DispatchPriority", None)
    options = {} if priorities is None else {"priority": priorities.LAST}
    comparators.dispatch_for("schema", **options)(_leave_our_tables)
    _registered = True


def register_where_migrations_may_run() -> None:
    """``register``, where Alembic is loaded already or Flask-Migrate, which loads it, is installed."""
    if "alembic" in sys.modules or find_spec("flask_migrate") is not None:
        register()


def _leave_our_tables(autogen_context: Any, upgrade_ops: Any, schemas: Any) -> None:  # noqa: ARG001
    """Remove the operations that would drop a table of ours, or an index of one."""
    from alembic.operations import ops  # noqa: PLC0415

    dropped = [(one.schema, one.table_name) for one in upgrade_ops.ops if isinstance(one, ops.DropTableOp)]
    ours = set(our_tables(dropped))
    if not ours:
        return
    log.info("The %d tables of sloppyjobs stay: they have migrations of their own.", len(ours))
    upgrade_ops.ops[:] = [
        one
        for one in upgrade_ops.ops
        if not (isinstance(one, ops.DropTableOp | ops.ModifyTableOps) and (one.schema, one.table_name) in ours)
    ]


def our_tables(found: Iterable[tuple[str | None, str]]) -> Iterator[tuple[str | None, str]]:
    """Those of the tables (schema, name) that are ours, whatever their prefix."""
    present = set(found)
    for schema, name in present:
        if not name.endswith(SCHEMA_TABLE):
            continue
        prefix = name.removesuffix(SCHEMA_TABLE)
        # Our table of versions never stands alone; a host may have one of that name.
        if {(schema, prefix + "jobs"), (schema, prefix + "job_events")} <= present:
            yield from ((at, other) for at, other in present if at == schema and is_ours(other, prefix))


def is_ours(name: str, prefix: str) -> bool:
    """Whether a table of that name is ours. New versions add tables: what may be ours is left alone."""
    return name in (f"{prefix}jobs", f"{prefix}recurring_jobs") or name.startswith(f"{prefix}job_")
