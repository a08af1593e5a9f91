"""What an installation is called, where it stands, and the switch between several."""

from __future__ import annotations

import re
from pathlib import Path

from flask import Flask
from hosts import RolePolicy

import webui
from sloppyjobs import Jobs


def _host(jobs: Jobs, *mounted: tuple[str, str, str]) -> Flask:
    """A host that mounts the pages once for each name, title and environment."""
    app = Flask("host")
    app.secret_key = "host"
    for name, title, environment in mounted:
        blueprint = webui.create_blueprint(jobs, RolePolicy(), name, title=title, environment=environment)
        app.register_blueprint(blueprint, url_prefix=f"/{name}")
    return app


def _get(app: Flask, path: str, role: str = "admin") -> str:
    return app.test_client().get(path, headers={"X-Role": role}).text


def _side(text: str) -> str:
    side = text.partition('<header class="side">')[2].partition('<nav class="nav" aria-label="Main"')[0]
    return " ".join(re.sub(r"<[^>]+>", " ", side).split())


def test_every_page_says_whose_jobs_these_are_and_where(played: Jobs) -> None:
    app = _host(played, ("shop", "Shop", "production"))
    for path in ("/shop/", "/shop/jobs", "/shop/nope"):
        assert _side(_get(app, path)) == "Shop production"
    text = _get(app, "/shop/jobs")
    assert "<title>Jobs · Shop</title>" in text
    assert '<span class="st pill dead">production</span>' in text
    for environment, colour in (
        ("Staging", "retrying"), ("pre-prod", "retrying"), ("nonproductive", "scheduled"),
        ("prod-eu-1", "dead"), ("EU production", "dead"),
    ):  # fmt: skip
        pill = f'<span class="st pill {colour}">{environment}</span>'
        assert pill in _get(_host(played, ("shop", "", environment)), "/shop/")


def test_without_a_title_nothing_is_said(played: Jobs) -> None:
    text = _get(_host(played, ("shop", "", "")), "/shop/jobs")
    assert _side(text) == ""
    assert "<title>Jobs · sloppyjobs</title>" in text


def test_a_title_is_text(played: Jobs) -> None:
    text = _get(_host(played, ("shop", "<b>Shop</b>\n" + "x" * 100, "")), "/shop/jobs")
    assert "<b>" not in text
    assert f"&lt;b&gt;Shop&lt;/b&gt; {'x' * 28}</strong>" in text


def test_somebody_who_is_not_let_in_is_not_told(played: Jobs) -> None:
    app = Flask("host")
    app.secret_key = "host"
    app.register_blueprint(webui.create_blueprint(played, title="Shop"), url_prefix="/shop")
    assert "Shop" not in app.test_client().get("/shop/").text


def test_installations_with_a_title_offer_each_other(played: Jobs) -> None:
    app = _host(played, ("shop", "Shop", "production"), ("bills", "Billing", "staging"), ("quiet", "", ""))
    text = _get(app, "/shop/jobs")
    assert _side(text) == "Shop production Shop production Billing staging"
    assert 'href="/bills/"' in text
    assert re.search(r'<a href="/shop/" aria-current="true">', text)
    assert 'id="installations"' not in _get(app, "/quiet/jobs")


def test_an_installation_whose_address_needs_a_tenant_is_left_out(played: Jobs) -> None:
    app = _host(played, ("shop", "Shop", ""), ("bills", "Billing", ""))
    tenants = webui.create_blueprint(played, RolePolicy(), "tenants", title="Tenants")
    app.register_blueprint(tenants, url_prefix="/<tenant>/jobs")
    assert _side(_get(app, "/shop/jobs")) == "Shop Shop Billing"


def test_the_standalone_pages_take_the_names_from_their_configuration(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    settings = {
        "SLOPPYJOBS_DATABASE_URL": url,
        "SLOPPYJOBS_WEBUI_INSECURE": "1",
        "SLOPPYJOBS_WEBUI_TITLE": "Shop",
        "SLOPPYJOBS_WEBUI_ENVIRONMENT": "staging",
        "SECRET_KEY": "x" * 32,
    }
    Jobs(url).storage.init()
    assert _side(webui.create_app(settings).test_client().get("/").text) == "Shop staging"
