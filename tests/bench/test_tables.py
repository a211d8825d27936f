"""The tables as data: the paper's numbers, the paper's settings, and cells that could run."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from selc.bench.estimate import cost_of
from selc.bench.runner import value_of
from selc.bench.table import SCALES, UNSEEN, VARIANTS, Cell, Table, fits, laid_over, load, names, parse
from selc.data import DATASETS, Bundle
from selc.errors import ConfigError
from selc.methods import METHODS
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise import draw_noise
from selc.runs import Config
from selc.training import Trainer
from tests.bench.miniature import shrunk
from tests.noise.bounds import suppliers
from tests.tiers import but_for

ALL = [*(f"table{k}" for k in range(1, 7)), *(f"figure{k}" for k in range(1, 6)), "human"]
TABLES = [name for name in ALL if name.startswith("table")]


@cache
def bundle(data: str) -> Bundle:
    options = json.loads(data)
    return DATASETS[options.pop("name")](**options)


# The numbers


def test_there_are_the_six_tables_and_five_figures_of_the_paper_and_the_labels_of_people() -> None:
    assert names() == [*ALL, "suite"]
    for name in ALL:
        assert load(name).name == name
        assert list(load(name).scales) == list(SCALES)
    with pytest.raises(ConfigError, match=r"table1.*table7.*Did you mean"):
        load("table7")


@pytest.mark.parametrize(
    ("table", "row", "column", "mean", "spread"),
    [
        ("table1", "Cross Entropy", "CIFAR-10 sym 20%", 86.98, 0.12),
        ("table1", "Forward", "CIFAR-100 sym 80%", 8.99, 0.58),
        ("table1", "GCE", "CIFAR-10 asym 40%", 76.74, 0.61),
        ("table1", "Mixup", "CIFAR-100 asym 40%", 49.61, None),
        ("table1", "PENCIL", "CIFAR-100 sym 60%", 57.70, 3.86),
        ("table1", "SELF", "CIFAR-100 sym 40%", 66.71, None),
        ("table1", "SELC+", "CIFAR-100 sym 80%", 37.18, 0.50),
        ("table2", "Forward", "SEAL 30%", 78.87, 2.66),
        ("table2", "SELC", "SEAL 40%", 84.23, 0.37),
        ("table3", "Co-teaching+", "CIFAR-100 Type-III 70%", 35.37, 2.65),
        ("table3", "SELC", "CIFAR-10 Type-II 35%", 87.06, 0.20),
        ("table4", "SELFIE", "Accuracy", 81.80, 0.09),
        ("table5", "DMI", "Accuracy", 72.27, None),
        ("table6", "CRUST", "ILSVRC12 top5", 87.84, None),
        ("human", "ELR", "worst", 87.89, None),
    ],
)
def test_numbers_are_those_of_the_paper(table: str, row: str, column: str, mean: float, spread: float | None) -> None:
    assert load(table).published(row, column) == (mean, spread)
    cells = [cell for cell in load(table).cells("paper") if (cell.row, cell.column) == (row, column)]
    assert {(cell.published, cell.published_spread) for cell in cells} == {(mean, spread)}


def test_what_the_paper_prints_in_bold_is_the_largest_of_its_column() -> None:
    """A digit that was copied wrongly would show in most places."""
    bold = {
        **{(f"table{k}", column): "SELC" for k in (2, 3, 4, 6) for column in load(f"table{k}").columns},
        **{("table1", column): "SELC+" for column in load("table1").columns},
        ("table1", "CIFAR-100 sym 80%"): "M-correction",
        ("table5", "Accuracy"): "PLC",
    }
    for (name, column), best in bold.items():
        table = load(name)
        found = {row: number.mean for row in table.rows if (number := table.published(row, column))}
        assert max(found, key=lambda row: found[row]) == best, (name, column)


def test_every_number_is_there_a_dash_is_none_and_a_failure_is_a_word() -> None:
    sizes = {"table1": (16, 10, 160 - 24), "table2": (8, 4, 32), "table3": (7, 12, 84), "table4": (5, 1, 5)}
    sizes |= {"table5": (11, 1, 11), "table6": (6, 4, 24)}
    for name, (rows, columns, numbers) in sizes.items():
        table = load(name)
        assert (len(table.rows), len(table.columns)) == (rows, columns)
        assert sum(table.published(r, c) is not None for r in table.rows for c in table.columns) == numbers, name
    assert load("table1").published("PENCIL", "CIFAR-100 sym 80%") is None
    assert load("table1").printed("PENCIL", "CIFAR-100 sym 80%") == "fail"
    assert load("table1").printed("SELF", "CIFAR-10 sym 20%") == ""


# The settings


def find(table: str, scale: str, row: str, column: str, variant: str = "text") -> Config:
    return firsts(table, scale, variant)[row, column].config()


@cache
def firsts(table: str, scale: str, variant: str) -> dict[tuple[str, str], Cell]:
    """The first seed of each place."""
    return {(cell.row, cell.column): cell for cell in reversed(load(table).cells(scale, variant))}


@pytest.mark.parametrize(
    ("table", "column", "net", "plan"),
    [  # appendix A of the paper: epochs, batch, rate, momentum, decay, milestones, factor, epoch that counts
        ("table1", "CIFAR-10 sym 20%", "resnet34", (200, 128, 0.02, 0.9, 0.001, [40, 80], 0.1, "last")),
        ("table1", "CIFAR-100 asym 40%", "resnet34", (200, 128, 0.02, 0.9, 0.001, [40, 80], 0.1, "last")),
        ("table2", "SEAL 30%", "wrn-28-10", (150, 128, 0.1, 0.9, 0.0005, [60, 120], 0.2, "last")),
        ("table3", "CIFAR-10 Type-I 35%", "preact-resnet34", (150, 128, 0.1, 0.9, 0.0005, [60, 120], 0.2, "last")),
        ("table3", "CIFAR-100 Type-I 35%", "preact-resnet34", (200, 128, 0.02, 0.9, 0.0005, [40, 80], 0.1, "last")),
        ("table4", "Accuracy", "vgg19-bn", (100, 128, 0.1, 0.0, 0.001, [50, 75], 0.2, "last")),
        ("table5", "Accuracy", "resnet50", (30, 64, 0.01, 0.9, 0.001, [10, 20], 0.1, "best-val")),
        ("table6", "ILSVRC12 top5", "inception-resnet-v2", (100, 32, 0.01, 0.9, 0.0005, [40, 80], 0.1, "last")),
        ("figure1", "sym 60%", "resnet34", (200, 128, 0.02, 0.9, 0.001, [40, 80], 0.1, "last")),
    ],
)
def test_the_scale_of_the_paper_has_its_networks_and_schedules(
    table: str, column: str, net: str, plan: tuple[Any, ...]
) -> None:
    config = find(table, "paper", "SELC", column)
    t = config.train
    ours = (t.epochs, t.batch_size, t.lr, t.momentum, t.weight_decay, t.milestones, t.gamma, t.pick)
    assert (config.net.name, ours, t.schedule, t.optimizer) == (net, plan, "step", "SGD")
    assert (
        config.method.options | {"start": "pilot", "alpha": 0.9, "margin": 10, "option": "II"} == config.method.options
    )
    assert config.data.options.get("augment", True)
    assert config.data.options.get("rows", 0) == 0


def test_clothing1m_has_2000_balanced_batches_an_epoch_and_weights_of_imagenet() -> None:
    config = find("table5", "paper", "SELC", "Accuracy")
    assert config.train.samples_per_epoch == 2000 * 64
    assert config.net.options["weights"] == "torchvision"


def test_the_variant_code_starts_by_the_table_of_the_authors() -> None:
    """Their `estimated_es`, in epochs of cross entropy; epochs of the ANIMAL-10N script count from 0."""
    starts: dict[tuple[str, str], float] = {
        **{("table1", f"CIFAR-10 sym {rate}%"): es for rate, es in ((20, 40), (40, 30), (60, 30), (80, 40))},
        **{("table1", f"CIFAR-100 sym {rate}%"): es for rate, es in ((20, 30), (40, 20), (60, 30), (80, 40))},
        ("table1", "CIFAR-10 asym 40%"): 40,
        ("table1", "CIFAR-100 asym 40%"): 20,
        **{("table2", column): 40 for column in load("table2").columns},
        **{("table3", column): 40 for column in load("table3").columns},
        ("table4", "Accuracy"): 41,
        ("table5", "Accuracy"): 5,
        ("table6", "WebVision top1"): 40,
    }
    for (table, column), start in starts.items():
        options = find(table, "paper", "SELC", column, "code").method.options
        assert options["start"] == start, (table, column)
        assert options["alpha"] == (0.8 if table == "table5" else 0.9)
        assert find(table, "paper", "SELC", column).method.options["start"] == "pilot"
        if table == "table1":
            assert find(table, "paper", "SELC+", column, "code").method.options["start"] == start


def test_the_variant_code_has_the_networks_and_epochs_of_the_authors_code() -> None:
    for column in ("CIFAR-10 Type-I 35%", "CIFAR-100 Type-I 35%"):
        config = find("table3", "paper", "SELC", column, "code")
        assert (config.net.name, config.train.epochs, config.train.lr) == ("preact-resnet34-authors", 150, 0.1)
        for row in ("LRT", "PLC"):  # a plain ResNet-34 in the code of their authors
            assert find("table3", "paper", row, column, "code").net.name == "resnet34"
            assert find("table3", "paper", row, column).net.name == "preact-resnet34"
    assert find("table2", "paper", "SELC", "SEAL 10%", "code").train.epochs == 200
    assert find("table5", "paper", "SELC", "Accuracy", "code").train.epochs == 40


def test_methods_have_what_their_authors_set_by_dataset() -> None:
    options = {
        column: find("table1", "paper", "ELR", column).method.options
        for column in ("CIFAR-10 sym 40%", "CIFAR-10 asym 40%", "CIFAR-100 sym 40%")
    }
    assert list(options.values()) == [
        {"beta": 0.7, "lambda_": 3.0},
        {"beta": 0.9, "lambda_": 1.0},
        {"beta": 0.9, "lambda_": 7.0},
    ]
    sce = find("table1", "paper", "SCE", "CIFAR-100 sym 20%").method.options
    assert (sce["alpha"], sce["beta"]) == (6.0, 0.1)


@pytest.mark.parametrize("scale", SCALES)
def test_bootstrap_is_the_one_that_the_paper_writes_down(scale: str) -> None:
    """Eq. 2 mixes the label with the prediction itself, not with the predicted class; and so says the method's page."""
    options = [c.config().method.options for c in load("table1").cells(scale) if c.row == "Bootstrap"]
    assert options
    assert all((one["kind"], one["beta"]) == ("soft", 0.95) for one in options)


