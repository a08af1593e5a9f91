"""Webhooks: one POST with JSON, signed, with a time-out; a redirect is not followed."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import time
from urllib.parse import urlsplit

from sloppyjobs.errors import JobsError

SECRET_VARIABLE = "SLOPPYJOBS_ALERT_SECRET"  # noqa: S105 - the name of the variable
TIMEOUT = 10.0
TIMESTAMP_HEADER = "Sloppyjobs-Timestamp"
SIGNATURE_HEADER = "Sloppyjobs-Signature"


class WebhookFailed(JobsError):
    """The receiver of a webhook could not be reached, or has not accepted it."""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the signature's header: HMAC-SHA256 over the timestamp, a dot and the body."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


def post(url: str, body: bytes, secret: str | None, timeout: float = TIMEOUT) -> int:
    """Send it; the status of the answer, which is 2xx, or ``WebhookFailed``."""
    key = secret or os.environ.get(SECRET_VARIABLE)
    if not key:
        raise WebhookFailed(f"no secret to sign the webhook with: set {SECRET_VARIABLE}, or give declare_alert one")
    # The receiver compares it with its own clock, so that an old request cannot be sent again.
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "sloppyjobs",
        TIMESTAMP_HEADER: timestamp,
        SIGNATURE_HEADER: signature(key, timestamp, body),
    }
    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=timeout)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        # Without the address, whose path may be a secret.
        raise WebhookFailed(f"{parts.hostname}: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
    if not 200 <= status < 300:
        moved = ", and redirects are not followed" if 300 <= status < 400 else ""
        raise WebhookFailed(f"{parts.hostname} answered HTTP {status}{moved}")
    return status
