"""Batches: jobs that are counted together, what they call for when they have ended, and what operators do to them."""
