"""`selc review` and `selc apply` without a browser: what is shown, what is written, what is refused."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from selc.analysis.findings import ACTIONS, KEEP, RELABEL, REVIEW, Findings
from selc.callbacks import Callback
from selc.cli.review import apply, review
from selc.errors import InputError
from selc.review.order_of_work import most_valuable
from selc.review.review_page import as_data
from selc.runs import Config, RunFolder, execute, fit
from selc.runs.cleaned import cleaned_labels, verified_rows
from selc.runs.decisions import Band, Decisions, fingerprint
from selc.runs.job import load
from tests.own_data.miniature import COLOURS, encoded, picture, write_csv

app = typer.Typer()
app.command()(review)
app.command()(apply)
SCRIPT = "</script><script>window.hacked=1</script>"

SMALL = {
    "method": {"name": "ce"},
    "net": {"name": "mlp", "hidden": [8]},
    "train": {"epochs": 2, "batch_size": 8},
}


class Quiet(Callback):
    """What is said of so few data is not what is tested here."""

    def on_notice(self, text: str) -> bool:
        return True


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.stderr
    return errors[0]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    settings = {
        "data": "digits",
        "noise": {"name": "symmetric", "rate": 0.4},
        "net": {"name": "mlp", "hidden": [32]},
        "train": {"epochs": 15},
    }
    return execute(Config.resolve(settings), tmp_path_factory.mktemp("digits") / "run")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run on a folder whose names are markup; the same file name is in each class."""
    root = tmp_path_factory.mktemp("photos") / "data"
    for name in COLOURS:
        (root / name).mkdir(parents=True)
        for number in range(6):
            (root / name / f"{number}.png").write_bytes(encoded(picture(name, number)))
    (root / "red" / "<img src=x onerror=window.hacked=1>.png").write_bytes(encoded(picture("red", 9)))
    settings = {
        "data": {"name": "folder", "path": str(root), "cache": "off"},
        **SMALL,
    }
    return execute(Config.resolve(settings), root.parent / "run", [Quiet()])


def content_of(html: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html.read_text(), re.S)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return unpacked(content)


def unpacked(content: dict[str, Any]) -> dict[str, Any]:
    """What the page's script makes of the columns: each sample for itself, links by key."""
    columns, classes = content["samples"], content["classes"]
    samples, links = [], {}
    for k, name in enumerate(columns["id"]):
        key = str(columns["key"][k])
        nearer, alike = content["near"].get(key, (None, []))
        link = columns["link"][k] if columns["link"] else None
        if link is not None:
            links[key] = content["links"] + (link or name)
        samples.append(
            {
                "id": name,
                "key": key,
                "given": classes[columns["given"][k]],
                "suggested": classes[columns["suggested"][k]],
                "zone": content["zones"][columns["zone"][k]],
                "confidence": columns["confidence"][k],
                "quality": columns["quality"][k],
                "nearer": nearer,
                "alike": alike,
            }
        )
    return {**content, "samples": samples, "links": links}


def decide(run: RunFolder, verdicts: dict[int, tuple[str, str | None]], path: Path) -> Path:
    """A file of decisions, written out by hand."""
    findings, names = run.findings(), run.classes
    decisions = [
        {
            "sample_id": run.ids[row],
            "given": names[findings.given[row]],
            "suggested": names[findings.suggested[row]],
            "confidence": float(findings.confidence[row]),
            "verdict": verdict,
            "label": label,
        }
        for row, (verdict, label) in verdicts.items()
    ]
    content = {"format": 1, "run": fingerprint(run), "samples": len(run.ids), "decisions": decisions}
    path.write_text(json.dumps(content))
    return path


