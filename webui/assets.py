"""Static files under the blueprint's own ``/assets``, named by their content so that browsers keep them for ever."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from flask import Response, request

_SUFFIXES = {".css", ".js", ".svg"}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """One file, in memory: all of them together are smaller than a photograph."""

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
        found = (self._read(folder, path) for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES)
        self._by_name = {asset.name: asset for asset in found}
        self._by_hashed = {asset.hashed: asset for asset in self._by_name.values()}

    def hashed(self, name: str) -> str | None:
        """The name under which a file is served; None where it is not there."""
        asset = self._by_name.get(name)
        return None if asset is None else asset.hashed

    def response(self, file: str) -> Response | None:
        """The file of that hashed name. A name of another release gets the present file, not kept."""
        asset = self._by_hashed.get(file)
        cached = _FOR_EVER
        if asset is None:
            asset, cached = self._of_another_release(file), "no-cache"
        if asset is None:
            return None
        response = Response(asset.content, mimetype=asset.type)
        response.headers["Cache-Control"] = cached
        response.set_etag(asset.digest)
        response.make_conditional(request)
        return response

    def _of_another_release(self, file: str) -> Asset | None:
        stem, _, suffix = file.rpartition(".")
        return self._by_name.get(f"{stem.rpartition('.')[0]}.{suffix}")

    @staticmethod
    def _read(folder: Path, path: Path) -> Asset:
        content = path.read_bytes()
        kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return Asset(path.relative_to(folder).as_posix(), hashlib.sha256(content).hexdigest()[:12], content, kind)
