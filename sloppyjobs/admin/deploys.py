"""Deploys for operators: to mark one, and to see which there were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from sloppyjobs.admin.filters import command_given
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import deploys
from sloppyjobs.paging import Paging
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.deploys import DeployRow, NewDeploy
from sloppyjobs.views import Page
from sloppyjobs.views.deploys import DeployView

S = TypeVar("S")
T = TypeVar("T")


class DeployAdmin:
    """The part of ``jobs.admin`` that concerns deploys."""

    _storage: Store
    _schedules: Schedules

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def _page(
        self,
        paging: Paging,
        read: Callable[..., Sequence[S]],
        key: Callable[[S], tuple[Any, ...]],
        show: Callable[[S], T],
        cursor: str | None,
        page_size: int,
    ) -> Page[T]:
        raise NotImplementedError

    def mark_deploy(
        self, version: str, note: str | None = None, *, actor: str | None = None, reason: str | None = None
    ) -> DeployView:
        """Write down that a version of the application is deployed now; charts show it.

        A version has up to 128 characters, a note up to 500. The version of the latest deploy is not written again:
        that deploy is returned, with ``existing`` set. Workers that know the version of their application mark it
        by themselves.
        """
        new = NewDeploy(
            deploys.app_version("version", version),
            self._schedules.application or "",
            note=deploys.note("note", note),
        )
        row, fresh = self._storage.deploys.mark(new, command_given("mark_deploy", actor, reason))
        return msgspec.structs.replace(deploy_view(row, self._presenter()), existing=not fresh)

    def list_deploys(self, *, cursor: str | None = None, page_size: int = 50) -> Page[DeployView]:
        """Deploys of the last 90 days, latest first."""
        presenter = self._presenter()
        return self._page(
            Paging("deploys", (int,)),
            self._storage.deploys.page,
            lambda row: (row.number,),
            lambda row: deploy_view(row, presenter),
            cursor,
            page_size,
        )


def deploy_view(row: DeployRow, presenter: Presenter) -> DeployView:
    """A deploy as it is shown."""
    return DeployView(
        number=row.number,
        version=row.version,
        created_at=row.created_at,
        note=presenter.text(None, row.note),
        actor=presenter.text(None, row.actor),
        application=row.application or None,
        worker_id=row.worker_id,
    )