def some_of_each(run: RunFolder) -> tuple[dict[int, tuple[str, str | None]], list[int]]:
    """A verdict of each kind on samples that the run would relabel."""
    findings = run.findings()
    rows = (findings.action == RELABEL).nonzero().flatten()[:5].tolist()
    names = run.classes
    given, suggested = ([names[k] for k in column[rows].tolist()] for column in (findings.given, findings.suggested))
    third = next(name for name in names if name not in (given[2], suggested[2]))
    verdicts: list[tuple[str, str | None]] = [
        ("keep", given[0]),
        ("suggested", suggested[1]),
        ("other", third),
        ("drop", None),
        ("skip", None),
    ]
    return dict(zip(rows, verdicts, strict=True)), rows


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_zones_take_turns_and_the_worst_label_of_each_comes_first() -> None:
    action = torch.tensor([KEEP, RELABEL, REVIEW, RELABEL, RELABEL, KEEP])
    quality = torch.tensor([0.9, 0.3, 0.2, 0.1, 0.4, 0.5])
    zero = torch.zeros(6, dtype=torch.long)
    findings = Findings(zero, zero, zero, quality, quality, action)
    assert most_valuable(findings, 10) == [3, 2, 1, 4, 5, 0]
    assert most_valuable(findings, 2) == [3, 2]


def test_a_page_holds_the_samples_with_pictures_and_look_alikes_of_both_classes(
    digits: RunFolder, tmp_path: Path
) -> None:
    result = call("review", str(digits.path), "--top", "40", "--out", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    content = content_of(tmp_path / "page.html")
    rows = {row["sample_id"]: row for row in table(digits.path / "label_issues.csv")}
    assert len(content["samples"]) == 40
    for sample in content["samples"]:
        row = rows[sample["id"]]
        assert (sample["given"], sample["suggested"]) == (row["given_label"], row["suggested_label"])
        assert (sample["confidence"], sample["zone"]) == (float(row["suggested_confidence"]), row["action"])
        assert content["pictures"][sample["key"]].startswith("data:image/png;base64,")
        assert sample["alike"][0]["label"] == sample["given"]
        assert sample["alike"][1]["label"] not in ("", sample["given"])
        for group in sample["alike"]:
            assert len(group["rows"]) == 3
            for other in group["rows"]:
                assert other["id"] != sample["id"]
                assert (rows[other["id"]]["given_label"], rows[other["id"]]["action"]) == (group["label"], "keep")
    assert "http" not in (tmp_path / "page.html").read_text().split('id="data"')[0].replace("http-equiv", "")


def test_the_picture_of_a_sample_is_that_of_its_row(photos: RunFolder, tmp_path: Path) -> None:
    import base64
    import io

    from PIL import Image

    assert call("review", str(photos.path), "--out", str(tmp_path / "page.html")).exit_code == 0
    content = content_of(tmp_path / "page.html")
    assert len(content["samples"]) == 19
    for sample in content["samples"]:
        url = content["pictures"][sample["key"]]
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))))
        folder = Path(photos.config.data.options["path"])
        assert np.array_equal(pixels, np.asarray(Image.open(folder / sample["id"])))


def test_data_in_a_page_have_no_sign_that_begins_markup() -> None:
    written = as_data({SCRIPT: ["<!--", "&lt;", "\u2028", "{{js}}"]})
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == {SCRIPT: ["<!--", "&lt;", "\u2028", "{{js}}"]}


def test_markup_in_names_stays_inside_the_data(photos: RunFolder, tmp_path: Path) -> None:
    assert call("review", str(photos.path), "--out", str(tmp_path / "page.html")).exit_code == 0
    text = (tmp_path / "page.html").read_text()
    assert "<img src=x" not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert "red/<img src=x onerror=window.hacked=1>.png" in {
        s["id"] for s in content_of(tmp_path / "page.html")["samples"]
    }


def test_without_decisions_only_what_the_run_is_sure_of_is_changed(digits: RunFolder, tmp_path: Path) -> None:
    result = call("apply", str(digits.path), "--out", str(tmp_path / "cleaned"))
    assert result.exit_code == 0, result.output
    issues, rows = table(digits.path / "label_issues.csv"), table(tmp_path / "cleaned" / "cleaned.csv")
    assert list(rows[0]) == ["sample_id", "label", "given_label", "source"]
    for issue, row in zip(issues, rows, strict=True):
        sure = issue["action"] == "relabel"
        assert row["sample_id"] == issue["sample_id"]
        assert row["label"] == issue["suggested_label" if sure else "given_label"]
        assert (row["given_label"], row["source"]) == (issue["given_label"], "relabelled" if sure else "given")


