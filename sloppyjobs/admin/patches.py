"""Payloads that are changed without being shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sloppyjobs import errors
from sloppyjobs.admin.filters import command_given
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.merge_patch import changed_keys, merged
from sloppyjobs.domain.payload import version_of
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.encryption import PAYLOAD, Sealing
from sloppyjobs.enqueue.definitions import Definition, Definitions
from sloppyjobs.enqueue.upcasts import upcast
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.patches import NewPayload, StoredPayload
from sloppyjobs.views import JobView

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
"""Where an error quotes a value; names of fields and types are quoted otherwise."""
PATCHABLE = frozenset(Status) - (FINISHED - {Status.DEAD}) - {Status.PROCESSING, Status.FAILED}
"""Jobs that have not started, or may be tried again."""


class PatchAdmin:
    """The part of ``jobs.admin`` that changes payloads."""

    _storage: Store
    _definitions: Definitions
    _sealing: Sealing
    _payload_limit: int

    def get_job(self, id: str) -> JobView:
        """The job, as the admin shows it."""
        raise NotImplementedError

    def patch_payload(
        self, id: str, merge_patch: Mapping[str, Any], *, actor: str | None = None, reason: str | None = None
    ) -> JobView:
        """Change the payload of a job that is not running by a JSON merge patch (RFC 7396), without showing it.

        Objects are merged key by key, null removes a key, anything else takes the old value's place. The result is
        checked as an enqueue checks it, against the definition's schema where the name is known here. The audit trail
        has the keys that changed, never a value. Raises ``InvalidTransition`` for a job that runs or has ended,
        ``InvalidPayload`` for a result that is refused, ``InvalidOption`` for what is no object.
        """
        patch = self._plain_patch(merge_patch)

        def decide(stored: StoredPayload) -> NewPayload | None:
            _refuse_unpatchable(stored)
            before = payload.decode(self._sealing.open(stored.job_id, PAYLOAD, stored.payload))
            if not isinstance(before, dict):
                raise errors.InvalidPayload(
                    f"the payload of job {id} is no JSON object, and a merge patch changes keys of objects",
                    field="merge_patch",
                    reason="the payload is no JSON object",
                )
            after = merged(before, patch)
            text = payload.encode(after, self._payload_limit)
            self._check_schema(stored, payload.decode(text))
            keys = changed_keys(before, after)
            return NewPayload(self._sealing.seal(stored.job_id, PAYLOAD, text), keys) if keys else None

        self._storage.payloads.replace(id, decide, command_given("patch_payload", actor, reason))
        return self.get_job(id)

    def _plain_patch(self, merge_patch: object) -> dict[str, Any]:
        if not isinstance(merge_patch, Mapping):
            # Without the value, which may be a secret.
            raise errors.InvalidOption(
                'merge_patch must be a JSON object with the keys that change, such as {"amount": 5}',
                field="merge_patch",
                reason='must be a JSON object with the keys that change, such as {"amount": 5}',
            )
        plain: dict[str, Any] = payload.decode(payload.encode(dict(merge_patch), self._payload_limit, what="patch"))
        if not plain:
            raise options.refuse("merge_patch", {}, "must name at least one key")
        return plain

    def _check_schema(self, stored: StoredPayload, value: Any) -> None:
        definition = self._definitions.get(stored.name)
        if definition is None or definition.input is None or version_of(stored.payload_version) > definition.version:
            # Unknown here, or of newer code: its worker looks at it.
            return
        try:
            _fit(value, stored.payload_version, definition)
        except errors.UpcastFailed:
            raise errors.InvalidPayload(
                f"the payload of version {version_of(stored.payload_version)} cannot be upcast after this patch",
                field="merge_patch",
                reason="the payload cannot be upcast after this patch",
            ) from None
        except errors.InvalidPayload as error:
            reason = _QUOTED.sub("…", error.reason or "does not fit")
            raise errors.InvalidPayload(f"{error.field}: {reason}", field=error.field, reason=reason) from None


def _fit(value: Any, written: int | None, definition: Definition) -> None:
    if version_of(written) == definition.version:
        payload.convert(value, definition.input)
    else:
        payload.validate_input(upcast(value, written, definition), definition.input)


def _refuse_unpatchable(stored: StoredPayload) -> None:
    if stored.status in PATCHABLE:
        return
    why = "runs, and has read its payload" if stored.status is Status.PROCESSING else f"is {stored.status}"
    raise errors.InvalidTransition(
        f"job {stored.job_id} {why}; the payload of a job that waits or is dead can be patched",
        status=stored.status,
        command="patch_payload",
    )
