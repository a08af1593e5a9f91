"""The life of a job as SQL: insert, claim, settle, leases, transitions."""
