"""To each annotation tool and back: what a person chose there is the label that `selc apply` writes."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from selc.cli.export import export as export_command
from selc.cli.review import apply
from selc.errors import ConfigError, InputError, SelcError
from selc.review.exchange import TOOLS, export, read_decisions
from selc.review.exchange.tools.base import DROP, address
from selc.runs import RunFolder, fit
from tests.exchange.answering import ANSWERED

app = typer.Typer()
app.command("export")(export_command)
app.command()(apply)
TOP = 8


@pytest.fixture(params=["folder", "table"])
def run(request: pytest.FixtureRequest) -> RunFolder:
    found: RunFolder = request.getfixturevalue("photos" if request.param == "folder" else "reviews")
    return found


def run_for(tool: str, photos: RunFolder, reviews: RunFolder) -> RunFolder:
    return reviews if "images" not in TOOLS[tool].shows else photos


def verdicts(run: RunFolder) -> dict[str, str | None]:
    """For the eight samples of lowest quality, one verdict of each kind; the last three are skipped."""
    findings, names, ids = run.findings(), run.classes, run.ids
    given = [names[k] for k in findings.given.tolist()]
    suggested = [names[k] for k in findings.suggested.tolist()]
    third = next(name for name in names if name not in (given[2], suggested[2]))
    chosen = [given[0], suggested[1], third, DROP, suggested[4]]
    return {**dict.fromkeys(ids[:TOP]), **dict(zip(ids, chosen, strict=False))}


def exported(run: RunFolder, tool: str, folder: Path, **how: Any) -> str:
    return export(run, tool, folder / "tasks", top=TOP, **how).tasks.read_text()


def answer(run: RunFolder, tool: str, folder: Path, choices: dict[str, str | None] | None = None) -> Path:
    """An export of the tool; by default the person has done as `verdicts` says."""
    path = folder / "answers.download"  # not told by its name
    path.write_text(ANSWERED[tool](exported(run, tool, folder), verdicts(run) if choices is None else choices))
    return path


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def refused(path: Path, run: RunFolder) -> str:
    with pytest.raises(InputError) as error:
        read_decisions(path, run)
    return error.value.for_command


def test_every_tool_has_a_round_trip() -> None:
    assert set(ANSWERED) == set(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_person_chose_in_the_tool_is_the_label_that_apply_writes(
    tool: str, run: RunFolder, tmp_path: Path
) -> None:
    kind = "images" if run.config.data.name == "folder" else "texts"
    if kind not in TOOLS[tool].shows:
        with pytest.raises(InputError, match=f"takes {TOOLS[tool].shows} only"):
            export(run, tool, tmp_path / "tasks")
        return
    path = answer(run, tool, tmp_path)
    out = tmp_path / "cleaned.csv"
    result = CliRunner().invoke(
        app, ["apply", str(run.path), "--decisions", str(path), "--out", str(out), "--human-only"]
    )
    assert result.exit_code == 0, result.output
    with open(out, newline="", encoding="utf-8") as file:
        rows = {row["sample_id"]: row for row in csv.DictReader(file)}
    assert list(rows) == run.ids
    chosen = verdicts(run)
    for sample, row in rows.items():
        choice = chosen.get(sample)
        if choice is None:
            assert (row["label"], row["source"]) == (row["given_label"], "given")
        elif choice == DROP:
            assert (row["label"], row["source"]) == ("", "dropped")
        else:
            assert (row["label"], row["source"]) == (choice, "human")
    # Of five judged suggestions of a change two were agreed with: the dropped one and the two others were not.
    assert "2 of 5" in result.output
    made, _ = read_decisions(path, run)
    kinds = [made.made[sample].verdict for sample in run.ids[:6]]
    assert kinds == ["keep", "suggested", "other", "drop", "suggested", "skip"]


@pytest.mark.parametrize("tool", TOOLS)
def test_answers_that_do_not_fit_are_refused_with_a_sentence(
    tool: str, photos: RunFolder, reviews: RunFolder, tmp_path: Path
) -> None:
    run = run_for(tool, photos, reviews)
    path = answer(run, tool, tmp_path)
    good, sample = path.read_text(), run.ids[0]
    path.write_text(good.replace(f'"{sample}"', '"nowhere.png"'))
    assert "the data do not have" in refused(path, run)
    strange = {**verdicts(run), sample: "unicorn"}
    assert "classes of the data; got 'unicorn'" in refused(answer(run, tool, new(tmp_path / "other"), strange), run)
    nobody: dict[str, str | None] = dict.fromkeys(verdicts(run))
    assert "none of which anybody has judged" in refused(answer(run, tool, new(tmp_path / "nobody"), nobody), run)
    for broken in (good[:-9], "", "no file of any tool", "[" * 100_000):
        path.write_text(broken)
        assert "decisions must be" in refused(path, run)
    path.write_bytes(b"\xff\xfe\x00")
    assert "decisions must be" in refused(path, run)
    path.write_bytes(b"PK\3\4")
    assert "unpacked" in refused(path, run)


@pytest.mark.parametrize("tool", sorted(set(TOOLS) - {"cvat"}))
def test_answers_about_other_labels_are_refused(
    tool: str, photos: RunFolder, reviews: RunFolder, tmp_path: Path
) -> None:
    """CVAT hands back no fingerprint: there the given labels are compared."""
    run = run_for(tool, photos, reviews)
    path = answer(run, tool, tmp_path)
    good = path.read_text()
    fingerprint = next(part for part in good.split('"') if len(part) == 64)
    path.write_text(good.replace(fingerprint, "0" * 64))
    assert "a run on other labels" in refused(path, run)
    path.write_text(good.replace("selc_run", "its_run"))
    assert "'selc_run'" in refused(path, run)


def test_of_cvat_the_given_labels_must_be_those_of_the_run(photos: RunFolder, tmp_path: Path) -> None:
    path = answer(photos, "cvat", tmp_path)
    given = photos.classes[photos.given[1]]
    path.write_text(path.read_text().replace(f'name="given_label">{given}<', 'name="given_label">red<'))
    assert "in the data it is" in refused(path, photos)


def test_a_sample_with_two_answers_counts_if_they_agree_and_is_refused_if_not(
    photos: RunFolder, tmp_path: Path
) -> None:
    path = answer(photos, "label-studio", tmp_path)
    tasks = json.loads(path.read_text())
    task = next(task for task in tasks if task["data"]["sample_id"] == photos.ids[1])
    again = dict(task["annotations"][0], id=99, completed_by=2)
    skipped = {"result": [], "was_cancelled": True}
    task["annotations"] = [skipped, *task["annotations"], again, skipped]
    path.write_text(json.dumps(tasks))
    assert read_decisions(path, photos)[0].made[photos.ids[1]].verdict == "suggested"
    other = next(name for name in photos.classes if name != verdicts(photos)[photos.ids[1]])
    task["annotations"].append({"result": [dict(again["result"][0], value={"choices": [other]})]})
    path.write_text(json.dumps(tasks))
    assert "must decide on each sample once" in refused(path, photos)
    lines = answer(photos, "prodigy", new(tmp_path / "p"))
    rows = lines.read_text().splitlines()
    lines.write_text("\n".join([*rows, rows[0]]))
    assert read_decisions(lines, photos)[0].made[photos.ids[0]].verdict == "keep"
    rows.append(json.dumps({**json.loads(rows[0]), "accept": [DROP]}))
    lines.write_text("\n".join(rows))
    assert f"{DROP!r} for {photos.ids[0]!r}" in refused(lines, photos)


def test_two_labels_of_one_sample_are_refused(reviews: RunFolder, tmp_path: Path) -> None:
    path = answer(reviews, "doccano", tmp_path)
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "label": ["good", "bad"]}), *others]))
    assert "must have one label; got 'good', 'bad'" in refused(path, reviews)


def test_an_export_that_says_too_little_is_refused(photos: RunFolder, tmp_path: Path) -> None:
    path = answer(photos, "label-studio", tmp_path)
    tasks = json.loads(path.read_text())
    path.write_text(json.dumps([{**task["data"], "label": "red", "annotation_id": 1} for task in tasks]))
    assert "JSON-MIN" in refused(path, photos)
    path.write_text((tmp_path / "tasks").read_text())  # what was imported, and not what came back
    assert "Is it the file that was imported there?" in refused(path, photos)
    for change in ({"annotations": 5}, {"annotations": [{"result": 5}]}, {"data": 5}, {"annotations": [5]}):
        path.write_text(json.dumps([{**tasks[0], **change}]))
        assert "task 1 of" in refused(path, photos)


def test_what_nobody_looked_at_is_no_verdict_and_is_said(photos: RunFolder, tmp_path: Path) -> None:
    """CVAT does not tell a tag that was left from one that was agreed with; Prodigy's reject names no label."""
    path = answer(photos, "cvat", tmp_path)
    made, notes = read_decisions(path, photos)
    assert [made.made[sample].verdict for sample in photos.ids[5:TOP]] == ["skip"] * 3
    assert len(notes) == 1
    assert "3 suggestions are as they were exported" in notes[0]
    path.write_text(path.read_text().replace('source="auto"', 'source="manual"'))  # as older versions wrote it
    assert read_decisions(path, photos)[0].made == made.made
    lines = answer(photos, "prodigy", new(tmp_path / "p"))
    lines.write_text(lines.read_text().replace('"answer": "ignore"', '"answer": "reject"'))
    rejected, notes = read_decisions(lines, photos)
    assert rejected.made == made.made
    assert "3 samples were rejected" in notes[0]


