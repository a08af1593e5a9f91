"""Clusters on loopback: real servers that are killed, demoted and cut off under load. ``python -m cluster --help``."""
