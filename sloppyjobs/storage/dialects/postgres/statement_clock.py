"""The clock of set-based statements."""

CLOCK = "clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now)"
"""The clock, read once per statement."""
