"""Alerts: rules that code declares, workers that evaluate them, jobs that deliver what was found."""
