"""The page of the documentation on the command line: ``python -m sloppyjobs.cli.document > docs/reference/cli.md``.

Every command's help, and what the commands print about the sample shop of ``sloppyjobs demo``. The clock stands still
and ids are numbered, so that the page changes only where the commands do.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from click.testing import CliRunner

from sloppyjobs import demo, storage
from sloppyjobs.cli.root import COMMANDS, main
from sloppyjobs.cli.target import Target
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

NOON = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
WIDTH = 88

INTRODUCTION = """\
# The command line

<!-- Generated: python -m sloppyjobs.cli.document > docs/reference/cli.md -->

Name the database, or the application, before the command:

```console
$ sloppyjobs --database postgresql://shop@db/shop status
$ sloppyjobs --app shop.jobs:jobs worker --processes 4
```

`SLOPPYJOBS_DATABASE_URL` and `SLOPPYJOBS_APP` do the same. Without either it is `sqlite:///sloppyjobs.db`. A worker
needs the application, because it has the handlers; and only an application knows which keys of its own are secret.

- People get tables. Machines get one JSON document with `--json`, instants in ISO 8601.
- A pipe gets no colours, and no id is ever wrapped or cut.
- Exit codes: 0 done, 1 the operation was refused (one line on stderr, with a stable code), 2 usage.
- Lengths of time are `90`, `30s`, `15m`, `2h`, `7d` or `4w`; instants are ISO 8601 with an offset, or a length of time.
- Every command that changes something takes `--actor` and `--reason`, and is written to the audit trail.
- On many jobs at once, `retry`, `cancel`, `delete`, `pause`, `resume` and `run-now` take the filters of `list`. They
  show what they found and ask, unless `--yes` is given.

Completion: `eval "$(sloppyjobs completion bash)"` in `~/.bashrc`, or the same with `zsh`; for fish
`sloppyjobs completion fish > ~/.config/fish/completions/sloppyjobs.fish`. It is click's own, and works for options and
statuses too.

The examples are about the shop of `sloppyjobs demo`.
"""

EXAMPLES: dict[str, Sequence[str]] = {
    "status": ("status",),
    "list": ("list --page-size 5", "list --status dead,retrying --created-from 1h"),
    "show": ("show {email}",),
    "explain": ("explain {waiting}",),
    "dead": ("dead",),
    "queues": ("queues", "queues pause media --until 30m --actor ada --reason 'new disks'"),
    "limits": ("limits", "limits show partner-sftp", "limits set partner-sftp --concurrency 3 --actor ada"),
    "recurring": (
        "recurring",
        "recurring preview newsletter --count 3",
        "recurring create digest send-email --cron '0 7 * * 1' --paused --actor ada",
        "recurring trigger refresh-rates --actor ada",
    ),
    "retry": ("retry --status dead --name charge-card --actor ada --reason 'gateway is back' --yes",),
    "audit": ("audit --page-size 3",),
    "cleanup": ("cleanup --succeeded 1h --actor ada",),
    "purge": ("purge --older-than 0 --archive --actor ada",),
}


def document() -> str:
    """The page."""
    parts = [INTRODUCTION]
    with _shop() as target:
        names = _names(target.jobs)
        for name in COMMANDS:
            parts.append(f"## {name}\n")
            for path in _paths(name):
                parts.append(_help(path))
            for example in EXAMPLES.get(name, ()):
                parts.append(_example(target, example.format(**names)))
            if name == "doctor":
                parts.append(_doctor())
    return _numbered("\n".join(parts))


@contextmanager
def _shop() -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder:
        kept = storage.sqlite(f"sqlite:///{folder}/shop.db", clock=FakeClock(NOON))
        jobs = demo.create_jobs(kept)
        kept.init()
        with _fixed_chance():
            demo.fill(jobs, 60, seed=1)
        yield Target(given=jobs)
        kept.close()


@contextmanager
def _fixed_chance() -> Iterator[None]:
    """Retries are due at the same time on every page, in spite of their jitter."""
    before = random.getstate()
    random.seed(1)
    try:
        yield
    finally:
        random.setstate(before)


def _names(jobs: Jobs) -> dict[str, str]:
    """The jobs that the examples are about."""
    sent = jobs.admin.list_jobs(status="succeeded", name="send-email", page_size=1)
    waiting = jobs.admin.list_jobs(status="queued", name="export-invoices", page_size=1)
    return {"email": sent[0].id, "waiting": waiting[0].id}


def _paths(name: str) -> Iterator[tuple[str, ...]]:
    """The command, and the commands below it."""
    command = main.get_command(click.Context(main), name)
    yield (name,)
    if isinstance(command, click.Group):
        yield from ((name, below) for below in command.commands)


def _help(path: Sequence[str]) -> str:
    result = CliRunner().invoke(main, [*path, "--help"], prog_name="sloppyjobs", terminal_width=WIDTH)
    return f"```text\n{_trimmed(result.output)}\n```\n"


def _example(target: Target, line: str) -> str:
    arguments = [part.strip("'") for part in re.findall(r"'[^']*'|\S+", line)]
    result = CliRunner().invoke(main, arguments, prog_name="sloppyjobs", obj=target)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return f"```console\n$ sloppyjobs {line}\n{_trimmed(result.output)}\n```\n"


def _doctor() -> str:
    """On a database of its own, because the doctor looks at the real clock."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            target = Target(database="sqlite:///sloppyjobs.db")
            target.connected().init()
            Path("sloppyjobs.db").chmod(0o640)
            return _example(target, "doctor")
        finally:
            os.chdir(before)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def _numbered(page: str) -> str:
    """The page with ids, run times and cursors that are the same every time."""
    seen: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        place = seen.setdefault(found[0], len(seen) + 1)
        return f"{found[1]}_01kg9f9c00{place:016d}"

    page = re.sub(r"\b(job|worker|recurring|batch)_[0-9a-hjkmnp-tv-z]{26}\b", number, page)
    page = re.sub(r"\b[\d.]+(?:us|ms|s) +(?=worker_)", "2ms   ", page)
    page = re.sub(r"(?<=TOOK) +(?=WORKER)", "  ", page)
    return re.sub(r"(?<=--cursor )[\w-]{40,}", "WyJqb2JzIiwi…", page)


if __name__ == "__main__":
    sys.stdout.write(document())
