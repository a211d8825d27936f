"""The report is one page that says what happened, shows it, needs nothing else, and takes no name for markup."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner, Result

from selc._io.files import read_tensors, write_json, write_tensors
from selc.analysis import Why
from selc.analysis.findings import RELABEL, REVIEW
from selc.analysis.unchanged import which_changes
from selc.analysis.words import ASSUMPTION, WHY, decision_sentence, percent, points
from selc.callbacks import Callback, EpochRecord
from selc.cli import app as cli
from selc.cli.ending import _lines
from selc.cli.report import figures as figures_command
from selc.cli.report import report as report_command
from selc.errors import ConfigError, InputError, SelcError
from selc.methods import METHODS, Method, judge
from selc.noise import NOISES, Noise
from selc.noise.base import measured
from selc.report.cells import cells_at, written
from selc.report.classes import shares
from selc.report.drawings import DRAWINGS, Picture, draw
from selc.report.figures import noise_by_class, plates, save_all, suggestions
from selc.report.gallery import SIDE, Gallery, gallery, thumbnail
from selc.report.next_commands import next_commands
from selc.report.page import LARGEST, metrics_table, render, write_report
from selc.report.reading import Snapshot
from selc.report.reliability import doubts, helpful, reliability
from selc.report.sentences import auroc, turning_point, what_happened
from selc.review.pictures import cells as review_cells
from selc.runs import Config, RunFolder, execute, fit
from selc.runs.config import Choice
from selc.runs.job import load
from selc.training.metrics import formatted, title, usual
from selc.turning import Reason
from tests.analysis.test_words import decided
from tests.own_data.miniature import encoded, flower_csv, folder, picture, write_csv

SECTIONS = ["story", "gallery", "matrix", "classes", "trust", "turning", "losses", "memory", "protocol"]
FIGURES = [
    *("turning-point", "training", "losses", "memorisation", "given-and-suggested"),
    *("noise-by-class", "truth", "correction"),
]
EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img", "br", "wbr"}


class Page(HTMLParser):
    """A page as a browser reads it: its text, its elements, and whether everything that was opened was closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


def page_of(run: RunFolder | Path, tmp_path: Path, **options: Any) -> Page:
    where = run if isinstance(run, Path) else run.path
    path, _ = write_report(RunFolder.open(where), tmp_path / "page.html", **options)
    return Page(path)


class Quiet(Callback):
    def on_notice(self, text: str) -> bool:
        """Small data make for warnings that are not the matter here."""
        return True


# What own data look like does not hang on when correction starts: to decide that takes five more trainings.
GIVEN = {"start": 1}


def fitted(x: torch.Tensor, labels: Any, out: Path, epochs: int) -> None:
    fit(x, labels, out=out, epochs=epochs, batch_size=16, options=GIVEN, callbacks=[Quiet()])


def trained(place: Path, data: Any, **settings: Any) -> RunFolder:
    usual: dict[str, Any] = {"method": {"name": "selc", **GIVEN}}
    if isinstance(data, str):
        usual = {"net": {"name": "mlp", "hidden": [32]}}
    return execute(Config.resolve({"data": data, **usual, **settings}), place, [Quiet()])


NOISY = {"name": "symmetric", "rate": 0.4}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("d") / "digits", "digits", noise=NOISY, train={"epochs": 12, "lr": 0.02})


