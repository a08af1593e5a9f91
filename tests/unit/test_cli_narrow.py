"""Tables of commands on a terminal of 80 columns: ids and words stay whole, names are cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sloppyjobs.cli import output

ID = "batch_01m7pxj1vne00948hcpzfrqv2a"


def drawn(width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width)
    made = output.table("ID", "STATUS", "NAME", "DONE", "NOTE", right=("DONE",), whole=("ID", "STATUS"), cut=("NAME",))
    made.add_row(ID, "[green]succeeded[/]", "the catalogue of the whole autumn, and more", "1,234,567", "noted")
    output.draw(out, made, spare=("NOTE",))
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_a_narrow_table_keeps_ids_words_and_numbers_whole_and_leaves_out_what_can_be_spared() -> None:
    headings, line = drawn(80)
    assert headings.split() == ["ID", "STATUS", "NAME", "DONE"]
    assert line.split()[:2] == [ID, "succeeded"]
    assert line.endswith("1,234,567")
    assert "the catalogue" in line and "…" in line
    assert len(line) <= 80


@pytest.mark.parametrize("width", [120, 200])
def test_a_wide_table_shows_everything(width: int) -> None:
    headings, line = drawn(width)
    assert headings.split() == ["ID", "STATUS", "NAME", "DONE", "NOTE"]
    assert line.endswith("noted")


@pytest.mark.parametrize(("width", "shown"), [(80, "job_01m7pxj1…qv2a"), (120, "job_01m7pxj1vne00948hcpzfrqv2a")])
def test_an_id_loses_its_middle_where_it_would_take_the_room_of_words(width: int, shown: str) -> None:
    assert output.id_for(Console(file=io.StringIO(), width=width))("job_01m7pxj1vne00948hcpzfrqv2a") == shown