def test_verdicts_win_and_a_skipped_sample_is_as_if_not_reviewed(digits: RunFolder, tmp_path: Path) -> None:
    verdicts, chosen = some_of_each(digits)
    path = decide(digits, verdicts, tmp_path / "decisions.json")
    result = call("apply", str(digits.path), "--decisions", str(path), "--out", str(tmp_path / "cleaned.csv"))
    assert result.exit_code == 0, result.output
    rows = table(tmp_path / "cleaned.csv")
    issue = table(digits.path / "label_issues.csv")
    kept, taken, other, dropped, skipped = chosen
    assert (rows[kept]["label"], rows[kept]["source"]) == (issue[kept]["given_label"], "human")
    assert (rows[taken]["label"], rows[taken]["source"]) == (issue[taken]["suggested_label"], "human")
    assert (rows[other]["label"], rows[other]["source"]) == (verdicts[other][1], "human")
    assert (rows[dropped]["label"], rows[dropped]["source"]) == ("", "dropped")
    assert (rows[skipped]["label"], rows[skipped]["source"]) == (issue[skipped]["suggested_label"], "relabelled")
    # Judged are keep, suggested, other and drop; agreed with is one.
    assert re.search(r"all +1 of 4, 25%", result.stdout)
    counts = dict.fromkeys(("0.0 to 0.7", "0.7 to 0.9", "0.9 to 1.0"), 0)
    for row in chosen[:4]:
        c = float(issue[row]["suggested_confidence"])
        counts["0.0 to 0.7" if c < 0.7 else "0.7 to 0.9" if c < 0.9 else "0.9 to 1.0"] += 1
    for band, count in counts.items():
        assert re.search(rf"confidence {band} +" + (rf"\d of {count}," if count else "none reviewed"), result.stdout)
    only = ["--human-only", "--out", str(tmp_path / "only.parquet")]
    assert call("apply", str(digits.path), "--decisions", str(path), *only).exit_code == 0
    import pyarrow.parquet as pq

    sources = pq.read_table(tmp_path / "only.parquet").column("source").to_pylist()
    assert (sources.count("human"), sources.count("dropped"), sources.count("given")) == (3, 1, len(rows) - 4)


def test_the_interval_is_wilsons() -> None:
    # Newcombe, 1998, Table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0 to 0.1611.
    assert Band(0, 1, 263, 81).interval == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert Band(0, 1, 20, 0).interval == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_a_new_tree_has_the_cleaned_labels_and_the_original_is_untouched(photos: RunFolder, tmp_path: Path) -> None:
    root = Path(photos.config.data.options["path"])
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(root.rglob("*")) if p.is_file()}
    row = {sample: k for k, sample in enumerate(photos.ids)}
    verdicts: dict[int, tuple[str, str | None]] = {row[sample]: ("keep", sample.split("/")[0]) for sample in photos.ids}
    suggested = [photos.classes[k] for k in photos.findings().suggested.tolist()]
    for sample, label in (("red/0.png", "blue"), ("green/0.png", "blue")):
        verdicts[row[sample]] = ("suggested" if suggested[row[sample]] == label else "other", label)
    verdicts[row["red/1.png"]] = ("drop", None)
    path = decide(photos, verdicts, tmp_path / "decisions.json")
    for flags, name in (([], "links"), (["--copy"], "copies")):
        out = tmp_path / name
        result = call("apply", str(photos.path), "--decisions", str(path), "--out", str(out), *flags)
        assert result.exit_code == 0, result.output
        tree = out / "tree"
        made = {str(p.relative_to(tree)): p for p in tree.rglob("*") if p.is_file()}
        gone = {"red/0.png", "green/0.png", "red/1.png"}
        assert set(made) == (set(photos.ids) - gone) | {"blue/0.from-red.png", "blue/0.from-green.png"}
        assert made["blue/0.from-red.png"].read_bytes() == (root / "red/0.png").read_bytes()
        assert made["blue/0.png"].read_bytes() == (root / "blue/0.png").read_bytes()
        assert os.path.samefile(made["blue/0.png"], root / "blue/0.png") == (not flags)
        assert sorted(p.name for p in out.iterdir()) == ["cleaned.csv", "cleaned.parquet", "tree"]
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(root.rglob("*")) if p.is_file()}
    again = refused("apply", str(photos.path), "--out", str(tmp_path / "links"))
    assert "is there already" in again
    inside = refused("apply", str(photos.path), "--out", str(root / "cleaned"))
    assert "inside the data" in inside
    assert not (root / "cleaned").exists()


