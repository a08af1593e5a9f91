"""Where the time of a drain goes: samples of every Python thread, and seconds per statement in PostgreSQL."""

from __future__ import annotations

from benchmarks import databases, subject
from benchmarks.report import Report


def run(server: str, jobs: int, handlers: str) -> list[Report]:
    """Sample a worker that drains; then run its statements one by one and time them."""
    with databases.fresh_postgres(server) as url:
        subject.run("ours", "prepare", url=url, jobs=jobs)
        sampled = subject.run("sampling", "drain", url=url, jobs=jobs, handlers=handlers)
    threads = Report(
        f"profile: CPU by thread, {handlers}, {sampled['per_second']:,.0f} jobs/s while sampled",
        ("thread", "CPU s", "us/job"),
    )
    for name, seconds in sampled["threads"]:
        threads.add(name, seconds, seconds / jobs * 1e6)
    functions = Report(
        "profile: functions by samples in which they ran or waited",
        ("thread", "function", "itself", "with what it called"),
    )
    for thread, function, itself, whole in sampled["functions"]:
        functions.add(thread, function, f"{itself:.1%}", f"{whole:.1%}")
    functions.note("shares of the samples of the thread; waiting for a lock or a socket counts as running")
    return [threads, functions, _statements(server, jobs)]


def _statements(server: str, jobs: int) -> Report:
    report = Report("profile: PostgreSQL by statement, one after the other", ("statement", "ms/turn", "us/job"))
    for analyze in (False, True):
        with databases.fresh_postgres(server) as url:
            subject.run("ours", "prepare", url=url, jobs=jobs)
            if analyze:
                databases.execute(url, "ANALYZE")
            found = subject.run("bare", "statement_times", url=url, jobs=jobs)
        for name, seconds in found["seconds"].items():
            state = "after ANALYZE" if analyze else "no statistics"
            report.add(f"{name}, {state}", seconds / found["turns"] * 1000, seconds / jobs * 1e6)
    report.note("turns of 200 jobs; round trips and fetching included")
    return report
