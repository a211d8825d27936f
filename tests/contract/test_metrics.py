"""What every registered metric promises, and what the ones of ours compute, by equations and by scikit-learn."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor, nn

from selc.data import ArrayInputs
from selc.errors import ConfigError
from selc.methods import CE
from selc.training import Plan
from selc.training.evaluate import Evaluator
from selc.training.metrics import (
    FACTS,
    HEADLINE,
    METRICS,
    ROWS,
    chosen,
    formatted,
    measured,
    needs,
    rows_of,
    title,
    usual,
)
from selc.types import EvalSet
from selc.world import World

C = 8


def random_set(rows: int = 300, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Log probabilities in float64 and labels, of which one class is rare and one is missing."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, C - 1, (rows,), generator=rng)
    labels[labels == 3] = 4
    labels[:2] = 3
    outputs = 2 * torch.randn(rows, C, generator=rng, dtype=torch.float64)
    outputs[torch.arange(rows), labels] += 1.5  # better than chance, and far from right
    return outputs.log_softmax(dim=1), labels


def value(name: str, log_p: Tensor, labels: Tensor) -> float:
    metrics = {name: METRICS[name]}
    rows = rows_of(log_p, labels, ROWS)
    return measured(metrics, {**rows, "labels": labels}, log_p.shape[1])[name]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_finite_and_does_not_depend_on_the_order_of_the_rows(name: str) -> None:
    log_p, labels = random_set()
    one = value(name, log_p, labels)
    assert math.isfinite(one)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    assert value(name, log_p[order], labels[order]) == pytest.approx(one, rel=0, abs=1e-12)
    assert not FACTS[name].share or 0 <= one <= 1


@pytest.mark.parametrize("name", METRICS)
def test_perfect_predictions_have_the_best_value_and_others_a_worse_one(name: str) -> None:
    log_p, labels = random_set()
    best = FACTS[name].best
    assert value(name, nn.functional.one_hot(labels, C).double().log(), labels) == best
    assert abs(value(name, log_p, labels) - best) > 0.01
    sure_and_wrong = nn.functional.one_hot((labels + 1) % C, C).double().log()
    if name != "top5":  # the other classes are equally probable, and one of them is in the fifth place
        assert abs(value(name, sure_and_wrong, labels) - best) >= abs(value(name, log_p, labels) - best)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_needs_only_what_is_known_of_a_row_and_has_a_title(name: str) -> None:
    assert set(needs(METRICS[name])) <= set(ROWS)
    assert title(name) == FACTS[name].title
    assert formatted(name, 0.25) == ("25.00%" if FACTS[name].share else "0.25")


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_scikit_learn_computes_the_same() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    log_p, labels = random_set()
    probs, classes = log_p.exp().numpy(), range(C)
    y, predicted = labels.numpy(), log_p.argmax(dim=1).numpy()
    expected = {
        "top1": metrics.accuracy_score(y, predicted),
        "top5": metrics.top_k_accuracy_score(y, probs, k=5, labels=classes),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, predicted),
        "macro_f1": metrics.f1_score(y, predicted, average="macro"),
        "log_loss": metrics.log_loss(y, probs, labels=classes),
    }
    for name, theirs in expected.items():
        exact = 1e-7 if name in ("top1", "top5") else 1e-12  # these two are written in float32
        assert value(name, log_p, labels) == pytest.approx(theirs, abs=exact)


def test_calibration_error_is_the_sum_over_fifteen_bins() -> None:
    log_p, labels = random_set()
    confidences, predictions = (t.tolist() for t in log_p.exp().max(dim=1))
    total, given = 0.0, labels.tolist()
    for b in range(1, 16):
        inside = [i for i, c in enumerate(confidences) if (b - 1) / 15 < c <= b / 15]
        if inside:
            accuracy = sum(predictions[i] == given[i] for i in inside) / len(inside)
            confidence = sum(confidences[i] for i in inside) / len(inside)
            total += len(inside) / len(labels) * abs(accuracy - confidence)
    assert value("calibration_error", log_p, labels) == pytest.approx(total, abs=1e-12)


def test_a_coin_that_knows_it_is_one_is_calibrated_and_one_that_is_sure_is_not() -> None:
    labels = torch.arange(100) % 2
    fair = torch.tensor([[0.5, 0.5]], dtype=torch.float64).log().expand(100, 2)
    sure = torch.tensor([[1.0, 0.0]], dtype=torch.float64).log().expand(100, 2)
    assert value("calibration_error", fair, labels) == 0
    assert value("calibration_error", sure, labels) == 0.5


def test_top1_is_written_with_the_digits_that_it_always_had() -> None:
    log_p = nn.functional.one_hot(torch.tensor([0, 0, 0]), 2).float().log()
    assert value("top1", log_p, torch.tensor([0, 1, 1])) == 0.3333333432674408  # float32


def test_top5_is_left_out_up_to_five_classes() -> None:
    log_p, labels = random_set()
    for classes, there in ((5, False), (6, True)):
        inside = labels < classes
        rows = rows_of(log_p[inside, :classes], labels[inside], ROWS)
        assert ("top5" in measured(chosen(usual()), {**rows, "labels": labels[inside]}, classes)) is there


def test_a_label_that_the_network_has_no_output_for_is_a_miss() -> None:
    log_p, labels = random_set()
    for strange in (-1, C, 10**12):
        given = labels.clone()
        given[:30] = strange
        rows = rows_of(log_p, given, ROWS)
        values = measured(chosen(usual()), {**rows, "labels": given}, C)
        right = float((log_p.argmax(dim=1) == given).double().mean())
        assert values[HEADLINE] == pytest.approx(right, abs=1e-7)
        assert set(values) == set(usual())


def test_a_set_without_rows_has_no_value_but_the_headline() -> None:
    none = torch.empty(0, dtype=torch.int64)
    rows = rows_of(torch.empty(0, C), none, ROWS)
    assert measured(chosen(usual()), {**rows, "labels": none}, C) == {HEADLINE: 0.0}


def test_forty_bytes_are_kept_of_a_row_however_many_classes_there_are() -> None:
    log_p = torch.randn(7, 1000).log_softmax(dim=1)
    labels = torch.arange(7)
    asked = {need for function in chosen(usual()).values() for need in needs(function)}
    assert "probs" not in asked
    kept = rows_of(log_p, labels, asked) | {"labels": labels}
    assert sum(column.element_size() * column.numel() for column in kept.values()) <= 40 * 7


class _Together(World):
    """Threads that meet where processes would."""

    def __init__(self, rank: int, size: int, table: list[Tensor], meeting: Barrier) -> None:
        self.rank, self.size, self.table, self.meeting = rank, size, table, meeting

    def gather(self, rows: Tensor) -> list[Tensor]:
        self.table[self.rank] = rows
        self.meeting.wait(timeout=300)
        gathered = list(self.table)
        self.meeting.wait(timeout=300)
        return gathered

    def gather_rows(self, index: Tensor, rows: Tensor, total: int) -> Tensor:
        table = rows.new_zeros(total, *rows.shape[1:])
        for places, part in zip(self.gather(index), self.gather(rows), strict=True):
            assert part.dtype == table.dtype
            table[places] = part
        return table


def brier(probs: Tensor, labels: Tensor) -> float:
    """Mean squared distance of the probabilities from the label."""
    return float((probs.double() - nn.functional.one_hot(labels, probs.shape[1])).square().sum(dim=1).mean())


def evaluated(rows: int, batch: int, processes: int) -> list[dict[str, float]]:
    """The metrics in every process, by a network of which each has a copy."""
    torch.manual_seed(0)
    x, labels = torch.randn(rows, 4), torch.arange(rows) % C
    net, data = nn.Linear(4, C), EvalSet(ArrayInputs(x), labels)
    table, barrier = [torch.empty(0)] * processes, Barrier(processes)
    metrics = {**chosen(usual()), "brier": brier}

    def process(rank: int) -> dict[str, float]:
        world = _Together(rank, processes, table, barrier)
        evaluator = Evaluator(copy.deepcopy(net), CE(), torch.device("cpu"), None, 1, world)
        evaluator.batch = batch
        return evaluator.measure(data, metrics)

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(process, range(processes)))


def test_batches_of_any_size_and_any_number_of_processes_give_the_same() -> None:
    """Also batches that are not full, and a process without any row."""
    [alone] = evaluated(100, batch=100, processes=1)
    assert set(alone) == {*usual(), "brier"}
    for batch, processes in ((7, 1), (7, 3), (64, 3), (100, 2)):
        for got in evaluated(100, batch, processes):
            assert list(got) == list(alone)
            assert got["top1"] == alone["top1"]
            for name in alone:
                # A product of matrices may round otherwise in a batch of another size; the metrics add nothing to it.
                assert got[name] == pytest.approx(alone[name], rel=0, abs=1e-6)
    parts = evaluated(100, batch=7, processes=3)
    assert parts == evaluated(100, batch=7, processes=1) * 3


def test_the_headline_is_always_there_and_first_and_a_name_counts_once() -> None:
    assert list(chosen([])) == [HEADLINE]
    assert list(chosen(["macro_f1", HEADLINE, "macro_f1"])) == [HEADLINE, "macro_f1"]
    assert next(iter(chosen(usual()))) == HEADLINE
    assert set(usual()) == {name for name in METRICS if "probs" not in needs(METRICS[name])}
    assert Plan().metrics == usual()
    with pytest.raises(ConfigError, match=r"metric must be one of .*Did you mean 'macro_f1'\?"):
        chosen(["macro_f2"])


@pytest.mark.parametrize(("given", "there"), [(lambda labels: None, False), (lambda labels: math.nan, False)])
def test_a_metric_without_a_value_for_a_set_is_left_out(given: Callable[[Tensor], float | None], there: bool) -> None:
    assert ("mine" in measured({"mine": given}, {"labels": torch.zeros(3, dtype=torch.int64)}, 2)) is there


def test_what_is_no_number_gets_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"metric 'mine' must give a number for a set; got list."):
        measured({"mine": lambda labels: [1.0]}, {"labels": torch.zeros(3, dtype=torch.int64)}, 2)  # type: ignore[dict-item, return-value]
