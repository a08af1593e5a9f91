"""What is sent besides the data: style sheets, scripts, and pages without their source's indentation."""

from __future__ import annotations

import gzip
import re

import pytest
from hosts import PREFIX, Client

import webui.folders
from webui.assets import Assets


def _address(admin: Client, name: str) -> str:
    stem, _, suffix = name.partition(".")
    found = re.search(rf'"({PREFIX}/assets/{stem}\.[0-9a-f]{{12}}\.{suffix})"', admin.get("/locks").text)
    assert found is not None
    return found[1].removeprefix(PREFIX)


def test_the_style_sheets_are_one_file_in_the_order_of_their_names(admin: Client) -> None:
    text = admin.get(_address(admin, "sj.css")).text
    folder = webui.folders.find("static") / "css"
    assert len(list(folder.glob("*.css"))) > 5
    layers = re.findall(r"@layer sj\.(\w+) \{", text)
    assert layers == sorted(layers, key=["tokens", "base", "frame", "parts", "adapt"].index)
    assert "/*" not in text


def test_a_browser_that_can_unpack_gets_less(admin: Client) -> None:
    address = _address(admin, "sj.js")
    plain = admin.get(address)
    packed = admin.get(address, headers={"Accept-Encoding": "gzip, br"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 2
    assert "Accept-Encoding" in plain.headers["Vary"]
    assert "Accept-Encoding" in packed.headers["Vary"]
    refused = admin.get(address, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers


PACKED = {"Accept-Encoding": "gzip, deflate, br", "Sec-Fetch-Site": "same-origin"}


def test_a_page_is_sent_compressed_to_our_own_pages_and_to_the_address_bar(admin: Client) -> None:
    plain = admin.get("/queues")
    for site in ("same-origin", "none"):
        packed = admin.get("/queues", headers={**PACKED, "Sec-Fetch-Site": site})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "<h1>Queues</h1>" in gzip.decompress(packed.data).decode()
        assert len(packed.data) == int(packed.headers["Content-Length"]) < len(plain.data) / 3
        assert packed.headers["Content-Security-Policy"] == plain.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Accept-Encoding": "gzip"},
        {**PACKED, "Sec-Fetch-Site": "cross-site"},
        {**PACKED, "Sec-Fetch-Site": "same-site"},
        {**PACKED, "Accept-Encoding": "gzip;q=0, br"},
    ],
)
def test_who_may_be_led_by_others_gets_no_length_to_learn_from(admin: Client, headers: dict[str, str]) -> None:
    response = admin.get("/queues", headers=headers)
    assert "Content-Encoding" not in response.headers
    assert {"Accept-Encoding", "Sec-Fetch-Site"} <= set(response.headers["Vary"].split(", "))
    assert "<h1>Queues</h1>" in response.text


def test_a_poll_without_news_is_still_nothing(admin: Client) -> None:
    # The trail has nothing that changes with time. The tag itself changes every 20 minutes: hardly twice in a row.
    asked = {**PACKED, "HX-Request": "true"}
    tag = ""
    for _ in range(3):
        answer = admin.get("/audit", headers={**asked, "HX-PTag": tag})
        if answer.status_code == 304:
            break
        tag = answer.headers["HX-PTag"]
    assert (answer.status_code, answer.data) == (304, b"")


def test_a_page_is_sent_without_the_indentation_of_its_source(admin: Client) -> None:
    assert re.findall(r"\n[ \t]+<", admin.get("/jobs").text) == []


def test_every_file_has_a_name_of_its_content() -> None:
    assets = Assets(webui.folders.find("static"))
    assert re.fullmatch(r"sj\.[0-9a-f]{12}\.css", assets.hashed("sj.css") or "")
    assert assets.hashed("css/10-tokens.css") is None
