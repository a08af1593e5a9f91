"""``create_blueprint``: the routes, templates and hooks of the UI as one blueprint."""

from __future__ import annotations

from typing import Any

from flask import Blueprint
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue

from webui import api, failures, gate, metrics, rendering, routes, security, sent_forms
from webui.installation import Installation, InstallationBlueprint
from webui.policy import Policy
from webui.routes import Route
from webui.ui import JobsLike, Ui
from webui.views import (
    activity,
    alerts,
    archive,
    batches,
    bulk,
    cause,
    dead,
    encryption,
    find,
    frame,
    job,
    job_type,
    jobs,
    limits,
    overview,
    patching,
    queue_ageing,
    queues,
    recurring,
    schedule_editing,
    signalling,
    signing_out,
    workers,
    workflows,
)

ROUTES: tuple[Route, ...] = (
    *overview.ROUTES,
    *jobs.ROUTES,
    *find.ROUTES,
    *patching.ROUTES,
    *signalling.ROUTES,
    *job.ROUTES,
    *job_type.ROUTES,
    *bulk.ROUTES,
    *dead.ROUTES,
    *cause.ROUTES,
    *queues.ROUTES,
    *queue_ageing.ROUTES,
    *schedule_editing.ROUTES,
    *recurring.ROUTES,
    *activity.ROUTES,
    *workers.ROUTES,
    *workflows.ROUTES,
    *archive.ROUTES,
    *alerts.ROUTES,
    *encryption.ROUTES,
    *limits.ROUTES,
    *batches.ROUTES,
    *frame.ROUTES,
    *metrics.ROUTES,
    *api.ROUTES,
)


def create_blueprint(
    jobs: JobsLike,
    policy: Policy | None = None,
    name: str = "sloppyjobs",
    *,
    api_policy: Policy | None = None,
    read_only: bool = False,
    title: str = "",
    environment: str = "",
) -> Blueprint:
    """The admin UI of ``jobs``, to be registered under any prefix; twice in one app under different names.

    ``policy`` decides over the pages; without one they answer 403 and say what to do. ``api_policy`` decides over
    ``/api/v1`` and ``/metrics``, where only bearer tokens count: a ``TokenPolicy``. ``read_only`` refuses every
    command, as ``SLOPPYJOBS_WEBUI_READ_ONLY`` in the application's configuration does.

    ``title`` names the installation and ``environment`` says where it stands, on every page; ``production`` and
    ``staging`` have colours of their own. Blueprints of one app that have a title offer each other in a switcher.
    """
    installation = Installation.named(title, environment)
    return build(Ui(jobs, policy, api_policy, name, read_only=read_only, installation=installation))


def build(ui: Ui, *, owns_root: bool = False) -> Blueprint:
    """The blueprint of a ``Ui``. With ``owns_root`` it answers unknown addresses even without a prefix."""
    blueprint = InstallationBlueprint(ui.name, __name__)
    blueprint.installation = ui.installation

    @blueprint.url_value_preprocessor
    def before_the_host(endpoint: str | None, values: dict[str, Any] | None) -> None:
        routes.decode_values(endpoint, values)
        gate.exempt_from_host(ui)

    @blueprint.before_request
    def admit() -> ResponseReturnValue | None:
        return gate.admit(ui)

    @blueprint.record
    def unknown_addresses(state: BlueprintSetupState) -> None:
        # At the root of a host, the addresses that lead nowhere are the host's.
        if owns_root or (state.url_prefix or "/") != "/":
            for route in frame.NOWHERE:
                _add(state, ui, route)

    blueprint.url_defaults(routes.encode_values)
    # The last of these is called first.
    blueprint.after_request(rendering.compress)
    blueprint.after_request(security.protect)
    blueprint.after_request(rendering.mark_response)
    failures.register(blueprint, ui)
    for route in map(sent_forms.guard, (*ROUTES, *(signing_out.ROUTES if ui.signs_out else ()))):
        ui.routes[route.endpoint] = route
        blueprint.add_url_rule(route.rule, route.endpoint, route.bound(ui), methods=route.methods)
    return blueprint


def _add(state: BlueprintSetupState, ui: Ui, route: Route) -> None:
    ui.routes[route.endpoint] = route
    state.add_url_rule(route.rule, route.endpoint, route.bound(ui), methods=route.methods)
