"""Answers that the script may put into a page, what they carry besides the content, and how refusals are worded."""

from __future__ import annotations

import re

import pytest
from hosts import Client

from sloppyjobs import Jobs, Status, errors
from webui import refusals
from webui.failures import explain

POLL = {"HX-Request": "true", "HX-Target": "div#live"}


def test_every_answer_of_ours_says_so(admin: Client, played: Jobs) -> None:
    id = played.admin.list_jobs("dead")[0].id
    for path in ("/", "/jobs", f"/jobs/{id}", "/nope", f"/jobs/{id}/delete", "/counts"):
        for headers in ({}, POLL):
            assert admin.get(path, headers=headers).headers["SJ-Page"] == "1", path
    tag = admin.get("/locks", headers=POLL).headers["HX-PTag"]
    unchanged = admin.get("/locks", headers={**POLL, "HX-PTag": tag})
    assert (unchanged.status_code, unchanged.headers["SJ-Page"]) == (304, "1")
    assert admin.post("/preferences", {"live": "off"}, headers=POLL).headers["SJ-Page"] == "1"


def test_a_poll_carries_the_title_and_the_numbers_of_its_page(admin: Client, played: Jobs) -> None:
    dead = len(played.admin.list_jobs("dead"))
    answer = admin.get("/dead", headers=POLL).text
    assert "<title>Dead jobs · sloppyjobs</title>" in answer
    assert re.search(rf'id="count-dead"[^>]*hx-swap-oob="outerHTML">{dead}<', answer)
    assert "count-workers" not in answer
    assert "count-workers" in admin.get("/", headers=POLL).text
    dialog = admin.get("/dead", headers={"HX-Request": "true", "HX-Target": "dialog#dialog"}).text
    assert "<title>" not in dialog


def test_a_page_does_not_ask_for_the_numbers_that_it_has(admin: Client) -> None:
    assert "/counts?of=workers" in admin.get("/dead").text
    assert "/counts?of=dead+workers" in admin.get("/locks").text
    assert 'id="counts"' not in admin.get("/").text
    assert 'id="count-dead"' not in admin.get("/counts?of=workers", headers=POLL).text


@pytest.mark.parametrize(
    ("status", "action", "words"),
    [
        ("succeeded", "retry", "It has succeeded, so it can't be retried."),
        ("processing", "pause", "It is processing, so it can't be paused."),
        ("processing", "run_now", "It is processing, so it can't be run now."),
    ],
)
def test_a_lost_race_is_told_in_the_words_of_operators(played: Jobs, status: str, action: str, words: str) -> None:
    id = played.admin.list_jobs(status)[0].id
    with pytest.raises(errors.InvalidTransition) as refused:
        getattr(played.admin, action)(id)
    assert refusals.reason(refused.value) == words
    assert explain(refused.value)[2:4] == ("This job changed before your action. Nothing was done.", words)


def test_what_the_core_refuses_is_explained_without_its_syntax(played: Jobs) -> None:
    id = played.admin.list_jobs("dead")[0].id
    played.admin.delete(id)
    with pytest.raises(errors.InvalidTransition) as refused:
        played.admin.retry(id)
    assert refusals.reason(refused.value) == "It was deleted, so it can't be retried."
    past = played.storage.clock.now()
    with pytest.raises(errors.InvalidOption) as option:
        played.admin.pause_queue("emails", until=past)
    assert explain(option.value).text == "Choose a time in the future."
    with pytest.raises(errors.InvalidOption) as unknown:
        played.admin.list_jobs(order="nonsense")
    assert "order=" not in explain(unknown.value).text
    assert refusals.reason(errors.InvalidTransition(status=Status.QUEUED)) == "It is queued now."
    assert refusals.reason(errors.InvalidTransition(status=Status.DELETED)) == "It was deleted."
    assert refusals.reason(errors.InvalidTransition("was created meanwhile")) == "It was created meanwhile."


@pytest.mark.parametrize("path", ["/jobs", "/jobs?status=dead", "/recurring", "/audit", "/workers"])
def test_an_address_with_a_cursor_that_leads_nowhere_says_what_to_do(admin: Client, path: str) -> None:
    answer = admin.get(f"{path}{'&' if '?' in path else '?'}cursor=abc")
    assert answer.status_code == 400
    assert "Open the list from its start." in answer.text
    assert "next_cursor" not in answer.text


def test_a_status_of_workflows_that_does_not_exist_is_named(admin: Client) -> None:
    answer = admin.get("/workflows?status=nonsense")
    assert answer.status_code == 422
    page = answer.text.partition("Nothing was searched")[2]
    assert "Must be one of" in page


def test_a_reason_with_colons_in_it_is_shown_whole(played: Jobs) -> None:
    with pytest.raises(errors.InvalidOption) as refused:
        played.admin.list_jobs(created_from="a: b")
    assert explain(refused.value).text == ("Created from is not ISO 8601 text, such as 2030-01-31T09:00:00+01:00.")
