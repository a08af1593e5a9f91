"""Encryption at rest: ``Keyring``, and the one place where texts are encrypted and decrypted.

AES-256-GCM. A key of the keyring encrypts nothing itself: each row and column has a key that is derived from it (HKDF),
so that random nonces never run out, and a text of one row cannot be read as that of another.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from sloppyjobs.domain.model import Claim, Job, NewJob
from sloppyjobs.domain.payload import decode
from sloppyjobs.domain.sealed import Sealed, data_of, envelope, is_sealed, key_of
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.errors import DecryptionFailed, DriverMissing, InvalidOption

KEYS_VARIABLE = "SLOPPYJOBS_ENCRYPTION_KEYS"
"""The environment variable, and the key of a Flask configuration."""
KEY_BYTES = 32
NONCE_BYTES = 12
PAYLOAD, RESULT, LOG, SCHEDULE, STEP, SIGNAL = "payload", "result", "log", "schedule", "step", "signal"
"""What a text is, which is a part of what it is encrypted for."""
_ACCEPTED = "must be 32 bytes, or their base64 text as `sloppyjobs generate-key` prints it"


def sealed_as(kind: StepKind, name: str) -> str:
    """What the result of a step, or the value of a signal, is encrypted as: each for its own name."""
    return f"{SIGNAL if kind is StepKind.SIGNAL else STEP} {name}"


class Keyring:
    """Keys for encryption at rest: the first one writes, all of them read.

    A key is 32 random bytes, or their base64 text. ``InvalidOption`` names the place of one that is not, and never
    shows it. Needs the extra ``sloppyjobs[encryption]``.
    """

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        self._aead = _aead()
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise InvalidOption("a Keyring takes a list of keys: Keyring([new_key, old_key])", field="keys")
        self._keys: dict[str, bytes] = {}
        for place, key in enumerate(keys):
            secret = _secret(key, f"keys[{place}]")
            id = _key_id(secret)
            if id in self._keys:
                raise InvalidOption(f"keys[{place}]: is the same as an earlier one", field="keys")
            self._keys[id] = secret
        if not self._keys:
            raise InvalidOption("a Keyring needs at least one key", field="keys")

    @classmethod
    def from_text(cls, text: str) -> Keyring:
        """The keys of a setting: separated by commas, the first one writes."""
        return cls([part.strip() for part in text.split(",")])

    @staticmethod
    def generate() -> str:
        """A new key, as text."""
        return base64.b64encode(os.urandom(KEY_BYTES)).decode()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys, that of the one that writes first. They are told in the open."""
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"<Keyring {', '.join(self._keys)}>"

    def __reduce__(self) -> Any:
        raise TypeError("a Keyring is not pickled: its keys would leave the process")

    def encrypt(self, owner: str, what: str, text: str) -> str:
        """An envelope that only this owner's ``what`` can be read from."""
        id, secret = next(iter(self._keys.items()))
        purpose, nonce = _purpose(owner, what), os.urandom(NONCE_BYTES)
        data = self._aead(_derived(secret, purpose)).encrypt(nonce, text.encode(), purpose)
        return envelope(id, base64.b64encode(nonce + data).decode())

    def decrypt(self, owner: str, what: str, text: str) -> str:
        """What ``encrypt`` was given; ``DecryptionFailed`` where the key is not here or the envelope was changed."""
        id = key_of(text)
        secret = None if id is None else self._keys.get(id)
        if secret is None:
            raise missing(what, id)
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        purpose = _purpose(owner, what)
        try:
            raw = base64.b64decode(data_of(text) or "", validate=True)
            plain: bytes = self._aead(_derived(secret, purpose)).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], purpose)
            return plain.decode()
        except (InvalidTag, ValueError, binascii.Error):
            # The cause would say nothing more.
            raise DecryptionFailed(
                f"the {what} cannot be decrypted with its key {id}: it was changed, or belongs to another row", key=id
            ) from None


_FIELD: Any = vars(Job)["result"]


class UnreadableJob(Job[Any], frozen=True, gc=False):
    """A job whose result cannot be decrypted here: everything else of it can be read."""

    @property  # type: ignore[misc] # read before the field of the same name
    def result(self) -> Any:
        """Raises ``DecryptionFailed``, which names the key."""
        error = _FIELD.__get__(self)
        raise DecryptionFailed(str(error), key=error.key, missing=error.missing)