# The cells


@pytest.mark.parametrize("scale", but_for({"small", "paper"}, SCALES))
@pytest.mark.parametrize("name", ALL)
def test_every_cell_is_a_configuration_whose_data_network_and_method_can_be_built(
    name: str, scale: str, miniatures: Path
) -> None:
    cells = [cell for variant in VARIANTS for cell in load(name).cells(scale, variant)]
    assert all(cell.settings["train"]["seed"] == cell.seed for cell in cells)
    for settings in {json.dumps(laid_over(dict(c.settings), {"train": {"seed": 0}}), sort_keys=True) for c in cells}:
        real = json.loads(settings)
        assert set(real) <= {"data", "noise", "method", "net", "train"}
        Config.resolve(real)  # as it stands; what is smaller below are the data
    # What would be built twice in the same way is built once here.
    different = {json.dumps(laid_over(shrunk(c.settings), {"train": {"seed": 0}}), sort_keys=True): c for c in cells}
    built = set()
    for settings, cell in different.items():
        config = Config.resolve(json.loads(settings))
        assert cell.test in bundle(json.dumps(config.data.model_dump(mode="json"))).tests
        parts = config.model_dump(mode="json")
        for build, sections in ((draw, ("data", "noise")), (make, ("data", "net", "method", "train"))):
            what = json.dumps([parts[section] for section in sections], sort_keys=True)
            if (build, what) not in built:
                built.add((build, what))
                build(config)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ALL)
