"""Jobs in a Flask application: ``SloppyJobs`` binds late, as extensions do. Importing it starts nothing."""

from sloppyjobs.flask.extension import SloppyJobs
from sloppyjobs.flask.migrations import include_object, include_object_for

__all__ = ["SloppyJobs", "include_object", "include_object_for"]
