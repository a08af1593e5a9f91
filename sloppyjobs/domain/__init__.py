"""The pure part: values, states, retries, payloads, redaction. No I/O, no clock, no SQLAlchemy."""
