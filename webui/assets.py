"""Static files under the blueprint's own ``/assets``, named by their content so that browsers keep them for ever.

The style sheets in ``css/`` are served as one ``sj.css``, the scripts in ``js/`` as one ``sj.js``, in the order of
their names: files to read in the source, one request for a browser.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from flask import Response, request

_SUFFIXES = {".css", ".js", ".svg"}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_BUNDLES = {"css": "sj.css", "js": "sj.js"}
_INDENTED = re.compile(rb"\n\s+")
_COMMENTS = {"css": re.compile(rb"/\*.*?\*/", re.DOTALL), "js": re.compile(rb"^\s*//.*$", re.MULTILINE)}
_FOR_EVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """One file, in memory; all of them have less than a megabyte."""

    name: str
    digest: str
    content: bytes
    type: str

    @property
    def hashed(self) -> str:
        """The name with the digest in it: ``sj.0123456789ab.css``."""
        stem, _, suffix = self.name.rpartition(".")
        return f"{stem}.{self.digest}.{suffix}"


class Assets:
    """The files of a folder; ``vendor/`` may be missing, and the pages do without."""

    def __init__(self, folder: Path) -> None:
        self._by_name = {name: _asset(name, content) for name, content in _contents(folder)}
        self._by_hashed = {asset.hashed: asset for asset in self._by_name.values()}

    def hashed(self, name: str) -> str | None:
        """The name under which a file is served; None where it is not there."""
        asset = self._by_name.get(name)
        return None if asset is None else asset.hashed

    def response(self, file: str) -> Response | None:
        """The file of that hashed name. A name of another release gets the present file, which is not cached."""
        asset = self._by_hashed.get(file)
        cached = _FOR_EVER
        if asset is None:
            asset, cached = self._of_another_release(file), "no-cache"
        if asset is None:
            return None
        zipped = request.accept_encodings.quality("gzip") > 0
        response = Response(_zipped(asset.content) if zipped else asset.content, mimetype=asset.type)
        if zipped:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Cache-Control"] = cached
        response.vary.add("Accept-Encoding")
        response.set_etag(asset.digest)
        response.make_conditional(request)
        return response

    def _of_another_release(self, file: str) -> Asset | None:
        stem, _, suffix = file.rpartition(".")
        return self._by_name.get(f"{stem.rpartition('.')[0]}.{suffix}")


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What is served, by name."""
    for part, name in _BUNDLES.items():
        files = sorted((folder / part).glob(f"*.{part}"))
        yield name, _bundle(part, [file.read_bytes() for file in files])
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES and path.parent.name not in _BUNDLES:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _bundle(kind: str, contents: list[bytes]) -> bytes:
    """One file of several. No string of ours spans lines, so that comments and indentation can go."""
    return _INDENTED.sub(b"\n", _COMMENTS[kind].sub(b"", b"\n".join(contents)))


def _asset(name: str, content: bytes) -> Asset:
    suffix = f".{name.rpartition('.')[2]}"
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Asset(name, digest, content, kind)


@lru_cache(maxsize=64)
def _zipped(content: bytes) -> bytes:
    """When it is first asked for: a process that serves no page, and each that starts, need not pay for all files."""
    return gzip.compress(content, mtime=0)
