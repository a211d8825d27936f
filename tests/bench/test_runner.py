"""The runner trains every cell once, whatever interrupts it, and says what it will cost."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from selc._io.files import read_json
from selc.bench import runner
from selc.bench.cell import Quiet, found_wrong
from selc.bench.estimate import counted, estimates, size_of, work_of
from selc.bench.results import append_line, read_lines, sole_writer
from selc.bench.runner import Machine, Places, chosen, look, run
from selc.errors import ConfigError
from selc.methods import CE, SELC
from selc.runs import Config, RunFolder, execute
from tests.bench.kill_the_runner import LAST_SEED, fill_the_miniature
from tests.bench.miniature import cell, cells, line

QUIET: list[str] = []


def fill(places: Places, wanted: list[Any], **options: Any) -> runner.Report:
    return run(look(wanted, places, **options), Machine(workers=1), places, say=QUIET.append, **options)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "results.jsonl", tmp_path / "runs")


def texts(places: Places) -> list[dict[str, Any]]:
    return [json.loads(text) for text in places.results.read_text().splitlines()]


def test_a_line_holds_what_selc_train_alone_gives(places: Places, tmp_path: Path) -> None:
    one = cell("SELC", "moons 40%", seed=1)
    report = fill(places, [one])
    assert (report.finished, report.failed) == (1, [])
    [got] = texts(places)
    alone = execute(one.config(), tmp_path / "alone")
    assert got["accuracy"] == alone.summary["accuracy"] == got["last_accuracy"]
    for name in ("right_before", "right_after", "changed"):
        assert got[name] == alone.summary[name]
    noise = json.loads((alone.path / "noise.json").read_text())
    assert got["noise_sha256"] == noise["sha256"]
    assert got["key"] == one.key()
    assert {k: got[k] for k in ("table", "scale", "row", "column", "seed")} == {
        "table": "mini",
        "scale": "cpu",
        "row": "SELC",
        "column": "moons 40%",
        "seed": 1,
    }
    best = max(alone.history(), key=lambda e: (e["test"]["top1"], -e["epoch"]))
    assert (got["best_epoch"], got["last_epoch"]) == (best["epoch"], 1)
    assert got["seconds"] > 0
    assert "torch" in got
    assert "cpu_capability" in got
    assert not places.runs.exists()  # nothing is left of a cell that is done


def test_labels_of_a_table_are_scored_by_those_that_noise_was_drawn_for(places: Places, tmp_path: Path) -> None:
    """A table says nowhere which of its labels are true, so that its run has no score; the same rows as arrays have."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 2)) + 3 * y[:, None]
    lines = [f"{a},{b},{'ab'[label]}" for (a, b), label in zip(x.tolist(), y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["first,second,label", *lines]) + "\n")
    one = cell()
    one.settings["data"] = {"name": "table", "path": str(tmp_path / "rows.csv")}
    fill(places, [one])
    [got] = texts(places)
    alone = execute(one.config(), tmp_path / "alone", [Quiet()])
    assert "right_before" not in alone.summary
    wrong = alone.given.numpy() != y
    assert 0 < wrong.sum() < 30
    assert got["right_before"] == pytest.approx(1 - wrong.mean())
    assert got["right_after"] == pytest.approx((alone.corrected().numpy() == y).mean())
    found = alone.findings()
    assert got["found"] == found_wrong(found.is_issue, 1 - found.quality.double(), torch.from_numpy(wrong))


def test_what_is_there_is_not_trained_again_and_a_changed_configuration_is(places: Places) -> None:
    one = cell()
    fill(places, [one])
    assert look([one], places).todo == []
    other = cell(epochs=3)
    assert look([one, other], places).todo == [other]
    assert look([one], places, again=True).todo == [one]


def test_cells_of_one_configuration_are_trained_once(places: Places) -> None:
    one = cell()
    outlook = look([one, replace(one, table="figure", column="other")], places)
    assert len(outlook.todo) == 1


def test_run_folders_are_kept_for_figures(places: Places) -> None:
    kept = replace(places, keep=True)
    one = cell()
    fill(places, [one])
    assert look([one], kept).todo == [one]  # the line alone is not enough
    fill(kept, [one])
    assert RunFolder.open(kept.folder(one.key())).finished
    assert look([one], kept).todo == []


