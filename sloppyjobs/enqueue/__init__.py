"""From a call to a job that can be written: definitions, options, payloads."""
