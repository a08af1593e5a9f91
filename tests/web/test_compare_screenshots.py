"""The comparison of pictures: equal ones do not differ, and a picture of those that do is kept."""

from __future__ import annotations

from pathlib import Path

from compare_screenshots import difference
from PIL import Image
from shots import EVERYTHING, PAGES


def _picture(file: Path, size: tuple[int, int], dots: int = 0) -> Path:
    picture = Image.new("RGB", size, "white")
    for place in range(dots):
        picture.putpixel((place, 0), (215, 255, 255))
    picture.save(file)
    return file


def test_equal_pictures_do_not_differ(tmp_path: Path) -> None:
    one, other = (_picture(tmp_path / name, (20, 10)) for name in ("one.png", "other.png"))
    assert difference(one, other, tmp_path / "shown.png") == 0
    assert not (tmp_path / "shown.png").exists()


def test_every_pixel_that_differs_counts_and_both_are_shown(tmp_path: Path) -> None:
    one, other = _picture(tmp_path / "one.png", (20, 10)), _picture(tmp_path / "other.png", (20, 10), dots=5)
    assert difference(one, other, tmp_path / "shown.png") == 5 / 200
    with Image.open(tmp_path / "shown.png") as shown:
        assert shown.size == (100, 10)


def test_what_a_longer_page_has_more_of_differs(tmp_path: Path) -> None:
    one, other = _picture(tmp_path / "one.png", (20, 10)), _picture(tmp_path / "other.png", (20, 20))
    assert difference(one, other, tmp_path / "shown.png") == 0.5


def test_every_page_has_a_picture_and_its_states_have_names_of_their_own() -> None:
    assert set(PAGES) < set(EVERYTHING)
    assert all(shot.path.startswith(("/", "{")) for shot in EVERYTHING.values())