def test_xml_with_definitions_of_its_own_is_refused(photos: RunFolder, tmp_path: Path) -> None:
    path = tmp_path / "bomb.xml"
    path.write_text('<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><annotations>&c;</annotations>')
    assert "DOCTYPE" in refused(path, photos)
    path.write_text("<annotations/>")
    assert "without images" in refused(path, photos)


def test_images_of_cvat_are_known_with_a_folder_before_their_path(photos: RunFolder, tmp_path: Path) -> None:
    path = answer(photos, "cvat", tmp_path)
    top = ET.fromstring(path.read_text())
    for image in top.iter("image"):
        image.set("name", "share/my photos/" + image.get("name", ""))
    path.write_text(ET.tostring(top, encoding="unicode"))
    assert set(read_decisions(path, photos)[0].made) == set(photos.ids[:TOP])


def test_tasks_carry_the_view_the_suggestion_with_its_score_and_what_is_known(
    photos: RunFolder, reviews: RunFolder, tmp_path: Path
) -> None:
    task = json.loads(exported(photos, "label-studio", tmp_path))[0]
    first = photos.ids[0]
    assert task["data"]["image"] == "/data/local-files/?d=my%20photos/" + first
    assert (task["data"]["sample_id"], task["data"]["given_label"]) == (first, "blue")
    assert task["data"]["label_quality"] == pytest.approx(0.01)
    (prediction,) = task["predictions"]
    assert prediction["score"] == pytest.approx(0.95)
    assert prediction["result"][0]["value"]["choices"] == ["green"]
    line = json.loads(exported(photos, "prodigy", new(tmp_path / "p")).splitlines()[0])
    assert Path(line["image"]).read_bytes()  # where the image lies
    assert [option["id"] for option in line["options"]] == ["blue", "green", "red", DROP]
    assert line["accept"] == ["green"]
    assert line["meta"] == {"sample_id": first, "given_label": "blue", "label_quality": 0.01, "score": 0.95}
    row = json.loads(exported(reviews, "doccano", new(tmp_path / "d")).splitlines()[0])
    assert row["text"] == "opinion: a good film & <i>0</i>\nstars: 0"
    assert (row["label"], row["suggested_label"]) == ([], "so-so")  # the next class
    image = ET.fromstring(exported(photos, "cvat", new(tmp_path / "c"))).find("image")
    assert image is not None
    assert dict(image.attrib) == {"id": "0", "name": first, "width": "12", "height": "10"}


