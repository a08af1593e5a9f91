"""The public conformance suite over the databases that this project supports."""

from sloppyjobs.testing.conformance import *  # noqa: F403
