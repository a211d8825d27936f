"""The tutorials: every block of commands is a file, and every file does what the page says."""

from __future__ import annotations

import csv
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from selc.runs import RunFolder
from selc.runs.decisions import fingerprint
from tests.own_data.miniature import folder
from tests.test_cli import call

ROOT = Path(__file__).parents[1]
PAGES = {name: ROOT / "docs" / f"tutorial-{name}.md" for name in ("folder", "table", "text", "review")}
EXAMPLES = ROOT / "examples"


def commands(name: str, *, quick: str) -> None:
    """Each line of a script as it stands, but for a shorter training."""
    lines = (EXAMPLES / name).read_text().splitlines()
    assert len(lines) > 1
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "selc"
        extra = shlex.split(quick) if words[0] == "train" else []
        result = call(*words, *extra)
        assert result.exit_code == 0, f"{line}\n{result.output}"


def make_data(patch: pytest.MonkeyPatch, *arguments: str) -> None:
    """The script of the tutorials, without a process of its own."""
    script = str(EXAMPLES / "tutorial_data.py")
    patch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(script, run_name="__main__")


def judged(run: RunFolder, count: int) -> list[str]:
    """A reviewer who keeps the first labels; the names of the samples."""
    names = [run.classes[label] for label in run.given.tolist()]
    entries = [
        {
            "sample_id": run.ids[row],
            "given": names[row],
            "suggested": names[row],
            "verdict": "keep",
            "label": names[row],
        }
        for row in range(count)
    ]
    content = {"format": 1, "run": fingerprint(run), "samples": len(names), "decisions": entries}
    Path("decisions.json").write_text(json.dumps(content))
    return run.ids[:count]


def check_second_round(kept: list[str], cleaned: Path) -> None:
    second = RunFolder.open("round-2")
    assert second.finished
    assert second.verified is not None
    assert [second.ids[row] for row in second.verified.nonzero().flatten().tolist()] == kept
    with open(cleaned) as file:
        table = list(csv.DictReader(file))
    assert [row["sample_id"] for row in table if row["source"] == "human"] == kept
    assert [second.classes[k] for k in second.given.tolist()] == [row["label"] for row in table]


@pytest.mark.exhaustive
def test_from_a_folder_of_images_to_the_second_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "photos", each=6)
    quick = "--epochs 3 --net mlp"
    commands("tutorial_folder_1.sh", quick=quick)
    assert {"report.html", "review.html", "label_issues.csv"} <= {p.name for p in Path("round-1").iterdir()}
    kept = judged(RunFolder.open("round-1"), 5)
    commands("tutorial_folder_2.sh", quick=quick)
    check_second_round(kept, Path("cleaned/cleaned.csv"))
    assert len(list(Path("cleaned/tree").rglob("*.png"))) == 18
    assert Path("round-2/report.html").exists()


@pytest.mark.parametrize(("tutorial", "data", "epochs"), [("table", "tables", 3), ("text", "texts", 2)])
def test_from_a_table_to_predictions(
    tutorial: str, data: str, epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_data(monkeypatch, data)
    quick = f"--epochs {epochs} --set net.hidden=[16]"
    commands(f"tutorial_{tutorial}_1.sh", quick=quick)
    kept = judged(RunFolder.open("round-1"), 5)
    commands(f"tutorial_{tutorial}_2.sh", quick=quick)
    check_second_round(kept, Path("cleaned.csv"))
    with open("predictions.csv") as file:
        assert len(list(csv.DictReader(file))) == 10


def test_a_round_of_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_data(monkeypatch, "tables")
    quick = "--epochs 2 --set net.hidden=[16]"
    commands("tutorial_review_1.sh", quick=quick)
    kept = judged(RunFolder.open("round-1"), 5)
    commands("tutorial_review_2.sh", quick=quick)
    check_second_round(kept, Path("cleaned.csv"))
    assert Path("round-2/review.html").exists()


def test_the_data_of_the_tutorials_are_as_wrong_as_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("tables", "texts", "pictures"):
        make_data(monkeypatch, kind, str(tmp_path))
        with open(tmp_path / "truth.csv") as file:
            truth = {row["sample_id"]: row["label"] for row in csv.DictReader(file)}
        if kind != "pictures":
            name, count = {"tables": ("measurements.csv", 400), "texts": ("reviews.csv", 700)}[kind]
            with open(tmp_path / name) as file:
                given = {row["id"]: row["label"] for row in csv.DictReader(file)}
            assert len(given) == count
        else:
            root = tmp_path / "photos"
            given = {str(p.relative_to(root)): p.parent.name for p in root.rglob("*.png")}
            assert len(given) == 1797
        assert 0.15 < sum(truth[name] != label for name, label in given.items()) / len(given) < 0.25


@pytest.mark.exhaustive
def test_the_python_of_the_table_finds_wrong_labels(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "tutorial_data.py"), "tables", str(tmp_path)], check=True)
    program = [sys.executable, str(EXAMPLES / "tutorial_table.py"), str(tmp_path / "measurements.csv")]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    with open(tmp_path / "truth.csv") as file:
        truth = {row["sample_id"]: row["label"] for row in csv.DictReader(file)}
    shown = re.findall(r"\b(c\d+) +(benign|malignant) +(benign|malignant)", result.stdout)
    assert len(shown) == 20
    assert sum(truth[sample] == suggested != given for sample, given, suggested in shown) >= 15
    assert re.search(r"\d+ labels changed in the second round", result.stdout)


@pytest.mark.exhaustive
def test_the_python_of_the_texts_finds_wrong_labels(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "tutorial_data.py"), "texts", str(tmp_path)], check=True)
    program = [sys.executable, str(EXAMPLES / "tutorial_text.py"), str(tmp_path / "reviews.csv")]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    with open(tmp_path / "truth.csv") as file:
        truth = {row["sample_id"]: row["label"] for row in csv.DictReader(file)}
    shown = re.findall(r"\b(r\d+) +(good|bad) +(good|bad)", result.stdout)
    assert len(shown) == 20
    assert sum(truth[sample] == suggested != given for sample, given, suggested in shown) >= 18


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_code_is_a_file_and_every_file_is_a_block(name: str) -> None:
    text = PAGES[name].read_text()
    blocks = [block.strip() for block in re.findall(r"```(?:sh|python)\n(.*?)```", text, re.DOTALL)]
    files = [p for ending in ("sh", "py") for p in sorted(EXAMPLES.glob(f"tutorial_{name}*.{ending}"))]
    contents = [re.sub(r'\A""".*?"""\s+', "", path.read_text(), flags=re.DOTALL).strip() for path in files]
    assert len(files) >= 2
    assert blocks == contents
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PAGES[name].parent / link).exists(), link