def test_the_setup_names_every_class_and_the_way_to_drop_a_sample(
    photos: RunFolder, reviews: RunFolder, tmp_path: Path
) -> None:
    expected = ["blue", "green", "red", DROP]
    studio = export(photos, "label-studio", tmp_path / "a.json").setup
    assert studio == tmp_path / "a.setup.xml"
    assert [choice.get("value") for choice in ET.fromstring(studio.read_text()).iter("Choice")] == expected
    cvat = export(photos, "cvat", tmp_path / "b.xml").setup
    assert cvat is not None
    assert [label["name"] for label in json.loads(cvat.read_text())] == expected
    doccano = export(reviews, "doccano", tmp_path / "c.jsonl").setup
    assert doccano is not None
    assert [label["text"] for label in json.loads(doccano.read_text())] == [*reviews.classes, DROP]
    assert export(photos, "prodigy", tmp_path / "d.jsonl").setup is None


def test_top_and_only_choose_the_samples(photos: RunFolder, tmp_path: Path) -> None:
    """Five are to relabel and two to review; the worst label comes first."""

    def chosen(name: str, **how: Any) -> list[str]:
        tasks = export(photos, "label-studio", tmp_path / name, **how).tasks.read_text()
        return [task["data"]["sample_id"] for task in json.loads(tasks)]

    assert chosen("review", only="review") == photos.ids[5:7]
    assert chosen("relabel", only="relabel", top=3) == photos.ids[:3]
    assert sorted(chosen("all")) == sorted(photos.ids)
    assert len(chosen("few", top=4)) == 4


def test_a_prefix_stands_before_the_path_and_web_addresses_are_escaped(photos: RunFolder, tmp_path: Path) -> None:
    odd = next(sample for sample in photos.ids if "&" in sample)
    assert address("https://host/x/", odd) == "https://host/x/red/100%25%20%26%20%3Cb%3E.png"
    assert address("s3://bucket/", odd) == f"s3://bucket/{odd}"
    export(photos, "label-studio", tmp_path / "a", prefix="https://host/x/")
    views = [task["data"]["image"] for task in json.loads((tmp_path / "a").read_text())]
    assert address("https://host/x/", odd) in views


