"""Pages go out compressed, to those of our own pages and to the address bar.

Who makes a browser ask for a page with text of their choice, and sees how long the answer is, could guess a secret in
it when it is compressed. A request that another site has caused says so (``Sec-Fetch-Site``), and is answered plainly;
so is one that says nothing.
"""

from __future__ import annotations

import gzip

from flask import Response, request

OURS = frozenset({"same-origin", "none"})
"""Where a request comes from that nobody else has caused."""
SMALLEST = 1_000
"""Bytes below which it is not worth it."""
_TYPES = frozenset({"text/html"})


def compress(response: Response) -> Response:
    """The answer, smaller where the browser can unpack it."""
    if response.mimetype not in _TYPES or response.direct_passthrough or response.is_streamed:
        return response
    response.vary.update(("Accept-Encoding", "Sec-Fetch-Site"))
    if "Content-Encoding" in response.headers or request.headers.get("Sec-Fetch-Site") not in OURS:
        return response
    content = response.get_data()
    if len(content) >= SMALLEST and request.accept_encodings.quality("gzip") > 0:
        response.set_data(gzip.compress(content, compresslevel=5, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response
