"""Everything that the documentation shows is executed, page by page."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
import running
from pages import LEFT_OUT, ROOT, BadPage, Block, Command, Step, commands, executed_pages, matches, read
from plain_commands import plain_command
from running import Broken, Run, clean_environment


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


EMPTY = {"postgresql": "empty_postgres_url", "mariadb": "empty_mariadb_url"}
"""The fixtures for the databases that pages ask for."""


@pytest.mark.parametrize("path", executed_pages(), ids=_name)
def test_the_page_does_what_it_says(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = read(path)
    more = {}
    database = page.settings.get("database")
    if database is not None:
        more["DATABASE_URL"] = request.getfixturevalue(EMPTY[database])
    with Run(page, tmp_path, clean_environment(**more)) as run:
        run.all()


def test_what_is_left_out_exists() -> None:
    assert all(path.is_file() for path in LEFT_OUT)


# The harness itself


def _page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


def _run(folder: Path, text: str) -> Run:
    page = read(_page(folder, text))
    with Run(page, folder, clean_environment()) as run:
        run.all()
    return run


def test_a_page_is_read_into_blocks_and_steps(tmp_path: Path) -> None:
    text = """---
database: postgresql
ports: 8000
---
Words.

```python title="shop.py"
a = 1
```

<!-- step: click -->

<!-- not run: needs systemd -->
```ini
[Unit]
```

    ```text
    indented
      more
    ```
"""
    page = read(_page(tmp_path, text))
    assert page.settings == {"database": "postgresql", "ports": "8000"}
    assert page.parts == (
        Block("python", "a = 1\n", 8, title="shop.py"),
        Step("click", 11),
        Block("ini", "[Unit]\n", 15, not_run="needs systemd"),
        Block("text", "indented\n  more\n", 19),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```sh\nls\n```\n", "'sh' is no known language"),
        ("```\nls\n```\n", "'' is no known language"),
        ("```pycon\n>>> 1\n```\n", "'pycon' is no known language"),
        ("<!-- not run: -->\n```python\n1 / 0\n```\n", "say why"),
        ("<!-- not run: because -->\nWords.\n", "directly before a block"),
        ("```python\n", "has no end"),
    ],
)
def test_nothing_is_passed_over_in_silence(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadPage, match=complaint):
        read(_page(tmp_path, text))


def test_commands_and_their_output_are_told_apart() -> None:
    block = Block("console", "$ ls \\\n  -l\na\n\nb\n$ true\n$ serve &\n", 10)
    assert commands(block) == [
        Command("ls \\\n  -l", "a\n\nb", 10),
        Command("true", None, 15),
        Command("serve &", None, 16),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\n", False),
        ("a", "a\nb\n", False),
        ("took … s", "took 0.3 s", True),
        ("took ... s", "took 0.3 m", False),
        ("a\n…\nz", "a\nz", True),
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a\n…\nz", "a\nb", False),
        ("a.c", "abc", False),
        ("ID  NAME", "ID      NAME", True),
        ("ID  NAME", "IDNAME", False),
        ("a b", "a  b", False),
    ],
)
def test_dots_match_anything_and_gaps_match_gaps(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same


def test_files_python_and_commands_share_a_folder_and_a_page_has_one_namespace(tmp_path: Path) -> None:
    text = """
```python title="shop.py"
NAME = "shop"
```
```python
import shop
print(shop.NAME)
```
```text
shop
```
```python
print(shop.NAME.upper(), __name__)
```
```text
SHOP __main__
```
```console
$ mkdir goods && cd goods && export GREETING=hello
$ echo $GREETING from $(basename $PWD)
hello from goods
$ python -c 'import sys; sys.path.insert(0, ".."); import shop; print(shop.NAME)'
shop
```
"""
    _run(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert 1 == 2\n```\n",
        "```python\nraise SystemExit(0)\n```\n",
        "```python\nprint(1)\n```\n```text\n2\n```\n",
        "```console\n$ echo a\nb\n```\n",
        "```console\n$ false\n```\n",
        "```console\n$ sh -c 'echo started; exit 3' &\nlistening\n```\n",
        "<!-- step: unheard-of -->\n",
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, text: str) -> None:
    with pytest.raises(Broken, match=r"page\.md:\d"):
        _run(tmp_path, text)


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SECONDS", 1)
    with pytest.raises(Broken, match="more than 1 s"):
        _run(tmp_path, "```console\n$ (sleep 600 & echo $! > child; wait)\n```\n")
    child = int((tmp_path / "child").read_text())
    assert _ends(child)


def _ends(pid: int) -> bool:
    """Whether the process is gone, or gone but for its parent's notice, before long."""
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("name", ["python", "python3", "python3.9"])
def test_a_program_of_this_python_needs_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    itself = tmp_path / "python"
    itself.symlink_to(Path(sys.executable).resolve())
    (tmp_path / "python3").symlink_to("python")
    (tmp_path / "python3.9").write_text("another one")
    program = tmp_path / "greet"
    program.write_text(f"#!{tmp_path / name}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(itself))
    started = [str(itself), str(program), "ada"] if name != "python3.9" else None
    assert plain_command("greet ada", {"PATH": str(tmp_path)}) == started
    assert plain_command("greet ada | head", {"PATH": str(tmp_path)}) is None


def test_an_error_is_shown_at_its_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(Broken, match=r'page\.md", line 6, in <module>\n    1 / 0'):
        _run(tmp_path, "Words.\n\n```python\nx = 1\n\n1 / 0\n```\n")


def test_a_command_in_the_background_is_awaited_and_stopped_at_the_end(tmp_path: Path) -> None:
    text = """---
ports: 8000
---
```console
$ GREETING=hello python -m http.server 8000 --bind 127.0.0.1 &
Serving HTTP on 127.0.0.1 port 8000 ...
$ python -c 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:8000/page.md").status)'
200
```
"""
    run = _run(tmp_path, text)
    assert run.ports["8000"] != "8000"
    assert [process.returncode for process in run.started] == [-signal.SIGTERM]
