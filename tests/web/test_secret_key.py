"""The key in a file is ours alone, or it is refused; and the cookie that it signs keeps to TLS."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

import webui
from webui.standalone import NotConfigured

CREDENTIALS = {"SLOPPYJOBS_WEBUI_USERNAME": "ops", "SLOPPYJOBS_WEBUI_PASSWORD": "s3cret"}
KEY = "0123456789abcdef" * 4


def _app(tmp_path: Path, **more: str) -> Any:
    return webui.create_app({"SLOPPYJOBS_DATABASE_URL": f"sqlite:///{tmp_path / 'jobs.db'}", **CREDENTIALS, **more})


def _plant(file: Path, content: str = KEY, mode: int = 0o600) -> None:
    file.write_text(content)
    file.chmod(mode)


def _refused(tmp_path: Path, words: str) -> None:
    with pytest.raises(NotConfigured, match=words) as refused:
        _app(tmp_path)
    assert ".secret_key" in str(refused.value)
    assert "set SECRET_KEY" in str(refused.value)
    assert _app(tmp_path, SECRET_KEY="given").secret_key == "given"


def test_a_key_of_our_own_is_used_again(tmp_path: Path) -> None:
    _plant(tmp_path / ".secret_key")
    assert _app(tmp_path).secret_key == KEY


@pytest.mark.parametrize("content", ["", "\n", "short", "x" * 31])
def test_an_empty_or_short_key_is_refused(tmp_path: Path, content: str) -> None:
    _plant(tmp_path / ".secret_key", content)
    _refused(tmp_path, "at least 32")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o602])
def test_a_key_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    _plant(tmp_path / ".secret_key", mode=mode)
    _refused(tmp_path, f"mode {mode:04o}")


def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        _plant(tmp_path / ".secret_key")
        os.chown(tmp_path / ".secret_key", 65534, -1)
        _refused(tmp_path, "belongs to user 65534")
        return
    # Without the rights to give a file away, one that is another's anywhere will do.
    from webui.secret_key import UnsafeKey, _check_file

    with pytest.raises(UnsafeKey, match="belongs to user 0"):
        _check_file(Path("/etc/passwd"), Path("/etc/passwd").stat())


def test_a_link_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    file = tmp_path / ".secret_key"
    _plant(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    _refused(tmp_path, "cannot be opened")
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    _refused(tmp_path, "cannot be opened")
    assert not (tmp_path / "nowhere").exists()
    file.unlink()
    os.mkfifo(file, 0o600)
    _refused(tmp_path, "not a regular file")
    file.unlink()
    file.mkdir(0o700)
    _refused(tmp_path, "not a regular file|cannot be opened")


def test_a_draft_that_a_crash_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / f".secret_key.{os.getpid()}").write_text("left over")
    key = _app(tmp_path).secret_key
    assert (tmp_path / ".secret_key").read_text() == key
    assert stat.S_IMODE((tmp_path / ".secret_key").stat().st_mode) == 0o600


def _cookies(app: Any, **options: Any) -> list[str]:
    response = app.test_client().get("/queues", auth=("ops", "s3cret"), **options)
    return [value for name, value in response.headers if name == "Set-Cookie"]


def test_the_session_cookie_is_secure_over_tls_only(tmp_path: Path) -> None:
    app = _app(tmp_path)
    (plain,) = _cookies(app)
    (secure,) = _cookies(app, base_url="https://localhost")
    for cookie in (plain, secure):
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
    assert "Secure" not in plain
    assert "Secure" in secure


def test_the_session_cookie_is_secure_behind_a_proxy_that_ends_tls(tmp_path: Path) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
    (believed,) = _cookies(_app(tmp_path, SLOPPYJOBS_WEBUI_PROXIES="1"), headers=headers)
    (ignored,) = _cookies(_app(tmp_path), headers=headers)
    assert "Secure" in believed
    assert "Secure" not in ignored