def test_trainings_whose_time_is_not_known_are_told_apart_from_those_that_take_none(places: Places) -> None:
    """Of a file by path nothing is known before one training on it is done; digits are counted."""
    digits, table = cell(), cell("SELC")
    digits.settings["data"] = {"name": "digits"}
    table.settings["data"] = {"name": "table", "path": "rows.csv"}
    text = "\n".join(runner.plan_text(look([digits, table], places), Machine()))
    assert "(estimated, none timed yet)" in text
    assert "1 more of a kind that is not known before one of it is done" in text
    done = cell("CE")
    done.settings["data"] = dict(table.settings["data"])
    append_line(places.results, line(done, 0.5, method="ce", work=work_of(done.config())))
    text = "\n".join(runner.plan_text(look([digits, table], places), Machine()))
    assert "(1 as others of the kind took, 1 estimated)" in text
    assert "not known" not in text


def test_a_cell_that_fails_is_told_and_the_others_go_on(places: Places) -> None:
    bad = cell(seed=0)
    bad.settings["data"] = {"name": "cifar10", "root": "nowhere"}
    report = fill(places, [bad, cell(seed=1)])
    assert report.finished == 1
    [(failed, reason)] = report.failed
    assert failed is bad
    assert "cifar10" in reason
    assert [entry["seed"] for entry in texts(places)] == [1]


def test_cells_that_cannot_run_here_are_counted_not_trained(places: Places) -> None:
    outlook = look([cell(skip="needs CIFAR-100")], places)
    assert (outlook.todo, len(outlook.skipped)) == ([], 1)
    assert "not here: needs CIFAR-100" in runner.plan_text(outlook, Machine())


def test_a_killed_runner_loses_no_cell_and_repeats_none(tmp_path: Path) -> None:
    """SIGKILL in the middle of a cell; the lines in the end are those of a runner that nobody disturbed."""
    places, epochs = Places(tmp_path / "results.jsonl", tmp_path / "runs"), 4
    context = runner._context()  # processes with the libraries, to save the test their import
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=fill_the_miniature, args=(places, epochs, theirs))
    process.start()
    theirs.close()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert os.read(ours.fileno(), 1) == b""  # waits for the end of its cells, which notice its death
    before, wanted = places.results.read_text(), cells(epochs)
    by_key = {one.key(): one for one in wanted}
    saved = {path.parts[-3]: read_json(path) for path in places.runs.glob("unfinished/*/stage-0/manifest.json")}
    last = {key: manifest for key, manifest in saved.items() if by_key[key].seed == LAST_SEED}
    broken = {key for key, manifest in last.items() if 2 <= len(manifest["history"]) < epochs}
    assert broken
    done = set(read_lines(places.results))
    assert len(done) >= 3
    rest = look(wanted, places).todo
    assert {one.key() for one in rest} == set(by_key) - done
    assert broken <= set(by_key) - done
    report = run(look(wanted, places), Machine(workers=2), places, say=QUIET.append)
    assert (report.finished, report.failed) == (len(rest), [])
    assert places.results.read_text().startswith(before)
    assert sorted(entry["key"] for entry in texts(places)) == sorted(by_key)
    for number, key in enumerate(broken):
        whole = execute(by_key[key].config(), tmp_path / f"whole-{number}").summary
        assert read_lines(places.results)[key]["accuracy"] == whole["accuracy"]
    assert not places.runs.exists()


def test_what_a_finished_but_unwritten_cell_left_is_only_read(places: Places) -> None:
    """Killed after the training and before the line: the next runner writes the line and trains nothing."""
    one = cell()
    kept = replace(places, keep=True)
    execute(one.config(), kept.folder(one.key()))
    before = (kept.folder(one.key()) / "summary.json").read_bytes()
    fill(kept, [one])
    assert (kept.folder(one.key()) / "summary.json").read_bytes() == before
    assert [entry["key"] for entry in texts(places)] == [one.key()]


def test_a_damaged_folder_is_trained_anew(places: Places) -> None:
    one = cell()
    folder = places.folder(one.key())
    execute(one.config(), folder)
    (folder / "summary.json").unlink()
    (folder / "given_labels.npz").write_bytes(b"broken")
    assert fill(places, [one]).finished == 1


def test_a_line_that_was_cut_off_does_not_count_and_does_not_spoil_the_next(places: Places) -> None:
    first, second = line(cell(), 0.5), line(cell(seed=1), 0.6)
    append_line(places.results, first)
    with open(places.results, "a") as file:
        file.write('{"key": "abc", "accur')
    append_line(places.results, second)
    assert list(read_lines(places.results)) == [first["key"], second["key"]]


def test_two_runners_do_not_write_to_one_file(places: Places) -> None:
    with (
        sole_writer(places.results),
        pytest.raises(ConfigError, match="one runner at a time"),
        sole_writer(places.results),
    ):
        pass
    with sole_writer(places.results):  # the lock is gone
        pass


def test_first_seeds_come_first(places: Places) -> None:
    assert [one.seed for one in look(cells(), places).todo] == [0] * 4 + [1] * 4


