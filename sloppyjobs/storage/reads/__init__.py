"""Reads of bounded cost: lists, counts, the overview, dead jobs by cause."""
