"""How a worker shows what it does: logs, metrics, hooks."""
