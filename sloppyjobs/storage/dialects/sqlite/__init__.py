"""SQLite: one writer at a time, instants as text, lists as JSON."""