@pytest.fixture(scope="module")
def page(digits: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(digits, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def moons(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    noise = {"name": "symmetric", "rate": 0.2}
    return trained(tmp_path_factory.mktemp("m") / "moons", "moons", noise=noise, train={"epochs": 6, "lr": 0.1})


class Interrupt(Quiet):
    """Breaks a training off after its second epoch, or in a training that only helps to decide."""

    def __init__(self, aside: str = "") -> None:
        self.aside = aside

    def on_epoch_saved(self, record: EpochRecord) -> None:
        if record.done == 2 and record.entry.get("aside", "") == self.aside:
            raise KeyboardInterrupt


def interrupted(path: Path, aside: str = "") -> Path:
    settings = {"data": "moons", "noise": NOISY, "net": {"name": "mlp", "hidden": [8]}, "train": {"epochs": 8}}
    with pytest.raises(KeyboardInterrupt):
        execute(Config.resolve(settings), path, [Interrupt(aside)])
    return path


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted after two epochs."""
    return interrupted(tmp_path_factory.mktemp("s") / "stopped")


def photographs(place: Path, each: int = 12) -> Path:
    """A folder of pictures whose classes and files have names that are markup, a few of them in the wrong class."""
    folder(place, each=each)
    for number in range(2):
        (place / "red" / f"wrong-{number}.png").write_bytes(encoded(picture("blue", 90 + number)))
    (place / "red").rename(place / "<b onclick=x>red & co")
    (place / "blue" / "0.png").rename(place / "blue" / '"><img src=x onerror=alert(1)>.png')
    return place


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Path]:
    root = tmp_path_factory.mktemp("p")
    place = photographs(root / "photos")
    data = {"name": "folder", "path": str(place), "cache": "off", "augment": "none"}
    run = trained(root / "run", data, net={"name": "mlp", "hidden": [16]}, train={"epochs": 8, "lr": 0.02})
    return run, place


def moved(photos: tuple[RunFolder, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the run, its data at another place, and nothing where they were."""
    run, place = photos
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    config = (copy / "config.toml").read_text()
    assert str(place) in config
    (copy / "config.toml").write_text(config.replace(str(place), str(tmp_path / "gone")))
    return copy, Path(shutil.copytree(place, tmp_path / "elsewhere"))


# What the page says and shows


def test_the_page_has_every_part_and_its_figures_speak(digits: RunFolder, page: Page) -> None:
    assert [i for i in page.ids if i != "truth"] == SECTIONS
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    plots = [svg for svg in page.all("svg") if svg.get("class", "").startswith("chart")]
    panels = {name: len(picture.panels) for name, picture in draw(Snapshot(digits.path)).items()}
    assert set(panels) == set(DRAWINGS)
    assert len(plots) == sum(panels.values()) - panels["given-and-suggested"]  # of few classes, that is a table
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 30 for svg in plots)
    assert {cell["scope"] for cell in page.all("th")} == {"row", "col"}
    assert len(page.all("caption")) == len(page.all("table")) > 0


def test_five_sentences_hold_the_numbers_of_the_summary(digits: RunFolder) -> None:
    said = what_happened(Snapshot(digits.path))
    assert len(said) == 5
    assert all(sentence.endswith(".") for sentence in said)
    summary = digits.summary
    assert said[0].startswith("This run is finished")
    assert "1,257 samples" in said[0]
    assert summary["noise_rate"]["estimate"] is not None
    for key in ("estimate", "low", "high"):
        assert percent(summary["noise_rate"][key]) in said[1]
    assert f"{round(summary['changed'] * 1257):,} labels" in said[2]
    assert percent(float(np.mean([row["suggested_confidence"] for row in relabelled(digits)]))) in said[2]
    assert percent(summary["accuracy"]["test"]["top1"]) in said[3]
    assert f"{summary['actions']['relabel']:,} samples" in said[4]
    assert f"{summary['actions']['review']:,} more" in said[4]


def relabelled(run: RunFolder) -> list[dict[str, Any]]:
    """The rows of label_issues.csv that say so."""
    with open(run.path / "label_issues.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["action"] == "relabel"]
    assert rows
    return [{**row, "suggested_confidence": float(row["suggested_confidence"])} for row in rows]


def test_the_truth_is_a_section_of_its_own_and_only_where_it_is_known(
    digits: RunFolder, page: Page, photos: tuple[RunFolder, Path], tmp_path: Path
) -> None:
    true = digits.true
    assert true is not None
    assert "truth" in page.ids
    wrong = int((digits.given != true).sum())
    assert f"labels that are really wrong{wrong:,} of 1,257" in page.text
    assert f"labels right after{percent(digits.summary['right_after'])}" in page.text
    blind = page_of(photos[0], tmp_path)
    assert "truth" not in blind.ids
    assert "really wrong" not in blind.text
    assert "Nobody knows the true labels here" in blind.text


def test_the_page_names_protocol_versions_and_hashes(digits: RunFolder, page: Page) -> None:
    for text in ("train.lr0.02", "method.nameselc", "noise.rate0.4", torch.__version__):
        assert text in page.text
    labels = digits.given.numpy().astype("<i8").tobytes()
    assert f"given labels{hashlib.sha256(labels).hexdigest()}" in page.text
    assert re.search(r"settings and labels[0-9a-f]{64}", page.text)


def test_tables_of_labels_and_classes_count_the_findings(digits: RunFolder, page: Page) -> None:
    found = digits.findings()
    issues = found.given[found.is_issue]
    worst = np.bincount(issues, minlength=10) / np.bincount(found.given, minlength=10)
    rows = page.text.partition("Labels in doubt by class, the worst first")[2]
    label = int(worst.argmax())
    size = int((found.given == label).sum())
    relabel = int((found.is_issue & (found.action == RELABEL) & (found.given == label)).sum())
    assert f" {label}{size}{relabel}" in rows.partition("really wrong")[2]
    cells = re.findall(r'<td class="cell(?: off)?"[^>]*>([\d,]+)</td>', page.source)
    expected = np.zeros((10, 10), dtype=int)
    np.add.at(expected, (found.given.numpy(), found.suggested.numpy()), 1)
    assert [int(cell.replace(",", "")) for cell in cells] == expected.flatten().tolist()


def test_all_metrics_are_a_table_and_runs_from_before_there_were_such_are_read(
    digits: RunFolder, page: Page, tmp_path: Path
) -> None:
    cells = dict(re.findall(r'<th scope="row">([^<]+)</th><td class="n">([^<]+)</td></tr>', page.source))
    values = digits.summary["accuracy"]["test"]
    assert set(values) == set(usual())
    assert {title(name): formatted(name, value) for name, value in values.items()}.items() <= cells.items()
    old = {
        name: {"top1": values["top1"], "top5": values["top5"]} for name, values in digits.summary["accuracy"].items()
    }
    assert metrics_table(retold(digits, tmp_path / "old", accuracy=old)) == {
        "sets": ["test"],
        "rows": [("top-1", [formatted("top1", values["top1"])]), ("top-5", [formatted("top5", values["top5"])])],
    }
    assert metrics_table(retold(digits, tmp_path / "none", accuracy={})) is None


NOTHING = "Nothing needs to be done"


@pytest.mark.exhaustive
def test_of_clean_labels_no_more_is_said_to_be_wrong_than_the_estimate_says(tmp_path: Path) -> None:
    run = trained(tmp_path / "clean", "digits", train={"epochs": 10, "lr": 0.05})
    rate = run.summary["noise_rate"]
    assert rate["estimate"] is not None
    assert rate["high"] < 0.05
    said = what_happened(Snapshot(run.path))
    none = round(rate["estimate"] * 1257) == 0
    assert ("no sign of wrong labels" in said[1]) == (NOTHING in said[4]) == none
    assert percent(rate["high"]) in said[1]


@pytest.mark.usefixtures("undrawn")
def test_where_no_sign_of_wrong_labels_is_found_nothing_needs_to_be_done(digits: RunFolder, tmp_path: Path) -> None:
    rate = rate_of(0.0, 0.0, 0.012)
    quiet = untouched(digits, tmp_path / "quiet", Why.CLEAN, rate)
    said = what_happened(quiet)
    assert "no sign of wrong labels" in said[1]
    assert "at most 1.2%" in said[1]
    assert said[2] == "So no label was replaced."
    assert said[4] == f"{NOTHING} about the labels."
    assert "The 12 with the lowest label quality are shown" in page_of(quiet.path, tmp_path).text
    tables = read_tensors(quiet.path / "analysis.safetensors")
    tables["action"][:3] = REVIEW
    write_tensors(quiet.path / "analysis.safetensors", tables)
    last = what_happened(Snapshot(quiet.path))[4]
    assert last.startswith(f"{NOTHING} about the labels; ")
    assert "look at the 3 labels of the lowest quality" in last


def retold(run: RunFolder, place: Path, **summary: Any) -> Snapshot:
    """A copy of a run whose summary says something else."""
    shutil.copytree(run.path, place)
    write_json(place / "summary.json", {**run.summary, **summary})
    return Snapshot(place)


def untouched(run: RunFolder, place: Path, why: Why, rate: dict[str, float | None] | None) -> Snapshot:
    """A copy of a run that replaced no label."""
    count = len(run.given)
    actions = {"keep": count, "review": 0, "relabel": 0}
    shot = retold(run, place, changed=0.0, why_unchanged=str(why), noise_rate=rate, actions=actions)
    tensors = read_tensors(place / "targets.safetensors")
    write_tensors(place / "targets.safetensors", {**tensors, "corrected": run.given})
    tables = read_tensors(place / "analysis.safetensors")
    kept = {"corrected": run.given, "suggested": run.given, "action": torch.zeros_like(tables["action"])}
    write_tensors(place / "analysis.safetensors", {**tables, **kept})
    return shot


def rate_of(estimate: float | None, low: float, high: float) -> dict[str, float | None]:
    return {"estimate": estimate, "likely": estimate or low, "low": low, "high": high}


@pytest.mark.parametrize(
    ("rate", "why", "nothing"),
    [
        (rate_of(0.0, 0.0, 0.0), Why.CLEAN, True),
        (rate_of(0.0, 0.0, 0.03), Why.CLEAN, True),
        (rate_of(0.49 / 1257, 0.0, 0.03), Why.CLEAN, True),  # not one label
        (rate_of(0.51 / 1257, 0.0, 0.03), Why.CANNOT_TELL, False),  # one
        (rate_of(0.02, 0.01, 0.03), Why.NOT_SURE, False),
        (rate_of(None, 0.0, 0.3), Why.CANNOT_TELL, False),
        (rate_of(None, 0.0, 0.02), Why.CANNOT_TELL, False),
        (None, Why.NOT_LEARNT, False),
        (None, Why.TOO_FEW, False),
        (None, Why.METHOD, False),
    ],
)
def test_nothing_is_to_be_done_only_where_not_one_label_is_estimated_to_be_wrong(
    rate: dict[str, float | None] | None, why: Why, nothing: bool, digits: RunFolder, tmp_path: Path
) -> None:
    shot = untouched(digits, tmp_path / "run", why, rate)
    said = what_happened(shot)
    assert (NOTHING in said[4]) == nothing
    assert "no label was replaced" in said[2].lower()
    # Why that is, is said once: with how many are wrong, or after that.
    assert sum(WHY[why] in sentence or "no sign of wrong labels" in sentence for sentence in said[1:3]) == 1 or (
        "cannot be told from samples that are merely hard" in said[1]
    )
    if rate is not None and rate["estimate"] is None:
        assert all(percent(end) in said[1] for end in (rate["low"] or 0.0, rate["high"] or 0.0))
        assert f"the {min(round((rate['high'] or 0.0) * 1257), 100)} labels of the lowest quality" in said[4]


@pytest.mark.parametrize("why", [Why.CLEAN, Why.CANNOT_TELL, Why.NOT_SURE])
@pytest.mark.usefixtures("undrawn")
def test_where_no_label_was_replaced_the_page_says_so_and_why(
    why: Why, digits: RunFolder, page: Page, tmp_path: Path
) -> None:
    decision = digits.decision()
    assert decision is not None
    assert decision.start is not None
    run = untouched(digits, tmp_path / "run", why, rate_of(0.02, 0.0, 0.05))
    text = page_of(run.path, tmp_path).text
    assert f"Correction starts in epoch {round(decision.start) + 1}. But at the end no label was replaced" in text
    assert WHY[why] in text
    assert "But at the end no label was replaced" not in page.text


def test_a_method_without_a_turning_point_says_what_it_cannot_tell(tmp_path: Path) -> None:
    run = trained(tmp_path / "ce", "moons", noise=NOISY, method={"name": "ce"}, train={"epochs": 3})
    assert run.summary["noise_rate"] is None
    page = page_of(run, tmp_path)
    assert "does not estimate how many labels are wrong" in page.text
    assert "does not look for a turning point" in page.text
    assert "A run with the method selc" in page.text
    assert "needs samples that were held out" in page.text  # in the place of the figure


@pytest.mark.parametrize(("start", "words"), [(2, "after 2 epochs"), ("pilot", "in a first training")])
def test_a_start_that_was_asked_for_is_told_in_the_place_of_a_turning_point(
    start: float | str, words: str, tmp_path: Path
) -> None:
    method = {"name": "selc", "start": start, "alpha": 0.5}
    run = trained(tmp_path / "run", "moons", noise=NOISY, method=method, train={"epochs": 4})
    assert run.decision() is None
    [sentence] = turning_point(Snapshot(run.path))
    assert words in sentence


# When labels began to be corrected


def test_the_turning_point_is_told_by_what_was_held_out_and_what_that_showed(digits: RunFolder) -> None:
    decision, evidence = digits.decision(), digits.evidence()
    assert decision is not None
    assert evidence is not None
    how, curve, decided, visible, assumption = turning_point(Snapshot(digits.path))
    assert f"at random into {evidence.splits} parts" in how
    assert "each sample was predicted by a network that was not trained on it" in how
    assert "learnt by heart" in curve
    assert decided == decision_sentence(digits.summary["decision"])
    assert "cannot be told from chance" in visible
    assert assumption == ASSUMPTION
    assert decision.reason is Reason.NO_FALL
    assert f"one of {points(decision.visible)} would have been" in decided


@pytest.mark.exhaustive
def test_one_part_that_was_held_out_and_a_validation_set_are_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, plan = {"name": "symmetric", "rate": 0.2}, {"epochs": 6, "lr": 0.1}
    by_val = trained(tmp_path / "val", "moons", noise=noise, train={**plan, "val_fraction": 0.1})
    monkeypatch.setattr(judge, "AT_MOST", -1.0)  # seconds: splits are too dear
    one = trained(tmp_path / "one", "moons", noise=noise, train=plan)
    assert "The 200 labels of the validation set" in turning_point(Snapshot(by_val.path))[0]
    held = one.evidence()
    assert held is not None
    assert 0 < len(held.labels) < 100
    assert f"Of 2,000 samples {len(held.labels)} were chosen at random" in turning_point(Snapshot(one.path))[0]
    for run in (by_val, one):
        shot = Snapshot(run.path)
        # Epochs that were stepped back over are no part of what led to the result.
        assert any(entry.get("undone") for entry in shot.history())
        assert [entry["epoch"] for entry in shot.timeline] == list(range(6))
        assert "turning-point" in {plate.name for plate in plates(shot)}
        assert page_of(run, tmp_path).text


def test_trainings_that_only_help_to_decide_are_not_counted(digits: RunFolder, page: Page) -> None:
    shot = Snapshot(digits.path)
    aside = [entry for entry in shot.history() if entry.get("aside")]
    assert len(aside) == 5 * 12
    assert len(shot.timeline) == 12
    assert {entry["stage"] for entry in shot.timeline} == {5}
    assert {shot.stage_number(entry) for entry in shot.timeline} == {1}
    assert "for 12 epochs" in what_happened(shot)[0]
    table = page.source.partition("The epochs that led to the result")[2].partition("</table>")[0]
    assert table.count("<tr>") == 1 + 12
    assert 'class="n">stage</th>' not in table


@pytest.mark.parametrize(
    ("method", "stages", "said"),
    [
        ("selc", [(0, 6)], "for 6 epochs (method selc)"),
        ("selc", [(0, 2), (2, 6)], "for 6 epochs (method selc)"),  # on from a state of the first
        ("selc+", [(0, 6), (0, 6)], "one after the other, for 6 epochs each; the second one, which is the result"),
        ("selc+", [(0, 6), (0, 6), (0, 6)], "in 3 stages of 6 epochs each"),
        ("dac", [(0, 2), (0, 6)], "in 2 stages of 2 and 6 epochs"),
    ],
)
def test_epochs_of_several_trainings_are_not_added_up(
    method: str, stages: list[tuple[int, int]], said: str, moons: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    shot = Snapshot(moons.path)
    places = [(stage, epoch) for stage, (begin, end) in enumerate(stages) for epoch in range(begin, end)]
    shot.__dict__["timeline"] = [{"stage": stage, "epoch": epoch, "loss": 0.1} for stage, epoch in places]
    monkeypatch.setattr(RunFolder, "config", shot.config.model_copy(update={"method": Choice(name=method)}))
    assert said in what_happened(shot)[0]


def test_a_fall_that_is_claimed_comes_with_the_least_that_would_have_been(digits: RunFolder, tmp_path: Path) -> None:
    for name, visible, sees in (("sharp", 0.016, True), ("blunt", 0.08, False), ("blind", 1.0, False)):
        for reason in (Reason.FALL, Reason.NO_FALL):
            place = Path(shutil.copytree(digits.path, tmp_path / f"{name}-{reason.name}"))
            write_json(place / "decision.json", decided(reason, start=4.0, best=6.0, fall=0.2, visible=visible))
            shot = Snapshot(place)
            text = " ".join(turning_point(shot))
            assert (points(visible) in text) == (visible < 1 or reason is Reason.FALL)
            doubtful = any("would not have been seen" in sentence for sentence in reliability(shot))
            assert doubtful == (reason is Reason.NO_FALL and not sees)


def test_a_training_that_could_have_gone_on_is_told_so(digits: RunFolder, tmp_path: Path) -> None:
    for best in (11.0, 12.0):
        place = Path(shutil.copytree(digits.path, tmp_path / str(best)))
        write_json(place / "decision.json", decided(Reason.NO_FALL, start=4.0, best=best))
        still = any("still learning at the end" in sentence for sentence in helpful(Snapshot(place)))
        assert still == (best == 12.0)


def test_what_is_believed_for_now_is_not_called_changed(page: Page) -> None:
    assert "would relabel" in page.text
    assert "labels changed" not in page.text
    alternatives = [svg["aria-label"] for svg in page.all("svg") if "aria-label" in svg]
    assert any("would be relabelled" in text for text in alternatives)
    assert not any("changed" in text for text in alternatives)


def test_a_majority_that_may_be_wrong_is_a_warning_in_the_first_box(digits: RunFolder) -> None:
    shot = Snapshot(digits.path)
    pictures = {name: Picture(remark="Not drawn.") for name in DRAWINGS}

    def box(high: float) -> str:
        shot.noise = rate_of(0.4, 0.3, high)
        assert bool(doubts(shot)) == (high > 0.5)
        return render(shot, Gallery(), pictures).partition("<nav")[0]

    assert "Beware" not in box(0.45)
    assert "<b>Beware:</b> Up to 55% of the labels may be wrong." in box(0.55)


def test_what_was_replaced_is_what_is_to_be_relabelled(digits: RunFolder, page: Page) -> None:
    with open(digits.path / "corrected_labels.csv", newline="") as file:
        changed = {
            row["sample_id"]: row["corrected_label"]
            for row in csv.DictReader(file)
            if row["corrected_label"] != row["given_label"]
        }
    assert changed == {row["sample_id"]: row["suggested_label"] for row in relabelled(digits)}
    assert which_changes(digits.summary, len(changed)) == ""
    commands = [command for command, _ in next_commands(digits)]
    assert commands[2] == f"selc apply {digits.path}"
    assert all(command in page.text for command in commands[1:])
    actions = {**digits.summary["actions"], "relabel": 0}  # without held-out rows nothing is relabelled
    believed = {**digits.summary, "decision": None, "actions": actions}
    assert f"its {len(changed):,} changes" in which_changes(believed, len(changed))
    assert which_changes(believed, 0) == ""


def test_the_end_of_a_training_and_the_command_below_it_name_one_number(
    digits: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can tell, as many as may be wrong: of a thousand 5 % of them, though three alone are listed."""
    rate = {"estimate": None, "likely": 0.02, "low": 0.0, "high": 0.05}
    actions = {"keep": 997, "review": 3, "relabel": 0}
    summary = {**digits.summary, "why_unchanged": Why.CANNOT_TELL.value, "actions": actions, "noise_rate": rate}
    monkeypatch.setattr(RunFolder, "summary", property(lambda self: summary))
    assert _lines(digits)["labels changed"].endswith("; 50 to look at")
    assert next_commands(digits)[1][1] == "look at 50 labels in the browser"


@pytest.mark.usefixtures("undrawn")
def test_a_method_that_cannot_judge_its_changes_says_to_look_at_them(tmp_path: Path) -> None:
    run = trained(tmp_path / "elr", "digits", noise=NOISY, method={"name": "elr"}, train={"epochs": 4, "lr": 0.02})
    assert run.summary["changed"] > 0
    assert run.summary["actions"]["relabel"] == 0
    text = page_of(run, tmp_path).text
    assert "The method has no estimate of how many of its" in text
    assert "The method has no estimate of how many of its changes are right either" in text


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.exhaustive
def test_a_run_with_names_that_only_another_program_knew_is_reported(
    finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for registry in (NOISES, METHODS):  # what is registered here is forgotten with the test
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    @NOISES.register("first-ones")
    def first_ones(labels: torch.Tensor, num_classes: int, rng: torch.Generator, *, rate: float = 0.1) -> Noise:
        wrong = torch.arange(len(labels)) < rate * len(labels)
        return measured(labels, torch.where(wrong, (labels + 1) % num_classes, labels), num_classes)

    @METHODS.register("as-ever")
    class AsEver(Method):
        """Cross entropy by another name."""

    settings = {"noise": {"name": "first-ones", "rate": 0.2}, "method": {"name": "as-ever"}, "train": {"epochs": 2}}
    run = trained(tmp_path / "run", "moons", **settings)
    del NOISES._entries["first-ones"]
    del METHODS._entries["as-ever"]
    if not finished:
        (run.path / "summary.json").unlink()
    assert run.config.noise.options == {"rate": 0.2}
    assert "as-ever" in page_of(run, tmp_path).text
    result = CliRunner().invoke(cli, ["resume", str(run.path)])
    if finished:
        assert result.exit_code == 0
        assert result.stderr == f"{run.path} is finished already; nothing to do.\n"
    else:
        assert result.exit_code == 2
        assert "error: method must be one of" in result.stderr


# The gallery


def test_the_gallery_shows_the_issues_of_lowest_quality_first(digits: RunFolder) -> None:
    shown = gallery(Snapshot(digits.path), 20)
    found = digits.findings()
    quality = found.quality.numpy()
    issues = np.flatnonzero(found.is_issue.numpy())
    assert [card.row for card in shown.cards] == issues[np.argsort(quality[issues], kind="stable")][:20].tolist()
    assert shown.suspicious == len(issues)
    assert shown.crisp


@pytest.mark.usefixtures("undrawn")
def test_pictures_are_those_of_the_samples(photos: tuple[RunFolder, Path], tmp_path: Path) -> None:
    run, place = photos
    shown = gallery(Snapshot(run.path))
    assert shown.cards
    for card in shown.cards:
        with Image.open(io.BytesIO(base64.b64decode(card.picture.partition(",")[2]))) as image:
            np.testing.assert_array_equal(np.asarray(image), np.asarray(Image.open(place / card.name)))
    few, none = (len(page_of(run, tmp_path, samples=samples).all("img")) for samples in (1, 0))
    assert few == none + 1


def test_a_large_picture_becomes_a_small_jpeg() -> None:
    uri = thumbnail(torch.randint(0, 256, (3, 300, 600), dtype=torch.uint8))
    assert uri.startswith("data:image/jpeg")
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
        assert image.size == (SIDE, SIDE // 2)


def test_sixty_large_pictures_stay_far_below_the_limit() -> None:
    noise = torch.randint(0, 256, (3, 400, 400), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert 60 * len(thumbnail(noise)) < LARGEST / 2  # noise is the worst that JPEG can be given


@pytest.mark.usefixtures("undrawn")
def test_rows_of_a_table_are_shown_as_they_were_written(tmp_path: Path) -> None:
    data = flower_csv(tmp_path / "flowers.csv", 60)
    run = trained(tmp_path / "run", {"name": "table", "path": str(data)}, train={"epochs": 6})
    shown = gallery(Snapshot(run.path))
    assert shown.columns == ("length", "width", "weight", "thickness")
    lines = data.read_text().splitlines()[1:]
    assert shown.cards
    for card in shown.cards:
        written = [float(cell) for cell in lines[card.row].split(",")[:4]]
        assert [float(number) for number in card.numbers] == pytest.approx(written, rel=1e-3, abs=1e-6)
    page = page_of(run, tmp_path)
    assert "thickness" in page.text
    assert 'class="gallery' not in page.source


@pytest.mark.usefixtures("undrawn")
def test_cells_of_text_are_shown_in_short_and_as_text_whether_they_are_features_or_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    remarks = [f"<img src=x onerror=alert(1)> &amp; number {k}, {'long ' * 100}" for k in range(60)]
    rows = [
        [remarks[k], ["Rome", "<b>Oslo</b>"][k % 2], f"{rng.normal() + 2 * (k % 2):.3f}", "ab"[(k % 2) ^ (k < 6)]]
        for k in range(60)
    ]
    data = write_csv(tmp_path / "texts.csv", ["remark", "city", "length", "label"], [[""] * 3 + ["a"], *rows])
    settings = {"name": "table", "path": str(data), "drop": ["remark"], "skip_bad": True}
    run = trained(tmp_path / "run", settings, train={"epochs": 3})
    shown = gallery(Snapshot(run.path))
    assert (shown.texts, shown.columns) == (("remark", "city"), ("length",))
    written = [["", "", "", "a"], *rows]
    assert shown.cards
    for card in shown.cards:
        remark, city = card.texts
        whole, (head, gap, tail) = written[card.row][0], remark.partition(" … ")
        assert len(remark) <= 160
        assert bool(gap) == (len(whole) > 160)
        assert whole.split()[: len(head.split())] == head.split()  # no word is broken
        assert set(tail.split()) <= {"long"}
        assert city == written[card.row][1]
    page = page_of(run, tmp_path)
    assert "<b>Oslo</b>" in page.text
    assert "<b>Oslo" not in page.source
    assert "<img src=x" not in page.source
    from selc.review import write_review

    review = write_review(run, tmp_path / "review.html").path.read_text()
    assert "<b>Oslo" not in review
    assert "<img src=x" not in review
    assert r"\u003cb\u003eOslo" in review


def test_a_gap_of_a_table_is_a_dash_and_not_the_number_that_fills_it(tmp_path: Path) -> None:
    rows = [[str(k % 7), "" if k % 3 == 0 else f"{k % 5}.5", "ab"[k % 2]] for k in range(60)]
    data = write_csv(tmp_path / "gaps.csv", ["whole", "holed", "label"], rows)
    run = trained(tmp_path / "run", {"name": "table", "path": str(data)}, train={"epochs": 2})
    bundle = load(run.config)
    found = cells_at(bundle, range(60))
    assert found.names == ["whole", "holed"]
    texts = [[written(number) for number in row] for row in found.numbers.tolist()]
    assert texts == [[whole, holed or "–"] for whole, holed, _ in rows]
    assert found.unusual.shape == (60, 2)
    assert ("holed", "–") in review_cells(bundle, [[0]])[0][0]
    shown = gallery(Snapshot(run.path), 60, bundle=bundle)
    assert shown.cards
    assert [card.numbers for card in shown.cards] == [tuple(texts[card.row]) for card in shown.cards]


@pytest.mark.usefixtures("undrawn")
def test_moons_are_rows_of_two_numbers(moons: RunFolder, tmp_path: Path) -> None:
    shown = gallery(Snapshot(moons.path))
    assert shown.columns == ("x1", "x2")
    assert "x2" in page_of(moons, tmp_path).text


@pytest.mark.usefixtures("undrawn")
def test_arrays_from_python_are_named_by_their_rows_and_the_page_says_so(tmp_path: Path) -> None:
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    fitted(x, (x[:, 0] > 0).long(), tmp_path / "run", 3)
    page = page_of(tmp_path / "run", tmp_path)
    assert "started from Python with arrays, which are not in its folder" in page.text


@pytest.mark.usefixtures("undrawn")
def test_no_samples_means_that_no_data_are_read(photos: tuple[RunFolder, Path], tmp_path: Path) -> None:
    copy, _ = moved(photos, tmp_path)
    page = page_of(copy, tmp_path, samples=0)
    assert "No samples are shown." in page.text
    assert "cannot be shown" not in page.text


# Bad input


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_run_whose_images_have_moved_is_written_with_one_sentence(
    photos: tuple[RunFolder, Path], tmp_path: Path
) -> None:
    copy, elsewhere = moved(photos, tmp_path)
    page = page_of(copy, tmp_path)
    assert page.text.count("cannot be shown, because their data were not found") == 1
    assert "--data PATH" in page.text
    names = [card.name for card in gallery(Snapshot(copy)).cards]
    assert names
    assert all(re.sub(r"\s+", " ", name) in page.text for name in names)
    pictures = gallery(Snapshot(copy), data=str(elsewhere)).cards
    assert [card.name for card in pictures] == names
    assert all(card.picture for card in pictures)


def test_pictures_that_are_gone_are_counted_and_the_others_shown(
    photos: tuple[RunFolder, Path], tmp_path: Path
) -> None:
    copy, elsewhere = moved(photos, tmp_path)
    first, *others = gallery(Snapshot(copy)).cards
    assert others
    (elsewhere / first.name).unlink()
    shown = gallery(Snapshot(copy), data=str(elsewhere))
    assert [bool(card.picture) for card in shown.cards] == [False] + [True] * len(others)
    assert f"1 of {len(others) + 1} are no longer there" in shown.remark


def test_other_rows_in_a_table_are_not_taken_for_those_of_the_run(tmp_path: Path) -> None:
    data = flower_csv(tmp_path / "flowers.csv", 60)
    run = trained(tmp_path / "run", {"name": "table", "path": str(data)}, train={"epochs": 4})
    flower_csv(data, 60, seed=1)
    shown = gallery(Snapshot(run.path))
    assert shown.cards
    assert not any(card.numbers for card in shown.cards)
    assert "the data must be the same" in shown.remark


def test_a_run_that_is_not_finished_is_reported_as_far_as_it_is(stopped: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    page = page_of(stopped, tmp_path)
    said = what_happened(Snapshot(stopped))
    assert len(said) == 5
    assert said[0].startswith("This run is not finished: epoch 2 of 8")
    assert f"selc resume {stopped}" in said[4]
    assert all(sentence in page.text for sentence in said)
    assert [i for i in page.ids if i != "truth"] == SECTIONS
    assert {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()} == before


def test_what_an_unfinished_run_has_decided_is_told(stopped: Path) -> None:
    shot = Snapshot(stopped)
    decision = shot.decision()
    assert decision is not None
    assert decision_sentence(decision.as_dict()) in what_happened(shot)[2]
    assert len(turning_point(shot)) == 5
    assert len(shot.timeline) == 2


def test_findings_so_far_are_those_of_the_training_itself(stopped: Path) -> None:
    shot = Snapshot(stopped)
    found, seen = shot.verdicts, RunFolder.open(stopped).records(5)
    assert found is not None
    assert found.quality.tolist() == pytest.approx(torch.exp(-seen.losses.double().mean(0)).tolist())
    assert torch.equal(found.predicted, seen.predictions[-1].long())
    assert set(found.action[found.suggested != found.given].tolist()) <= {1}
    assert not bool(found.action[found.suggested == found.given].any())


def test_a_run_that_was_stopped_in_a_split_says_so_and_shows_nothing_of_it(tmp_path: Path) -> None:
    place = interrupted(tmp_path / "run", "split 2 of 5")
    shot = Snapshot(place)
    assert shot.timeline == []
    assert shot.verdicts is None
    said = what_happened(shot)
    assert "split 2 of 5, epoch 2 of 8" in said[0]
    assert "too early" in said[2]
    assert turning_point(shot) == ["It has not been decided yet when labels are corrected."]
    page = page_of(place, tmp_path)
    assert all(sentence in page.text for sentence in said)
    assert page.all("img") == []


def test_a_run_without_an_epoch_has_a_page_too(stopped: Path, tmp_path: Path) -> None:
    young = tmp_path / "young"
    leave = shutil.ignore_patterns("stage-*", "decision.json", "evidence.safetensors")
    shutil.copytree(stopped, young, ignore=leave)
    page = page_of(young, tmp_path)
    assert "no epoch has been saved yet" in page.text
    assert page.all("img") == []


@pytest.mark.usefixtures("undrawn")
def test_a_report_that_cannot_be_written_leaves_the_old_one(
    moons: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("the old one")

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("selc._io.files._write_bytes", full)
    with pytest.raises(SelcError, match="No space left"):
        write_report(moons, path, samples=0)
    assert path.read_text() == "the old one"


# Self-contained, escaped, small


def test_the_page_asks_for_nothing_from_anywhere(page: Page) -> None:
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form"}
        for key, value in attributes.items():
            if key in {"src", "href", "srcset", "data", "action", "poster", "background"}:
                assert value.startswith(("data:image/", "#")), (tag, key, value[:80])
            assert not key.startswith("on")
    style = page.source.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    [policy] = [meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy["content"].startswith("default-src 'none'")
    assert len(page.source.encode()) < LARGEST
    anchors = {a["href"].removeprefix("#") for a in page.all("a")}
    assert anchors
    assert anchors <= set(page.ids)


def test_names_that_are_markup_appear_as_text(photos: tuple[RunFolder, Path], tmp_path: Path) -> None:
    page = page_of(photos[0], tmp_path)
    assert "<b onclick=x>red & co" in page.text
    assert not any("onclick" in a or "onerror" in a for _, a in page.elements)
    assert "script" not in {tag for tag, _ in page.elements}
    assert all(image["src"].startswith("data:image/") for image in page.all("img"))


def test_classes_ids_settings_and_folders_made_of_script_are_escaped(tmp_path: Path) -> None:
    place = tmp_path / "<script>alert('folder')<" / "run <i>"
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(120, 2, generator=rng)
    names = np.where((x[:, 0] > 0).numpy(), EVIL, "}}{{ 7*7 }}{% raw %}\x07\x1b[31m")
    fitted(x, names.tolist(), place, 3)
    arrays = dict(np.load(place / "given_labels.npz"))
    np.savez(place / "given_labels.npz", **arrays, ids=np.array([f"{EVIL}{k}" for k in range(120)]))
    (place / "data.json").write_text(
        '{"notes": ["<img src=x onerror=alert(2)>"], "skipped": [["</bdi><script>", "x"]]}'
    )
    page = page_of(place, tmp_path)
    worst = gallery(Snapshot(place)).cards[0].name
    assert re.fullmatch(re.escape(EVIL) + r"\d+", worst)
    for text in (EVIL, worst, "<img src=x onerror=alert(2)>", "</bdi><script>", "run <i>", "{{ 7*7 }}{% raw %}"):
        assert text in page.text
    assert "49" not in re.findall(r"\}\}(\d+)\{%", page.text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page.source.replace("\r", ""))
    assert "script" not in {tag for tag, _ in page.elements}
    assert "i" not in {tag for tag, _ in page.elements}


@pytest.mark.exhaustive
def test_a_thousand_classes_with_long_names_stay_below_the_limit(tmp_path: Path) -> None:
    C = 1000
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(2 * C, 4, generator=rng), torch.arange(2 * C) % C
    fitted(x, [f"class {k} " + "x" * 300 for k in y.tolist()], tmp_path / "run", 2)
    page = page_of(tmp_path / "run", tmp_path)
    assert len(page.source.encode()) < LARGEST
    assert "50 of 1000 classes" in page.text


@pytest.mark.exhaustive
def test_equal_runs_have_equal_pages(moons: RunFolder, tmp_path: Path) -> None:
    assert page_of(moons, tmp_path / "a").source == page_of(moons, tmp_path / "b").source


# Figures


@pytest.mark.exhaustive
def test_figures_are_written_for_a_paper(digits: RunFolder, tmp_path: Path) -> None:
    written, missing = save_all(digits, tmp_path)
    assert missing == []
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"{n}.{e}" for n in FIGURES for e in ("png", "pdf"))
    assert len(written) == 2 * len(FIGURES)
    for path in written:
        start = path.read_bytes()[:4]
        assert start == (b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")


@pytest.mark.exhaustive
def test_a_figure_that_a_run_cannot_show_is_told(stopped: Path, tmp_path: Path) -> None:
    written, missing = save_all(RunFolder.open(stopped), tmp_path, ["png"])
    assert any(sentence.startswith("no figure 'truth': ") and "finished" in sentence for sentence in missing)
    assert "turning-point.png" in [path.name for path in written]
    assert "losses.png" in [path.name for path in written]


@pytest.mark.parametrize("endings", [["gif"], [], ["png", "bmp"]])
def test_figures_have_a_format_that_is_known(digits: RunFolder, tmp_path: Path, endings: list[str]) -> None:
    with pytest.raises(ConfigError, match="png, svg, pdf"):
        save_all(digits, tmp_path, endings)
    assert not list(tmp_path.iterdir())


def test_the_matrix_shows_suggested_by_given_labels(digits: RunFolder) -> None:
    found = digits.findings()
    counts = np.zeros((10, 10))
    np.add.at(counts, (found.given.numpy(), found.suggested.numpy()), 1)
    drawn = np.asarray(suggestions(digits).axes[0].images[0].get_array())
    np.testing.assert_allclose(drawn, counts / counts.sum(1, keepdims=True))


def test_bars_and_dots_are_the_shares_of_each_class(digits: RunFolder) -> None:
    found, true = digits.findings(), digits.true
    assert true is not None
    axes = noise_by_class(digits).axes[0]
    relabel, review = ([bar.get_width() for bar in box] for box in axes.containers)
    labels = [int(label.get_text()) for label in axes.get_yticklabels()]
    assert sorted(labels) == list(range(10))
    for place, label in enumerate(labels):
        of = found.given == label
        assert relabel[place] + review[place] == pytest.approx(float(found.is_issue[of].double().mean()))
        dot = float(np.asarray(axes.lines[0].get_xdata())[place])
        assert dot == pytest.approx(float((found.given != true)[of].double().mean()))
    doubt = np.add(relabel, review)
    assert (np.diff(doubt) <= 1e-12).all()


@pytest.mark.exhaustive
def test_letters_that_the_font_lacks_are_no_reason_to_stop(tmp_path: Path) -> None:
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    fitted(x, np.where((x[:, 0] > 0).numpy(), "猫 $\\frac{", "🐕").tolist(), tmp_path / "run", 2)
    page = page_of(tmp_path / "run", tmp_path)
    assert "猫 $\\frac{" in page.text


# Numbers


def test_auroc_equals_scikit_learns_also_with_ties() -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(300) < 0.3
    scores = np.round(rng.normal(size=300) + positive, 1)
    assert auroc(torch.from_numpy(scores), torch.from_numpy(positive)) == pytest.approx(roc_auc_score(positive, scores))


def test_shares_of_a_class_without_samples_are_zero() -> None:
    given = torch.tensor([0, 0, 2])
    assert shares(torch.tensor([True, False, True]), given, 3).tolist() == [0.5, 0, 1]


def test_samples_must_not_be_negative(moons: RunFolder) -> None:
    with pytest.raises(InputError, match="0 or more; got -1"):
        write_report(moons, samples=-1)


# The commands


def call(*arguments: str) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(report_command)
    app.command()(figures_command)
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.exhaustive
def test_the_command_writes_the_page_into_the_run_and_says_where(moons: RunFolder, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(moons.path, tmp_path / "run"))
    result = call("report", str(copy))
    assert result.exit_code == 0, result.output
    assert result.stdout.split()[:2] == ["report", str(copy / "report.html")]
    assert Page(copy / "report.html").ids
    result = call("figures", str(copy), "--format", "PNG, .svg")
    assert result.exit_code == 0, result.output
    assert (copy / "figures" / "losses.svg").is_file()


@pytest.mark.usefixtures("undrawn")
def test_the_command_notes_a_run_that_is_not_finished(stopped: Path, tmp_path: Path) -> None:
    result = call("report", str(stopped), "--out", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    assert "is not finished; the report shows what is known so far" in result.stderr
    assert f"selc resume {stopped}" in result.stdout
    assert "selc review" not in result.stdout  # which needs a finished run


@pytest.mark.parametrize("command", ["report", "figures"])
def test_a_folder_that_is_no_run_is_one_sentence(command: str, tmp_path: Path) -> None:
    result = call(command, str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "must be the folder of a run" in result.stderr
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())
