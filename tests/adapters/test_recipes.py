"""The recipes for other people's loops run, and do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.adapters.together import run_together

pytestmark = pytest.mark.adapters
RECIPES = Path(__file__).parents[2] / "examples" / "loops"
# What corrects labels, in how many processes.
CORRECTED = [
    *(("accelerate_loop.py", 1), ("accelerate_loop.py", 2), ("ddp.py", 2)),
    *(("skorch_net.py", 1), ("timm_like.py", 1)),
]


def shares(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


def test_every_recipe_is_run_here() -> None:
    assert {path.name for path in RECIPES.glob("*.py")} == {name for name, _ in CORRECTED} | {"image_folder.py"}


@pytest.mark.parametrize(("name", "processes"), CORRECTED)
def test_labels_are_corrected(name: str, processes: int, tmp_path: Path) -> None:
    said = run_together(processes, str(RECIPES / name), str(tmp_path))
    line = next(line for line in said[0].splitlines() if line.startswith("labels right"))
    given, corrected, *network = shares(line)
    assert 76 < given < 84  # of the 40 % that were drawn anew, half came out the same
    assert corrected > 90  # the moons overlap
    assert all(accuracy > 90 for accuracy in network)
    assert all("labels right" not in other for other in said[1:])
    if "recorder" in said[0]:
        (high,) = shares(next(line for line in said[0].splitlines() if line.startswith("recorder")))
        assert high >= 100 - given


def test_a_folder_of_images_gets_a_report_and_a_review_page(tmp_path: Path) -> None:
    (said,) = run_together(1, str(RECIPES / "image_folder.py"), str(tmp_path))
    share, found = shares(said)
    assert 15 < share < 25
    assert found > 80
    assert (tmp_path / "report.html").read_text().count("data:image/png") == 60
    assert (tmp_path / "review.html").read_text().count("data:image/png") == 100
