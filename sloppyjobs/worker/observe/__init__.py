"""What a worker reports of itself: logs, metrics, hooks."""
