"""What a worker costs while there is nothing to do."""

from __future__ import annotations

from benchmarks import databases, subject
from benchmarks.report import Report
from benchmarks.subject import PeerMissing


def run(server: str, seconds: float, peers: tuple[str, ...]) -> list[Report]:
    """A worker on PostgreSQL, one on SQLite, and a peer."""
    report = Report(f"idle: {seconds:g} s with no jobs", ("system", "CPU % of a core", "RSS MB", "threads"))
    with databases.fresh_postgres(server) as url:
        subject.run("ours", "prepare", url=url)
        _add(report, "sloppyjobs, PostgreSQL", subject.run("ours", "idle", url=url, seconds=seconds))
    with databases.fresh_sqlite() as path:
        subject.run("ours", "prepare", url=f"sqlite:///{path}")
        found = subject.run("ours", "idle", url=f"sqlite:///{path}", seconds=seconds)
        _add(report, "sloppyjobs, SQLite", found)
    if not peers or "pgqueuer" in peers:
        try:
            with databases.fresh_postgres(server) as url:
                subject.run("pgqueuer_peer", "prepare", url=url)
                _add(report, "pgqueuer", subject.run("pgqueuer_peer", "idle", url=url, seconds=seconds))
        except PeerMissing as missing:
            report.note(f"skipped: pgqueuer ({missing})")
    return [report]


def _add(report: Report, name: str, found: dict[str, float]) -> None:
    report.add(name, found["cpu_percent"], found["rss_mb"], str(found["threads"]))
