"""Commands that print a list page by page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.params import as_json, paged
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.views import Page

if TYPE_CHECKING:
    from sloppyjobs.admin import Admin

Find = Callable[["Admin"], Callable[..., Page[Any]]]
"""The method that reads a page."""
Render = Callable[[Console, Page[Any], datetime], None]


def listing(name: str, help: str, find: Find, render: Render) -> click.Command:
    """A command that prints what the admin lists."""

    @click.command(name, help=help)
    @paged()
    @as_json
    @pass_target
    def command(target: Target, page_size: int, cursor: str | None, as_json: bool) -> None:
        _print(target, find, render, page_size, cursor, as_json)

    return command


def listing_group(name: str, help: str, list_help: str, find: Find, render: Render) -> click.Group:
    """A group of commands that prints the list by itself, and as its command ``list``."""

    @click.group(name, help=help, invoke_without_command=True)
    @paged()
    @as_json
    @click.pass_context
    def group(ctx: click.Context, page_size: int, cursor: str | None, as_json: bool) -> None:
        if ctx.invoked_subcommand is None:
            _print(ctx.obj, find, render, page_size, cursor, as_json)

    group.add_command(listing("list", list_help, find, render))
    return group


def more(page: Page[object], as_json: bool) -> None:
    """Say how to go on, where a page is not the last."""
    if page.next_cursor is not None and not as_json:
        output.hint(f"there is more: repeat with --cursor {page.next_cursor}")


def _print(target: Target, find: Find, render: Render, page_size: int, cursor: str | None, as_json: bool) -> None:
    page = find(target.admin)(cursor=cursor, page_size=page_size)
    output.emit(page, as_json, lambda out: render(out, page, target.now()))
    more(page, as_json)
