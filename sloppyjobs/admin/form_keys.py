"""Forms that were sent, for whoever shows the admin pages: the same form sent twice is done once."""

from __future__ import annotations

from sloppyjobs.domain import options
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.operators import SentForm


class FormAdmin:
    """Keys of forms and what they were answered, seen by every process. A purge removes them after a day."""

    _storage: Store

    def claim_form(self, key: str, claimed_by: str) -> SentForm:
        """Take a key if nobody has; the result says whose it is, since when, and what it was answered, if it was.

        ``claimed_by`` is of this one request and of no other.
        """
        return self._storage.form_keys.claim(options.text("key", key), options.text("claimed_by", claimed_by))

    def sent_form(self, key: str) -> SentForm | None:
        """The same without taking it; None where nobody has it."""
        return self._storage.form_keys.sent(options.text("key", key))

    def finish_form(self, key: str, claimed_by: str, answer: str) -> None:
        """Keep what the form was answered."""
        self._storage.form_keys.finish(key, claimed_by, answer)

    def release_form(self, key: str, claimed_by: str) -> None:
        """Give a key back, because nothing was done."""
        self._storage.form_keys.release(key, claimed_by)