def test_a_table_of_paths_with_ids_is_exported_by_path_and_comes_back_by_id(photos: RunFolder, tmp_path: Path) -> None:
    from tests.exchange.conftest import SMALL, Quiet, with_findings
    from tests.own_data.miniature import write_csv

    root = Path(photos.config.data.options["path"])
    table = write_csv(
        root.parent / "table.csv",
        ["name", "path", "label"],
        [[f"n{k}", f"my photos/{sample}", sample.split("/")[0]] for k, sample in enumerate(photos.ids)],
    )
    from selc.runs import Config, execute

    data = {"name": "table", "path": str(table), "id_column": "name", "cache": "off", "workers": 1}
    run = with_findings(execute(Config.resolve({"data": data, **SMALL}), tmp_path / "run", [Quiet()]))
    task = json.loads(exported(run, "prodigy", tmp_path).splitlines()[0])
    assert task["meta"]["sample_id"] == "n0"
    assert Path(task["image"]) == (root / photos.ids[0]).resolve()
    with pytest.raises(InputError, match="hands back the names of files"):
        export(run, "cvat", tmp_path / "c.xml")


def test_images_that_are_no_files_are_exported_inside_the_tasks(tmp_path: Path) -> None:
    from selc.runs import Config, execute
    from tests.exchange.conftest import SMALL, Quiet

    settings = {"data": "digits", **SMALL, "net": {"name": "mlp", "hidden": [4]}}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    tasks = json.loads(export(run, "label-studio", tmp_path / "a.json", top=3).tasks.read_text())
    assert [task["data"]["image"][:22] for task in tasks] == ["data:image/png;base64,"] * 3
    with pytest.raises(InputError, match="needs images that are files"):
        export(run, "cvat", tmp_path / "b.xml")
    with pytest.raises(InputError, match=r"^prefix"):
        export(run, "label-studio", tmp_path / "b.json", prefix="x/")


def test_what_cannot_be_exported_is_refused_with_a_sentence_and_nothing_is_written(
    photos: RunFolder, tmp_path: Path
) -> None:
    def said(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["export", str(photos.path), "--out", str(tmp_path / "x.json"), *arguments])
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        return result.stderr

    assert "Did you mean 'label-studio'?" in said("--to", "labelstudio")
    assert "--only must be one of keep, relabel, review" in said("--to", "cvat", "--only", "bad")
    (tmp_path / "x.json").write_text("work")
    assert "must be new" in said("--to", "label-studio")
    assert (tmp_path / "x.json").read_text() == "work"
    (tmp_path / "x.json").rename(tmp_path / "x.setup.xml")
    assert "x.setup.xml" in said("--to", "label-studio")
    assert not (tmp_path / "x.json").exists()
    with pytest.raises(ConfigError, match=r"^top"):
        export(photos, "cvat", tmp_path / "y", top=0)


def test_an_export_that_was_broken_off_leaves_nothing_and_can_be_asked_for_again(
    photos: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        if path.suffix == ".json":
            raise SelcError("the disk is full")
        path.write_text(text)

    with monkeypatch.context() as patch:
        patch.setattr("selc.review.exchange.tasks.write_text", full)
        with pytest.raises(SelcError, match="full"):
            export(photos, "label-studio", tmp_path / "a.json")
    assert not list(tmp_path.iterdir())
    # A kill leaves the note of what was being written, and some of it.
    (tmp_path / ".unfinished.json").write_text('["a.setup.xml", "a.json"]')
    (tmp_path / "a.setup.xml").write_text("half")
    export(photos, "label-studio", tmp_path / "a.json")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.setup.xml"}


def test_samples_and_classes_that_cannot_be_exported_are_refused(
    photos: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = photos.findings()
    none = findings.action.clone().fill_(0)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "findings", lambda run: replace(findings, action=none))
        with pytest.raises(InputError, match=r"^only must leave something to export"):
            export(photos, "cvat", tmp_path / "a.xml", only="review")
    with monkeypatch.context() as patch:
        patch.setattr("selc.review.exchange.items.size_of", lambda path: None)
        with pytest.raises(InputError, match="must still be the image of the run"):
            export(photos, "cvat", tmp_path / "a.xml")
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "classes", property(lambda run: ("blue", DROP, "red")))
        with pytest.raises(InputError, match="no class may be called"):
            export(photos, "cvat", tmp_path / "a.xml")
    assert not list(tmp_path.iterdir())


def test_a_run_on_arrays_cannot_be_exported(tmp_path: Path) -> None:
    import numpy as np

    x = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    fit(x, np.arange(24) % 2, method="ce", epochs=1, batch_size=8, out=tmp_path / "run")
    with pytest.raises(SelcError, match="started from Python"):
        export(RunFolder.open(tmp_path / "run"), "label-studio", tmp_path / "a.json")
