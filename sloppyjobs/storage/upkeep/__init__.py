"""Retention and cleanup, a bounded batch at a time."""