def test_a_place_in_a_table_has_one_run_for_each_seed(name: str, variant: str) -> None:
    for scale in SCALES:
        cells = load(name).cells(scale, variant)
        assert len({(c.row, c.column, c.seed) for c in cells}) == len(cells) > 0


def draw(config: Config) -> None:
    data = bundle(json.dumps(config.data.model_dump(mode="json")))
    C = len(data.classes)
    supply = suppliers(data.labels, C)  # what a trained network would supply
    noise = draw_noise(config.noise.name, data.labels, C, 0, config.noise.options, supply=supply)
    assert len(noise.labels) == len(data.labels)


def make(config: Config) -> None:
    """What a run does before it trains; on the meta device a network has shapes and no numbers."""
    data = bundle(json.dumps(config.data.model_dump(mode="json")))

    def net(outputs: int) -> nn.Module:
        return create_net(config.net.name, outputs, data.shape, config.net.options)

    method = create_method(config.method.name, config.method.options)
    Trainer(config.train, net, val=data.val)
    with torch.device("meta"):
        config.train.make_optimizer(method.build(net, len(data.classes)))


@pytest.mark.parametrize("name", ALL)
def test_two_cores_lack_the_data_of_what_is_left_out_and_nothing_else_is(name: str) -> None:
    here = {"digits", "cifar10", "cifar10-features"}
    labels = {"clean", "seal_0.2", "pmd1_0.35", "human_random1"}
    for cell in load(name).cells("cpu"):
        data = cell.settings["data"]
        there = data["name"] in here and data.get("labels", "clean") in labels
        assert bool(cell.skip) != there, cell
    assert not any(cell.skip for scale in ("paper", "small") for cell in load(name).cells(scale))


