"""Recurring jobs: timetables, the schedules of an application, and the jobs that they spawn."""