class Sealing:
    """Encrypts and decrypts the texts of one ``Jobs``; without a keyring it leaves them as they are."""

    def __init__(self, keyring: Keyring | None = None) -> None:
        if keyring is not None and not isinstance(keyring, Keyring):
            # Its repr might be a key.
            raise InvalidOption("encryption must be a Keyring: encryption=Keyring([key])", field="encryption")
        self.keyring = keyring

    @property
    def on(self) -> bool:
        """Whether what is written is encrypted."""
        return self.keyring is not None

    def seal(self, owner: str, what: str, text: str) -> str:
        """The text as it is stored for this owner: an envelope where there are keys."""
        return text if self.keyring is None else self.keyring.encrypt(owner, what, text)

    def open(self, owner: str, what: str, text: str) -> str:
        """The text of what is stored; ``DecryptionFailed`` where it is encrypted and cannot be read."""
        if not is_sealed(text):
            return text
        if self.keyring is None:
            raise missing(what, key_of(text))
        return self.keyring.decrypt(owner, what, text)

    def knows(self, key_id: str | None) -> bool:
        """Whether the key of that id is here."""
        return self.keyring is not None and key_id in self.keyring.ids

    def serve(self, storage: Any) -> None:
        """Let a store read results, which it compares with what dependent jobs need."""
        dependencies = getattr(storage, "dependencies", None) if self.on else None
        if dependencies is not None:
            dependencies.read_results_by(self.open)

    # Jobs

    def seal_new(self, new: Sequence[NewJob]) -> Sequence[NewJob]:
        """New jobs as they are to be written."""
        if self.keyring is None:
            return new
        encrypt = self.keyring.encrypt
        return [NewJob(job.id, encrypt(job.id, PAYLOAD, job.payload), job.terms) for job in new]

    def open_claim(self, claim: Claim) -> Claim:
        """A claim with its payload as it was enqueued."""
        if not claim.sealed:
            return claim
        return msgspec.structs.replace(claim, payload_json=self.open(claim.id, PAYLOAD, claim.payload_json))

    def seal_result(self, job_id: str, result: str | None) -> str | None:
        """A result as it is to be written."""
        return result if result is None or self.keyring is None else self.keyring.encrypt(job_id, RESULT, result)

    def open_job(self, job: Job) -> Job:
        """A job with its result as the handler returned it; one that cannot be read raises when it is asked for."""
        if type(job.result) is not Sealed:
            return job
        try:
            return msgspec.structs.replace(job, result=decode(self.open(job.id, RESULT, job.result.text)))
        except DecryptionFailed as error:
            return UnreadableJob(**{**msgspec.structs.asdict(job), "result": error.with_traceback(None)})

    # Log lines

    def seal_line(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        """A log line as it is to be written: message and fields together are in its fields."""
        if self.keyring is None:
            return line
        text = msgspec.json.encode([line["message"], line["fields"]]).decode()
        return {**line, "message": "", "fields": self.keyring.encrypt(line["job_id"], LOG, text)}

    def open_line(self, job_id: str, message: str, fields: str | None) -> tuple[str, str | None]:
        """The message and the fields of a stored log line."""
        if fields is None or not is_sealed(fields):
            return message, fields
        opened: tuple[str, str | None] = msgspec.json.decode(
            self.open(job_id, LOG, fields), type=tuple[str, str | None]
        )
        return opened


PLAIN = Sealing()
"""Without keys."""


def missing(what: str, key_id: str | None) -> DecryptionFailed:
    """The error for a text whose key is not here."""
    key = f"key {key_id}, which is not here" if key_id else "a key that is not known"
    return DecryptionFailed(
        f"the {what} is encrypted with {key}: add the key to the keyring, and retry", key=key_id, missing=True
    )


def keyring_from(text: str | None) -> Keyring | None:
    """The keyring of a setting; None where it is empty. ``InvalidOption`` names the setting, never a key."""
    if not text or not text.strip():
        return None
    try:
        return Keyring.from_text(text)
    except InvalidOption as error:
        raise InvalidOption(f"{KEYS_VARIABLE}: {error}", field=KEYS_VARIABLE) from None


def configured_keyring() -> Keyring | None:
    """The keyring of the environment."""
    return keyring_from(os.environ.get(KEYS_VARIABLE))


def _aead() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise DriverMissing(
            "encryption needs the package cryptography: pip install 'sloppyjobs[encryption]'"
        ) from error
    return AESGCM


def _secret(key: object, where: str) -> bytes:
    if isinstance(key, str):
        try:
            key = base64.b64decode(key.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (ValueError, binascii.Error):
            key = b""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES or len(set(key)) == 1:
        raise InvalidOption(f"{where}: {_ACCEPTED}", field="keys")
    return key


def _key_id(secret: bytes) -> str:
    return sha256(b"sloppyjobs key id\0" + secret).hexdigest()[:8]


def _purpose(owner: str, what: str) -> bytes:
    return f"sloppyjobs:1\0{what}\0{owner}".encode()


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """The first block of HKDF-Expand (RFC 5869), which is as long as a key."""
    return hmac.digest(secret, purpose + b"\x01", "sha256")
