"""Schedules as rows, and their firing."""