def test_cleaned_labels_are_matched_by_the_name_of_the_sample(digits: RunFolder, tmp_path: Path) -> None:
    verdicts, chosen = some_of_each(digits)
    path = decide(digits, verdicts, tmp_path / "decisions.json")
    out = tmp_path / "cleaned"
    assert call("apply", str(digits.path), "--decisions", str(path), "--out", str(out)).exit_code == 0
    rows = table(out / "cleaned.csv")
    turned = write_csv(tmp_path / "turned.csv", list(rows[0]), [list(r.values()) for r in reversed(rows)])
    bundle = load(digits.config)
    for place in (out, out / "cleaned.parquet", turned):
        cleaned = cleaned_labels(place, bundle)
        left = cleaned.rows.tolist()
        assert left == [k for k in range(len(rows)) if k != chosen[3]]
        assert [bundle.classes[cleaned.labels[k]] for k in left] == [rows[k]["label"] for k in left]
    verified = verified_rows(path, bundle, digits.given)
    names = [bundle.classes[k] for k in verified.labels.tolist()]
    assert dict(zip(verified.rows.tolist(), names, strict=True)) == {k: verdicts[k][1] for k in chosen[:3]}
    assert verified.dropped.tolist() == [chosen[3]]
    assert torch.equal(verified_rows(path, digits).rows, verified.rows)


def test_tables_of_other_data_are_refused(digits: RunFolder, tmp_path: Path) -> None:
    head, bundle = ["sample_id", "label", "given_label", "source"], load(digits.config)
    good = [[sample, "1", "1", "given"] for sample in digits.ids]
    for name, rows, words in (
        ("short", good[1:], "no row for '0'"),
        ("strange", [*good, ["x", "1", "1", "given"]], "'x', which the data do not have"),
        ("twice", [*good, good[0]], "'0' 2 times"),
        ("class", [["0", "cat", "1", "given"], *good[1:]], "got 'cat' for '0'"),
        ("source", [["0", "1", "1", "guess"], *good[1:]], "got 'guess'"),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            cleaned_labels(write_csv(tmp_path / f"{name}.csv", head, rows), bundle)
    with pytest.raises(InputError, match="'source'"):
        cleaned_labels(write_csv(tmp_path / "columns.csv", head[:3], [row[:3] for row in good]), bundle)
    with pytest.raises(InputError, match="what `selc apply` wrote"):
        cleaned_labels(tmp_path / "nowhere", bundle)


def test_decisions_that_do_not_fit_are_refused_with_a_sentence_and_nothing_is_written(
    digits: RunFolder, photos: RunFolder, tmp_path: Path
) -> None:
    verdicts, chosen = some_of_each(digits)
    good = json.loads(decide(digits, verdicts, tmp_path / "good.json").read_text())
    first = good["decisions"][0]

    def answer(content: object) -> str:
        path = tmp_path / "bad.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return refused("apply", str(digits.path), "--decisions", str(path), "--out", str(tmp_path / "cleaned"))

    assert "more than once" in answer({**good, "decisions": [first, first]})
    assert "other labels" in answer({**good, "run": fingerprint(photos)})
    assert "format 1" in answer({**good, "format": 2})
    assert "format 1" in answer([1])
    assert "whole file of JSON" in answer(json.dumps(good)[:-9])
    assert "whole file of JSON" in answer("[" * 100_000)
    assert "without one of them" in answer({k: v for k, v in good.items() if k != "decisions"})
    assert "one of the verdicts" in answer({**good, "decisions": [{**first, "verdict": "maybe"}]})
    assert "must have the label" in answer({**good, "decisions": [{**first, "label": "cat"}]})
    assert "'cat'" in answer({**good, "decisions": [{**first, "verdict": "other", "label": "cat"}]})
    assert "do not have" in answer({**good, "decisions": [{**first, "sample_id": "x"}]})
    wrong = next(name for name in digits.classes if name != first["given"])
    assert "in the data it is" in answer({**good, "decisions": [{**first, "given": wrong, "label": wrong}]})
    assert "must be an object" in answer({**good, "decisions": [5]})
    nowhere = ["--decisions", str(tmp_path / "no.json"), "--out", str(tmp_path / "cleaned")]
    assert "can be read" in refused("apply", str(digits.path), *nowhere)
    assert "--decisions" in refused("apply", str(digits.path), "--human-only", "--out", str(tmp_path / "cleaned"))
    assert "--tree" in refused("apply", str(digits.path), "--tree", "--out", str(tmp_path / "cleaned"))
    assert not (tmp_path / "cleaned").exists()
    assert len(Decisions.read(tmp_path / "good.json").made) == len(chosen)


def test_a_run_that_was_not_finished_is_refused(digits: RunFolder, tmp_path: Path) -> None:
    import shutil

    half = tmp_path / "half"
    shutil.copytree(digits.path, half)
    (half / "summary.json").unlink()
    for command in (["review"], ["apply", "--out", str(tmp_path / "cleaned")]):
        sentence = refused(command[0], str(half), *command[1:])
        assert "must be a finished run" in sentence
        assert "selc resume" in sentence
    assert not (half / "review.html").exists()
    assert f"got a folder that holds runs. Give one of them: {half}." in refused("review", str(tmp_path))


def test_samples_with_one_name_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(24, 3)), y=np.arange(24) % 2, ids=np.arange(24))
    settings = {"data": {"name": "npz", "path": str(tmp_path / "data.npz")}, **SMALL}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    with np.load(run.path / "given_labels.npz") as arrays:  # such ids are refused before a training now
        older = {**arrays, "ids": np.array(["a", "a", *(f"s{k}" for k in range(22))])}
    np.savez(run.path / "given_labels.npz", **older)
    assert "'a' 2 times" in refused("review", str(run.path))
    assert "'a' 2 times" in refused("apply", str(run.path), "--out", str(tmp_path / "cleaned"))
    assert not (tmp_path / "cleaned").exists()
    assert not (run.path / "review.html").exists()