def test_a_key_is_that_of_what_the_result_depends_on() -> None:
    cell = load("table1").cells("cpu")[0]

    def key(**train: Any) -> str:
        settings = laid_over(laid_over({}, cell.settings), {"train": train})
        return Cell("another", "cpu", "row", "column", 0, settings).key()

    assert key() == key(device="cuda", threads=7) == cell.key()
    assert len({key(), key(seed=1), key(lr=0.1), key(epochs=3)}) == 4
    pixels = next(c for c in load("table1").cells("cpu") if c.column.startswith("pixels"))
    moved = Cell("t", "cpu", "r", "c", 0, laid_over(laid_over({}, pixels.settings), {"data": {"root": "elsewhere"}}))
    assert moved.key() == pixels.key()


@pytest.mark.exhaustive
def test_runs_are_shared_where_they_are_the_same() -> None:
    for scale in ("paper", "cpu"):
        runs = {cell.key() for cell in load("table1").cells(scale)}
        for figure, shared in (("figure1", 5), ("figure2", 1), ("figure5", 1)):
            assert len({cell.key() for cell in load(figure).cells(scale)} & runs) == shared, (scale, figure)
    assert {c.key() for c in load("figure3").cells("cpu")} <= {c.key() for c in load("figure1").cells("cpu")}
    by_row: dict[str, set[str]] = {}
    for cell in load("table6").cells("paper"):
        by_row.setdefault(cell.row, set()).add(cell.key())
    assert all(len(keys) == 1 for keys in by_row.values()), "four numbers of one run"
    assert [(c.test, c.measure) for c in load("table6").cells("paper") if c.row == "SELC"] == [
        ("webvision", "top1"),
        ("webvision", "top5"),
        ("ilsvrc12", "top1"),
        ("ilsvrc12", "top5"),
    ]


def of_one_seed(cells: list[Cell]) -> list[Cell]:
    """The first cell of each place; those of its other seeds differ by the seed and nothing else."""
    first: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        known = first.setdefault((cell.row, cell.column), cell)
        assert laid_over(dict(known.settings), {"train": {"seed": cell.seed}}) == cell.settings
    return list(first.values())


NOISY_AS_THEY_ARE = {"animal10n", "clothing1m", "webvision"}  # datasets without other labels than noisy ones


@pytest.mark.parametrize("name", ALL)
def test_no_cell_is_trained_on_clean_labels_and_other_columns_are_other_trainings(name: str) -> None:
    for scale in SCALES:
        columns: dict[str, set[str]] = {}
        for cell in of_one_seed(load(name).cells(scale)):
            data, noise = cell.settings["data"], cell.settings.get("noise", {"name": "none"})
            noisy = noise["name"] != "none" or data.get("labels", "clean") != "clean"
            assert noisy or data["name"] in NOISY_AS_THEY_ARE, cell
            columns.setdefault(cell.key(), set()).add(cell.column)
        if name != "table6":  # four numbers of one run
            assert all(len(same) == 1 for same in columns.values()), columns


