"""The pages and the API of limits: who holds permits, changes in place, permits that are taken away."""

from __future__ import annotations

import re
from collections.abc import Callable

from flask import Flask
from hosts import PREFIX, Client

from sloppyjobs import Job, Jobs

BEARER = {"Authorization": "Bearer t0k3n"}


def _held(jobs: Jobs) -> list[Job]:
    """Two jobs that want the only permit of a tenant."""
    jobs.limit("warehouse", concurrency=1)
    made = [jobs.enqueue("export-orders", resource="warehouse", partition="tenant:42") for _ in range(2)]
    names = frozenset({"export-orders"})
    assert made[0].id in {claim.id for claim in jobs.claim("app-9:1", queues=("exports",), names=names, limit=50)}
    return made


def test_a_limit_shows_its_partitions_and_who_holds_its_permits(admin: Client, played: Jobs) -> None:
    first, second = _held(played)
    listed = admin.get("/limits").text
    assert "warehouse" in listed
    assert "payments-api" in listed
    words = " ".join(re.sub(r"<[^>]+>", " ", listed).split())
    assert "What is full?" in words
    assert re.search(r"warehouse , tenant:42: 1 job waits, the first for [^.]+\. Its only permit is in use; it", words)
    page = admin.get("/limits/warehouse").text
    assert "tenant:42" in page
    assert first.id in page
    assert "1 of 1" in page
    line = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "First waits Next in line" in line
    assert f'/jobs/{second.id}"' in page
    assert "Rate left" not in page
    waiting = admin.get(f"/jobs/{second.id}").text
    assert "permit of &#39;warehouse&#39;" in waiting
    assert f'held by export-orders (<a href="{PREFIX}/jobs/{first.id}">{first.id}</a>)' in waiting
    assert waiting.count(f'href="{PREFIX}/limits/warehouse"') == 2
    told = " ".join(re.sub(r"<[^>]+>", " ", waiting).split())
    assert "Limit warehouse , partition tenant:42" in told
    assert "Waits for a permit" in told and "Parked" not in told
    assert admin.get("/limits/none").status_code == 404


def test_the_last_changes_say_what_was_changed(admin: Client, played: Jobs) -> None:
    played.admin.set_limit("warehouse", concurrency=3, create=True, actor="ada")
    words = " ".join(re.sub(r"<[^>]+>", " ", admin.get("/limits/warehouse").text).split())
    assert re.search(r"Last changes Audit ada, .* from no limit to 3 at once", words)


def test_the_list_of_limits_shows_how_full_the_fullest_partition_is(admin: Client, played: Jobs) -> None:
    played.limit("warehouse", concurrency=4)
    played.limit("unlimited", rate=5, per=60)
    for tenant, jobs in (("a", 3), ("b", 1)):
        for _ in range(jobs):
            played.enqueue("export-orders", resource="warehouse", partition=tenant)
    names = frozenset({"export-orders"})
    played.claim("app-9:1", queues=("exports",), names=names, limit=50)
    rows = re.findall(r"<tr[^>]*data-row.*?</tr>", admin.get("/limits").text, re.DOTALL)
    full, free = (next(row for row in rows if f"/limits/{name}" in row) for name in ("warehouse", "unlimited"))
    assert re.search(r"3 of 4\s*<span class=\"sub\">4 in all partitions</span>", full)
    assert '<rect class="k processing" x="0" width="75"' in full
    assert "no limit" in free
    assert "<svg" not in free
    assert played.admin.fullest_partitions(["warehouse", "unlimited"]) == {"warehouse": 3}


def test_a_limit_is_changed_in_place_and_nonsense_refused(admin: Client, played: Jobs) -> None:
    done = admin.post("/limits/payments-api", {"concurrency": "8", "rate": "", "per": "60", "reason": "more"})
    assert done.status_code == 303
    limit = played.admin.get_limit("payments-api")
    assert (limit.concurrency, limit.rate, limit.per) == (8, None, None)
    for field, value in (("concurrency", "0"), ("rate", "lots"), ("rate", "-4")):
        refused = admin.post("/limits/payments-api", {"concurrency": "8", "per": "60", field: value})
        assert refused.status_code == 422
        assert "None" not in refused.text, "words of Python are for the code"
        assert f'value="{value}"' in refused.text
        assert 'aria-invalid="true"' in refused.text
    assert played.admin.get_limit("payments-api").concurrency == 8
    entry = played.admin.audit("payments-api")[0]
    assert (entry.action, entry.reason) == ("set_limit", "more")
    words = re.sub(r"<[^>]+>|\\s+", " ", admin.get("/audit?action=set_limit").text)
    assert "Changed the limit" in words