def test_cells_of_a_table_are_shown_in_its_own_units_and_odd_names_come_back_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    body = [
        [f"s{k}", SCRIPT if k % 2 else "<b>", f"{rng.normal() + k % 2:.3f}", f"{100 * rng.normal():.3f}"]
        for k in range(24)
    ]
    names = ["=1+1", 'a"b,c', "line\nend", "turn\rback", " left", "Ünïcode \u202e"]
    for row, name in zip(body, names, strict=False):
        row[0] = name
    path = write_csv(tmp_path / "data.csv", ["id", "label", "<i>width</i>", "height"], body)
    settings = {"data": {"name": "table", "path": str(path)}, **SMALL}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    assert call("review", str(run.path)).exit_code == 0
    content = content_of(run.path / "review.html")
    cells = {row[0].strip(): row[2:] for row in body}
    assert len(content["samples"]) == 24
    for sample in content["samples"]:
        shown = {name: float(value) for name, value in content["tables"][sample["key"]]}
        width, height = map(float, cells[sample["id"].strip()])
        assert shown == pytest.approx({"<i>width</i>": width, "height": height}, abs=2e-3, rel=1e-3)
    assert {sample["zone"] for sample in content["samples"]} <= set(ACTIONS)
    assert call("apply", str(run.path), "--out", str(tmp_path / "cleaned")).exit_code == 0
    bundle = load(run.config)
    given = run.given
    changed = run.findings().action == RELABEL
    for ending in ("csv", "parquet"):
        cleaned = cleaned_labels(tmp_path / "cleaned" / f"cleaned.{ending}", bundle)
        assert torch.equal(cleaned.labels[~changed], given[~changed])
        assert torch.equal(cleaned.labels[changed], run.findings().suggested[changed])


def test_a_run_on_arrays_in_memory_is_reviewed_without_pictures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)).astype(np.float32), np.arange(40) % 2
    fit(x, y, method="ce", net_options={"hidden": [4]}, net="mlp", epochs=2, out=tmp_path / "run", callbacks=[Quiet()])
    assert call("review", str(tmp_path / "run")).exit_code == 0
    content = content_of(tmp_path / "run" / "review.html")
    assert (len(content["samples"]), content["pictures"], content["tables"]) == (40, {}, {})
