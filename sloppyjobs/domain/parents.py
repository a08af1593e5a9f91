"""The results of the jobs that a job has waited for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

ParentResult = tuple[str, str, str | None]
"""The id, the name and the result, as JSON, of a parent."""


class Parents(Mapping[str, Any]):
    """Results by the id of the parent, or by its name where only one has that name."""

    def __init__(self, found: Sequence[ParentResult]) -> None:
        self._by_id = {id: None if text is None else msgspec.json.decode(text) for id, _, text in found}
        self._ids: dict[str, list[str]] = {}
        for id, name, _ in found:
            self._ids.setdefault(name, []).append(id)

    def __getitem__(self, key: str) -> Any:
        if key in self._by_id:
            return self._by_id[key]
        ids = self._ids.get(key, [])
        if len(ids) > 1:
            raise KeyError(f"{len(ids)} parents are called {key!r}: ask for each by its id, {', '.join(ids[:3])} …")
        return self._by_id[ids[0] if ids else key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __repr__(self) -> str:
        return f"<results of {len(self)} parents>"