def test_a_setting_of_a_column_that_a_rule_drops_is_refused() -> None:
    content = {
        "kind": "table",
        "name": "mini",
        "title": "t",
        "caption": "c",
        "rows": ["CE"],
        "columns": ["sym"],
        "settings": {"sym": {"data": {"labels": "human"}}},
        "scales": {"cpu": {"what": "w", "blocks": [{}], "settings": {"data": {"name": "digits"}}}},
        "rules": [{"column": "sym", "settings": {"data": {"name": "moons"}}}],
    }
    with pytest.raises(ConfigError, match=r"column 'sym' of mini must reach its cells; .* section of data.labels"):
        parse(content, {"CE": {"name": "ce"}}).cells("cpu")
    content["rules"] += [{"settings": {"data": {"labels": "human"}}}]  # type: ignore[operator]
    assert parse(content, {"CE": {"name": "ce"}}).cells("cpu")[0].settings["data"] == {
        "name": "moons",
        "labels": "human",
    }


def test_two_cores_have_the_methods_of_the_tables_in_three_seeds_and_pixels_at_two_rates() -> None:
    for name, data in (("table1", "digits"), ("table2", "features"), ("table3", "features")):
        table = load(name)
        cells = [c for c in table.cells("cpu") if c.column.startswith(data)]
        assert set(table.rows) | {"SELC (automatic)"} <= {c.row for c in cells}
        assert {c.seed for c in cells} == {0, 1, 2}
        assert all(table.of(c.column) in table.columns for c in cells)
        pixels = {c.row for c in table.cells("cpu") if c.column.startswith("pixels")}
        assert {"Cross Entropy", "GCE", "ELR", "SAT", "SELC (automatic)", "SELC+ (automatic)"} <= pixels
    rates = {c.settings["noise"]["rate"] for c in load("table1").cells("cpu") if c.column.startswith("pixels")}
    assert rates == {0.4, 0.6}


# Seconds of one core, measured at the scale `cpu`: a training by cross entropy, and a process before and after it.
SECONDS = {"digits": 2.0, "cifar10-features": 8.5, "cifar10": 40.0}
AROUND = 2.0


def test_two_cores_are_done_within_two_hours(capsys: pytest.CaptureFixture[str]) -> None:
    runs = {c.key(): c for name in ALL for c in load(name).cells("cpu") if not c.skip}
    minutes: dict[str, float] = {}
    for cell in runs.values():
        config = cell.config()
        times = cost_of(config.method.name, config.method.options)
        times += config.noise.name in ("seal", "pmd")  # a network is trained to draw them
        minutes[cell.table] = minutes.get(cell.table, 0) + (AROUND + times * SECONDS[config.data.name]) / 60
    total = sum(minutes.values())
    with capsys.disabled():
        print(
            f"\ncpu scale: {len(runs)} runs, {total:.0f} minutes of one core", {k: round(v) for k, v in minutes.items()}
        )
    assert total < 200  # two cores have 240 in two hours


# The rules


def test_settings_are_laid_over_each_other_and_another_name_starts_a_section_anew() -> None:
    below = {"data": {"rows": 5}, "method": {"name": "gce", "q": 0.7}, "train": {"epochs": 3, "lr": 1.0}}
    above = {"data": {"name": "digits"}, "method": {"name": "ce"}, "train": {"lr": 2.0}}
    assert laid_over(below, above) == {
        "data": {"name": "digits", "rows": 5},
        "method": {"name": "ce"},
        "train": {"epochs": 3, "lr": 2.0},
    }


def test_a_rule_holds_where_all_its_patterns_match() -> None:
    here = {"scale": "cpu", "variant": "text", "row": "SELC+ (automatic)", "column": "pixels sym 40%"}
    assert fits({}, here)
    assert fits({"row": "SELC*", "column": ["digits*", "pixels*"]}, here)
    assert not fits({"row": "SELC*", "column": ["digits*"]}, here)
    assert not fits({"scale": "paper"}, here)


