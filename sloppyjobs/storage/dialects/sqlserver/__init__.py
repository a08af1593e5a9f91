"""SQL Server 2019 and newer: lists and rows as JSON, lock hints, upserts that meet a unique index."""
