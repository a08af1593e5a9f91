"""Workflows of the sample shop: one that went well, one that a dead job holds up, and a wide one."""

from __future__ import annotations

from datetime import timedelta

from sloppyjobs.domain.dependencies import Result
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

PARTS = 240
LATER = timedelta(hours=4)
"""After everything that is filled in."""


def fill_workflows(past: Jobs, clock: FakeClock) -> None:
    """Run a refresh twice: first all goes well, then a picture cannot be read; the clock stands as before."""
    begun = clock.now()
    worker = past.create_worker(recurring=False, maintenance=False)
    for run, broken in enumerate((False, True)):
        _refresh(past, run, broken=broken)
        for _ in range(5):
            worker.run_once()
            clock.advance(timedelta(minutes=1))
    with past.workflow("rebuild-thumbnails", metadata={"shelf": "spring"}) as flow:
        listed = flow.add("fetch-rates", {"currencies": ["EUR"]})
        pictures = [
            flow.add("resize-image", {"path": f"products/{number}.jpg", "widths": [320]}, after=listed)
            for number in range(PARTS)
        ]
        flow.add("send-email", {"to": "shop@example.com", "subject": "Thumbnails"}, after=pictures, delay=LATER)
    for _ in range(2):
        worker.run_once()
    clock.set(begun)


def _refresh(past: Jobs, run: int, *, broken: bool) -> None:
    with past.workflow("catalogue-refresh", correlation_id=f"catalogue-{run}", metadata={"region": "eu"}) as flow:
        rates = flow.add("fetch-rates", {"currencies": ["EUR", "GBP"], "apiKey": "demo-rates-api-key"})
        report = flow.add("import-report", {"rows": 1200, "source": "sftp://bank.example/daily.csv"})
        pictures = [
            flow.add(
                "resize-image",
                {
                    "path": f"products/{number}.jpg",
                    "widths": [320],
                    "fails": "format" if broken and number == 5 else None,
                },
                after=report,
                max_attempts=1,
            )
            for number in range(8)
        ]
        synced = flow.add("sync-contacts", {"page": 1}, after=[rates, *pictures])
        flow.add("send-email", {"to": "shop@example.com", "subject": "Catalogue"}, after=synced, delay=LATER)
        alarm = {"to": "oncall@example.com", "subject": "A picture cannot be read"}
        flow.add("send-email", alarm, after=pictures, on="failure", any=True)
        flow.add("fetch-rates", {"currencies": ["JPY"]}, after=report, when=Result("/rows", ">", 100_000))
