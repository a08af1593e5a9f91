"""``completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_SLOPPYJOBS_COMPLETE"
_WHERE = {
    "bash": 'eval "$(sloppyjobs completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(sloppyjobs completion zsh)" in ~/.zshrc',
    "fish": "sloppyjobs completion fish > ~/.config/fish/completions/sloppyjobs.fish",
}


@click.command(
    help="Print the script for completion in a shell.\n\n\b\n"
    + "\n".join(f"{shell}: {text}" for shell, text in _WHERE.items())
)
@click.argument("shell", type=click.Choice(list(_WHERE)))
def completion(shell: str) -> None:
    """Click's own script, for our name."""
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "sloppyjobs", _VARIABLE).source())