@pytest.mark.parametrize("name", ALL)
def test_every_rule_of_a_table_holds_somewhere(name: str) -> None:
    """A pattern with a slip would be silent otherwise."""
    table = load(name)
    places = [
        {"scale": scale, "variant": variant, "row": cell.row, "column": cell.column}
        for scale in SCALES
        for variant in VARIANTS
        for cell in table.cells(scale, variant)
    ]
    for rule in table.rules:
        assert any(fits(rule, here) for here in places), rule
        assert set(rule) <= {"scale", "variant", "row", "column", "settings", "note", "skip"}
    used = {cell.column for scale in SCALES for cell in table.cells(scale)}
    assert set(table.settings) <= used


def test_a_table_of_another_shape_than_its_numbers_is_an_error() -> None:
    content: dict[str, Any] = {
        **{"name": "mine", "title": "", "caption": "", "rows": ["CE"], "columns": ["a", "b"]},
        **{"published": {"CE": ["1.0"]}, "scales": {}},
    }
    with pytest.raises(ConfigError, match="mine: 'CE' must have 2 numbers; got 1"):
        parse(content, {})


def test_a_column_may_show_any_metric_of_which_more_is_better() -> None:
    content: dict[str, Any] = {"name": "mine", "title": "", "caption": "", "rows": ["CE"], "columns": ["a"]}
    content["scales"] = {"cpu": {"what": "", "settings": {"data": {"name": "moons"}}, "blocks": [{}]}}
    content["settings"] = {"a": {"measure": "macro_f1"}}
    [cell] = parse(content, {"CE": {"name": "ce"}}).cells("cpu")
    assert cell.measure == "macro_f1"
    assert value_of(cell, {"accuracy": {"test": {"top1": 0.5, "macro_f1": 0.25}}}) == 0.25
    for other in ("log_loss", "macro_f2"):  # in a table the largest number is bold
        content["settings"] = {"a": {"measure": other}}
        with pytest.raises(ConfigError, match=f"the measure of 'a' must be one of .*; got '{other}'"):
            parse(content, {"CE": {"name": "ce"}})


def test_what_is_measured_is_no_part_of_the_key_of_a_run() -> None:
    [one, *_] = load("table1").cells("cpu")
    other = replace(one, settings={**one.settings, "train": {**one.settings["train"], "metrics": ["log_loss"]}})
    assert other.config().train.metrics != one.config().train.metrics
    assert other.key() == one.key()


def test_a_scale_or_variant_that_is_not_there_is_named() -> None:
    table: Table = load("table1")
    with pytest.raises(ConfigError, match=r"paper.*papr"):
        table.cells("papr")
    with pytest.raises(ConfigError, match=r"code.*cod"):
        table.cells("cpu", "cod")


# The suite


def test_the_suite_has_every_method_and_half_of_its_columns_are_unseen() -> None:
    suite = load("suite")
    cells = suite.cells("cpu")
    assert {cell.settings["method"]["name"] for cell in cells} == set(METHODS)
    assert len({(c.row, c.column, c.seed) for c in cells}) == len(cells)
    assert set(suite.unseen) < set(suite.columns)
    assert 2 * len(suite.unseen) == len(suite.columns)
    for cell in cells:
        assert (UNSEEN in cell.note) == (cell.column in suite.unseen)
    for cell in of_one_seed(cells):
        cell.config()  # every option is one that there is
    kinds = {column.split()[0] for column in suite.unseen} & {
        column.split()[0] for column in suite.columns if column not in suite.unseen
    }
    assert {"digits", "features", "reviews"} <= kinds  # of each kind there is something in either half


def test_a_column_whose_files_are_not_there_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def skips() -> set[str]:
        return {cell.skip for cell in load("suite").cells("cpu") if cell.column == "wine sym 20%"}

    assert skips() == {"needs suite-data/wine.csv"}
    (tmp_path / "suite-data").mkdir()
    (tmp_path / "suite-data" / "wine.csv").touch()
    assert skips() == {"needs suite-data/wine-test.csv"}
    (tmp_path / "suite-data" / "wine-test.csv").touch()
    assert skips() == {""}
    assert {cell.skip for cell in load("suite").cells("cpu") if cell.column.startswith("digits")} == {""}


def test_the_suite_is_no_part_of_all_tables_of_the_paper() -> None:
    from selc.cli.bench import _tables

    assert [table.name for table in _tables(["all"], "cpu")] == ALL
    assert [table.name for table in _tables(["suite"], "cpu")] == ["suite"]