def test_rows_columns_and_seeds_can_be_chosen() -> None:
    every = cells()
    assert {one.row for one in chosen(every, rows=["selc"])} == {"SELC"}
    assert {one.row for one in chosen(every, rows=["Ce", "SELC"])} == {"CE", "SELC"}
    assert {one.column for one in chosen(every, columns=["40%"])} == {"moons 40%"}
    assert {one.seed for one in chosen(every, seeds=[1])} == {1}
    with pytest.raises(ConfigError, match=r"^methods must name rows of the table \(CE, SELC\); got 'ELR'"):
        chosen(every, rows=["ELR"])
    with pytest.raises(ConfigError, match=r"^seeds must name seeds of the table \(0, 1\); got 5, 6"):
        chosen(every, seeds=[5, 6])
    assert {one.seed for one in chosen(every, seeds=[1, 5])} == {1}  # another table may have the other


def test_each_gpu_has_a_process_of_its_own_and_a_cpu_worker_sees_none() -> None:
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in Machine(gpus=(0, 3)).slots()] == ["0", "3"]
    assert Machine(workers=2, data="there").slots() == [{"SELC_DATA": "there", "CUDA_VISIBLE_DEVICES": ""}] * 2


def test_time_is_estimated_by_trainings_of_the_same_kind() -> None:
    ce, selc = cell("CE"), cell("SELC")
    about = runner.about(ce)
    lines = [{**about, "seconds": 10.0, "peak_mb": 500}, {**about, "seconds": 14.0, "peak_mb": 400}]
    found = estimates([ce, selc], lines)
    assert found[ce.key()] == (12.0, 500.0, True)
    assert found[selc.key()].seconds == pytest.approx(12.0 * SELC.cost / CE.cost)
    assert not estimates([cell(epochs=7)], lines)[cell(epochs=7).key()].measured  # another amount of work


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5, "5 s"),
        (600, "10 min"),
        (7200, "2.0 h"),
        (36 * 86400, "36 days"),
        (500 * 86400, "500 days"),
        (39 * 365 * 86400, "39 years"),
    ],
)
def test_times_are_in_the_unit_that_people_use(seconds: float, text: str) -> None:
    assert runner.duration(seconds) == text


def test_what_takes_years_on_cores_is_told_and_nothing_to_do_has_no_time(places: Places) -> None:
    outlook = look([cell()], places)
    assert not any("--gpus" in text for text in runner.plan_text(outlook, Machine()))
    [key] = outlook.expected
    outlook.expected[key] = outlook.expected[key]._replace(seconds=1e9)
    assert any(
        "too much for cores: name GPUs, such as --gpus 0" in text for text in runner.plan_text(outlook, Machine())
    )
    assert not any("too much" in text for text in runner.plan_text(outlook, Machine(gpus=(0,))))
    append_line(places.results, line(cell(), 0.5))
    assert runner.plan_text(look([cell()], places), Machine()) == ["1 training, 1 done, 0 to go"]


def test_operations_are_counted_by_hand_for_a_linear_network() -> None:
    size = size_of("mlp", 10, (1, 8, 8), json.dumps({"hidden": [20]}))
    assert size.operations == 2 * (64 * 20 + 20 * 10)  # a multiplication and an addition each
    assert size.parameters == 64 * 20 + 20 + 20 * 10 + 10


def test_a_larger_network_and_a_pilot_take_longer() -> None:
    def seconds(net: str, method: dict[str, Any], epochs: int = 10) -> float:
        settings = {"data": "cifar10", "net": {"name": net}, "method": method, "train": {"epochs": epochs}}
        return counted(Config.resolve(settings), "gpu").seconds

    assert seconds("resnet34", {"name": "ce"}) > seconds("resnet18", {"name": "ce"})
    assert seconds("resnet34", {"name": "selc", "start": "pilot"}) > seconds("resnet34", {"name": "selc"})
    one, two = seconds("resnet34", {"name": "ce"}), seconds("resnet34", {"name": "ce"}, 20)
    assert two - one == pytest.approx(one - 1.0)  # beside what is done once


def test_wrong_labels_found_are_measured_as_scikit_learn_does() -> None:
    rng = torch.Generator().manual_seed(0)
    wrong = torch.rand(200, generator=rng) < 0.3
    suspicion = (torch.rand(200, generator=rng) + 0.5 * wrong).mul(10).round().double() / 10  # with equals
    issue = suspicion > 0.8
    found = found_wrong(issue, suspicion, wrong)
    assert found["auroc"] == pytest.approx(roc_auc_score(wrong, suspicion))
    assert found["ap"] == pytest.approx(average_precision_score(wrong, suspicion))
    assert found["f1"] == pytest.approx(f1_score(wrong, issue))
