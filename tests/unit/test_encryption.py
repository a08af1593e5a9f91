"""Keyrings: what is a key, what an envelope is, and that no message shows one."""

from __future__ import annotations

import base64
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs import DecryptionFailed, DriverMissing, InvalidOption, Jobs, Keyring
from sloppyjobs.domain.payload import encode
from sloppyjobs.domain.sealed import HEAD_LENGTH, data_of, is_sealed, is_whole, key_of
from sloppyjobs.encryption import Sealing, keyring_from

KEY = Keyring.generate()


@given(st.text(), st.text(max_size=40), st.sampled_from(["payload", "result", "step:charge"]))
def test_what_was_encrypted_is_decrypted(text: str, owner: str, what: str) -> None:
    text, owner = (part.encode(errors="replace").decode() for part in (text, owner))
    keyring = Keyring([KEY])
    sealed = keyring.encrypt(owner, what, text)
    assert keyring.decrypt(owner, what, sealed) == text
    assert (is_sealed(sealed), is_whole(sealed), key_of(sealed[:HEAD_LENGTH])) == (True, True, keyring.ids[0])
    assert isinstance(__import__("json").loads(sealed), dict)
    for other in ((owner + "x", what), (owner, what + "x")):
        with pytest.raises(DecryptionFailed, match="belongs to another row"):
            keyring.decrypt(*other, sealed)


def test_the_same_text_is_never_encrypted_in_the_same_way() -> None:
    keyring = Keyring([KEY])
    assert len({keyring.encrypt("job_1", "payload", "{}") for _ in range(100)}) == 100


def test_the_first_key_writes_and_all_of_them_read() -> None:
    old, new = Keyring.generate(), Keyring.generate()
    before = Keyring([old]).encrypt("job_1", "payload", "1")
    both = Keyring([new, old])
    assert both.decrypt("job_1", "payload", before) == "1"
    assert key_of(both.encrypt("job_1", "payload", "1")) == Keyring([new]).ids[0] == both.ids[0]
    with pytest.raises(DecryptionFailed, match="is not here") as failed:
        Keyring([new]).decrypt("job_1", "payload", before)
    assert (failed.value.key, failed.value.missing) == (both.ids[1], True)


@pytest.mark.parametrize("end", ["", '"}}', "AAAA", '=="}}'])
def test_a_damaged_envelope_is_not_decrypted(end: str) -> None:
    keyring = Keyring([KEY])
    head = keyring.encrypt("job_1", "payload", "1").partition('"d":"')[0] + '"d":"'
    with pytest.raises(DecryptionFailed, match="changed"):
        keyring.decrypt("job_1", "payload", head + end)
    assert data_of('{"$enc":{}}') is None


BAD: dict[str, Any] = {
    "too short": base64.b64encode(b"x" * 16).decode(),
    "no base64": "correct horse battery staple!!",
    "bytes": b"short",
    "a number": 7,
    "empty": "",
    "all alike": b"\0" * 32,
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_key_is_refused_by_its_place_and_not_shown(what: str) -> None:
    with pytest.raises(InvalidOption, match=r"keys\[1\]") as refused:
        Keyring([KEY, BAD[what]])
    assert KEY not in str(refused.value)
    assert not BAD[what] or str(BAD[what]) not in str(refused.value)


@pytest.mark.parametrize("keys", [KEY, [], None, [KEY, KEY]], ids=["text", "none", "nothing", "one twice"])
def test_what_is_no_list_of_different_keys_is_refused(keys: Any) -> None:
    with pytest.raises(InvalidOption, match="key") as refused:
        Keyring(keys)
    assert KEY not in str(refused.value)


def test_a_key_given_without_its_keyring_is_not_shown() -> None:
    with pytest.raises(InvalidOption, match="must be a Keyring") as refused:
        Jobs("sqlite://", encryption=KEY)  # type: ignore[arg-type]
    assert KEY not in str(refused.value)


def test_a_keyring_neither_shows_nor_gives_its_keys() -> None:
    keyring = Keyring([KEY])
    assert KEY not in repr(keyring)
    with pytest.raises(TypeError):
        pickle.dumps(keyring)


def test_keys_of_a_setting_are_separated_by_commas() -> None:
    other = Keyring.generate()
    found = keyring_from(f" {KEY} , {other}")
    assert found is not None
    assert found.ids == Keyring([KEY, other]).ids
    assert keyring_from(None) is keyring_from(" ") is None
    with pytest.raises(InvalidOption, match=r"SLOPPYJOBS_ENCRYPTION_KEYS: keys\[1\]") as refused:
        keyring_from(f"{KEY},nonsense")
    assert KEY not in str(refused.value)
    assert "nonsense" not in str(refused.value)


def test_urlsafe_text_of_a_key_is_the_same_key() -> None:
    secret = bytes(range(224, 256))
    ids = {Keyring([form(secret).decode()]).ids for form in (base64.b64encode, base64.urlsafe_b64encode)}
    assert ids == {Keyring([secret]).ids}


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(DriverMissing, match=r"sloppyjobs\[encryption\]"):
        Keyring([KEY])


@given(
    st.recursive(
        st.none() | st.text('ab$ {:"', max_size=5) | st.integers(-5, 5),
        lambda one: st.dictionaries(st.just("$enc"), one),
    )
)
def test_no_payload_looks_like_an_envelope(value: Any) -> None:
    assert not is_sealed(encode(value))


def test_without_keys_texts_stay_as_they_are() -> None:
    plain = Sealing()
    assert plain.seal("job_1", "payload", "1") == plain.open("job_1", "payload", "1") == "1"
    with pytest.raises(DecryptionFailed, match="is not here"):
        plain.open("job_1", "payload", Keyring([KEY]).encrypt("job_1", "payload", "1"))