def test_a_limit_is_made_and_deleted(admin: Client, played: Jobs) -> None:
    assert admin.post("/limits", {"name": "sms", "rate": "30", "per": "1"}).status_code == 303
    assert played.admin.get_limit("sms").rate == 30
    assert "sms is limited: 30 per second." in admin.get("/limits").text
    assert admin.post("/limits", {"name": "", "rate": "30", "per": "1"}).status_code == 422
    nothing = admin.post("/limits", {"name": "faxes", "concurrency": "", "rate": "", "per": "1"})
    assert nothing.status_code == 422
    assert "Write how many jobs may run at once, or a rate below." in nothing.text
    assert "faxes" not in {limit.name for limit in played.admin.list_limits()}
    assert "Delete the limit" in admin.get("/limits/sms/delete").text
    assert admin.post("/limits/sms/delete").status_code == 303
    assert "sms" not in {limit.name for limit in played.admin.list_limits()}


def test_limits_and_permits_are_asked_for_in_a_dialog(admin: Client, played: Jobs) -> None:
    first, _ = _held(played)
    page = admin.get("/limits/warehouse").text
    for path in ("/limits/warehouse/delete", f"/limits/warehouse/release/{first.id}"):
        assert f'hx-get="/admin/jobs{path}"' in page
        assert 'aria-label="Breadcrumb"' not in admin.get(path, headers={"HX-Request": "true"}).text
    # The page of a limit is gone with it, so that the answer is another page.
    assert "hx-post" not in admin.get("/limits/warehouse/delete", headers={"HX-Request": "true"}).text


def test_a_permit_is_released_after_a_warning(admin: Client, played: Jobs) -> None:
    first, second = _held(played)
    asked = admin.get(f"/limits/warehouse/release/{first.id}").text
    assert "may still run" in asked
    assert admin.post(f"/limits/warehouse/release/{first.id}", {"reason": "gone"}).status_code == 303
    assert played.get(second.id).status == "queued"
    assert admin.post(f"/limits/warehouse/release/{first.id}").status_code == 303
    assert "came back already" in admin.get("/limits/warehouse").text


def test_who_may_only_look_changes_nothing(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    viewer = as_role("viewer")
    page = viewer.get("/limits/payments-api").text
    assert "Change it" not in page
    for path in ("/limits", "/limits/payments-api", "/limits/payments-api/delete"):
        assert viewer.post(path, {"concurrency": "1", "per": "60"}).status_code == 403
    assert played.admin.get_limit("payments-api").concurrency == 5


def test_the_api_reads_changes_and_releases(app: Flask, played: Jobs) -> None:
    first, second = _held(played)
    api, base = app.test_client(), f"{PREFIX}/api/v1"
    listed = api.get(f"{base}/limits", headers=BEARER).json
    assert listed is not None
    assert {one["name"] for one in listed["items"]} == {"payments-api", "warehouse"}
    details = api.get(f"{base}/limits/warehouse", headers=BEARER).json
    assert details is not None
    assert details["holders"][0]["job_id"] == first.id
    done = api.post(f"{base}/limits/warehouse/set", headers=BEARER, json={"concurrency": 2, "reason": "ci"})
    assert done.json is not None
    assert done.json["concurrency"] == 2
    assert played.get(second.id).status == "queued"
    assert api.post(f"{base}/limits/warehouse/set", headers=BEARER, json={"concurrency": 0}).status_code == 400
    assert api.post(f"{base}/limits/none/set", headers=BEARER, json={"concurrency": 1}).status_code == 404
    assert api.post(f"{base}/jobs/{first.id}/release_permit", headers=BEARER).status_code == 200
    refused = api.post(f"{base}/jobs/{first.id}/release_permit", headers=BEARER)
    assert refused.json is not None
    assert (refused.status_code, refused.json["error"]["code"]) == (409, "SLOPPY_E_JOBS_PERMIT_NOT_HELD")
    assert refused.json["error"]["message"].startswith(f"Job {first.id} is processing and holds no permit")
    assert api.post(f"{base}/limits/warehouse/delete", headers=BEARER).status_code == 200
    assert api.get(f"{base}/limits/warehouse", headers=BEARER).status_code == 404
