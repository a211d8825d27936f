"""What comes out of a training does not depend on the number of processes.

Shown in float64, where no processor's rounding comes near the bound, and in float32 by what a last digit does there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from selc.methods import METHODS as KNOWN
from selc.methods import create
from tests.float64 import in_float64
from tests.parallel.conftest import Ran
from tests.parallel.work import (
    AUTOMATIC,
    CLASSES,
    FEW,
    LOOPS,
    METHODS,
    NUDGES,
    OTHERS,
    QUICK,
    ROWS,
    SELC,
    SINGLE,
    STEPS,
    VARIANTS,
    WAYS,
    WIDTH,
    described,
    train_set,
    trainer,
)
from tests.tiers import but_for, exhaustive

WITHIN = 1e-9  # seven digits above the rounding of float64


def assert_same(ours: Path, theirs: Path, name: str) -> None:
    a, b = (load_file(folder / f"{name}.safetensors") for folder in (ours, theirs))
    assert a.keys() == b.keys()
    assert torch.float32 not in {tensor.dtype for tensor in a.values()}
    for key in a:
        torch.testing.assert_close(a[key], b[key], atol=WITHIN, rtol=WITHIN, equal_nan=True)
    assert_alike(*(json.loads((folder / f"{name}.json").read_text()) for folder in (ours, theirs)))


def assert_alike(ours: Any, theirs: Any) -> None:
    """The same history, numbers up to rounding."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert_alike(ours[key], theirs[key])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other)
    elif isinstance(ours, float):
        assert theirs == pytest.approx(ours, rel=WITHIN, abs=WITHIN)
    else:
        assert ours == theirs


@pytest.mark.parametrize("size", [2, *exhaustive(4)])
@pytest.mark.parametrize("name", FEW)
def test_targets_weights_and_metrics_are_those_of_one_process(ran: Ran, name: str, size: int) -> None:
    assert_same(ran(1), ran(size), name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", [*OTHERS, *VARIANTS])
def test_so_they_are_for_other_methods_and_circumstances(ran_more: Ran, name: str, size: int) -> None:
    assert_same(ran_more(1), ran_more(size), name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SINGLE)
def test_in_float32_processes_differ_by_no_more_than_roundings_do(ran_more: Ran, name: str) -> None:
    """What one unit in the last place of inputs and weights grows to is measured; every step rounds once more."""
    alone, together = (load_file(ran_more(size) / f"{name}, float32.safetensors") for size in (1, 2))
    nudged = [load_file(ran_more(1) / f"{name}, nudge {nudge}.safetensors") for nudge in range(NUDGES)]
    compared = [key for key, tensor in alone.items() if tensor.dtype == torch.float32]
    assert {"target", "probs", "losses", "model/0.weight"} <= set(compared)
    for key in compared:
        grown = max(apart(alone[key], other[key]) for other in nudged)
        assert apart(alone[key], together[key]) <= STEPS * grown, key
        assert STEPS * grown < 1e-3, key  # or it would not tell a fault from a rounding


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert torch.equal(ours.isnan(), theirs.isnan())
    return float((ours - theirs).abs().nan_to_num().max())


def decided(folder: Path, way: str, name: str, rank: int = 0) -> Any:
    """What automatic SELC decided, and which epochs it trained."""
    return json.loads((folder / f"automatic, {way}, {name}, rank {rank}.json").read_text())


@pytest.mark.parametrize("size", [1, 2, *exhaustive(4)])
@pytest.mark.parametrize("way", WAYS)
def test_automatic_selc_decides_alike_in_any_number_of_processes(ran: Ran, way: str, size: int) -> None:
    alone = decided(ran(1), way, "exact")
    assert alone["start"] is not None
    for rank in range(size):
        assert decided(ran(size), way, "exact", rank) == alone
    undone = [epoch for epoch, _, gone in alone["epochs"] if gone]
    again = [epoch for epoch, stage, _ in alone["epochs"] if stage == 1]
    assert bool(undone) == (way == "watched")
    assert again[: len(undone)] == undone


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_that_decision_is_no_close_one(ran: Ran, ran_more: Ran, way: str, size: int) -> None:
    alone = decided(ran(1), way, "exact")
    assert [decided(ran_more(size), way, "blurred", rank) for rank in range(size)] == [alone] * size


@pytest.mark.parametrize("size", [1, 2, *exhaustive(4)])
@pytest.mark.parametrize("way", WAYS)
def test_automatic_selc_has_the_same_evidence_in_any_number_of_processes(ran: Ran, way: str, size: int) -> None:
    """Every process the same bits; and those of one process, but for the last digits of a probability."""
    alone = load_file(ran(1) / f"automatic, {way}, exact, rank 0.safetensors")
    ours = [load_file(ran(size) / f"automatic, {way}, exact, rank {rank}.safetensors") for rank in range(size)]
    assert alone["predictions"].shape[1] == (400 if way == "watched" else ROWS)
    for mine in ours:
        assert mine.keys() == alone.keys()
        for key, value in mine.items():
            assert torch.equal(value, ours[0][key]), key
            torch.testing.assert_close(value, alone[key], atol=WITHIN, rtol=WITHIN)
    for key in ("labels", "predictions", "about"):
        assert torch.equal(ours[0][key], alone[key])


@pytest.mark.parametrize("size", [2, *exhaustive(4)])
@pytest.mark.parametrize("way", WAYS)
def test_what_automatic_selc_ends_with_is_that_of_one_process(ran: Ran, way: str, size: int) -> None:
    assert_same(ran(1), ran(size), f"automatic, {way}, exact")


@pytest.mark.parametrize("name", FEW)
def test_the_trainings_compared_here_have_learnt_something(ran: Ran, name: str) -> None:
    """Five clouds that overlap a little: chance is 20 %."""
    history = json.loads((ran(1) / f"{name}.json").read_text())
    assert history[-1]["test"]["top1"] > 0.5
    assert history[-1]["loss"] != history[0]["loss"]


def test_every_method_that_says_it_is_parallel_is_compared_here() -> None:
    parallel = {name for name in KNOWN if getattr(KNOWN[name], "parallel", False)}
    assert parallel == set(METHODS)


@pytest.mark.parametrize("size", [2, *exhaustive(4)])
def test_the_tables_of_a_process_hold_its_rows_alone(ran: Ran, size: int) -> None:
    noted = [json.loads((ran(size) / f"rows of {rank}.json").read_text()) for rank in range(size)]
    seen = [{row for batch in of_rank["came"] for row in batch} for of_rank in noted]
    assert sum(map(len, seen)) == ROWS
    assert set.union(*seen) == set(range(ROWS))
    for of_rank, rows in zip(noted, seen, strict=True):
        assert {count for store in of_rank["held"] for count in store} == {len(rows)}


def test_ddp_gives_what_one_process_gives(ran: Ran) -> None:
    assert_same(ran(1), ran(2), "ddp")


@pytest.mark.exhaustive
def test_fsdp_gives_what_ddp_gives(ran: Ran, ran_more: Ran) -> None:
    ours, theirs = load_file(ran(2) / "ddp.safetensors"), load_file(ran_more(2) / "fsdp.safetensors")
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key], atol=WITHIN, rtol=WITHIN, equal_nan=True)
    assert_same(ran_more(1), ran_more(2), "fsdp")


def test_a_second_start_goes_on_as_if_nothing_had_happened(ran: Ran) -> None:
    assert_same_bits_resumed(ran(2), "ddp")


@pytest.mark.exhaustive
def test_so_does_one_of_divided_weights(ran_more: Ran) -> None:
    assert_same_bits_resumed(ran_more(2), "fsdp")


def assert_same_bits_resumed(folder: Path, engine: str) -> None:
    whole, resumed = (load_file(folder / f"{name}.safetensors") for name in (engine, f"{engine}, resumed"))
    for key in whole:  # a folder keeps the losses in float32
        torch.testing.assert_close(whole[key].to(resumed[key].dtype), resumed[key], atol=0, rtol=0, equal_nan=True)


def test_what_two_processes_left_one_can_finish(ran: Ran) -> None:
    with in_float64():
        outcome = trainer(ran(2) / "left").fit(create("selc", SELC), train_set())
        finished, expected = described(outcome)[0], load_file(ran(1) / "selc.safetensors")
    for key, ours in finished.items():  # a folder keeps the losses in float32: a rounding may fall to the other side
        within = torch.finfo(ours.dtype).eps if ours.dtype == torch.float32 else WITHIN
        torch.testing.assert_close(ours, expected[key].to(ours.dtype), atol=within, rtol=within, equal_nan=True)


@pytest.mark.parametrize("size", [2, *exhaustive(4)])
def test_with_batch_norm_every_process_ends_with_the_same_network(ran: Ran, size: int) -> None:
    """Also where a process has one row of a batch, of which there are no statistics, or none."""
    assert [json.loads((ran(size) / f"apart {rank}.json").read_text()) for rank in range(size)] == [0.0] * size
    tensors = load_file(ran(size) / "batch norm.safetensors")
    assert bool(torch.isfinite(tensors["probs"]).all())
    assert float(tensors["model/1.running_mean"].abs().max()) > 0


def test_an_encoder_that_is_fine_tuned_ends_as_in_one_process(ran: Ran) -> None:
    assert_same(ran(1), ran(2), "tuned")
    history = json.loads((ran(1) / "tuned.json").read_text())
    assert history[-1]["loss"] < history[0]["loss"]


def test_each_process_embeds_its_share_and_all_get_the_same_features(ran: Ran) -> None:
    alone = load_file(ran(1) / "embedded, rank 0.safetensors")
    assert alone["x"].shape == (54, 8)
    assert alone["seen"].tolist() == [8] * 6 + [5]  # the one that is there twice is seen once
    first, second = (load_file(ran(2) / f"embedded, rank {rank}.safetensors") for rank in range(2))
    assert first["seen"].tolist() == [8, 8, 8, 5]
    assert second["seen"].tolist() == [8, 8, 8]
    assert torch.equal(first["x"], alone["x"])
    assert torch.equal(second["x"], alone["x"])


def test_what_cannot_run_in_several_processes_says_so_before_the_training(ran: Ran) -> None:
    said = [json.loads((ran(2) / f"said by {rank}.json").read_text()) for rank in range(2)]
    assert said[0] == said[1]
    assert said[0]["dmi"].startswith("method 'dmi' must run in one process; got 2.")
    assert said[0]["ce"].startswith("shards must be a multiple of the number of processes, 2; got 3.")
    assert said[0]["gce"].startswith("sync_batchnorm must run on GPUs")


@pytest.fixture
def looped(request: pytest.FixtureRequest, name: str) -> Ran:
    """Where the loop of that name was run."""
    found: Ran = request.getfixturevalue("ran" if name in QUICK else "ran_more")
    return found


@pytest.mark.parametrize("name", but_for(set(LOOPS) - set(QUICK), LOOPS))
def test_selc_loss_under_ddp_is_what_it_is_in_one_process(looped: Ran, name: str) -> None:
    alone = load_file(looped(1) / f"loop, {name}, rank 0.safetensors")
    assert alone["targets"].shape[1] == WIDTH.get(name, CLASSES)
    assert bool((alone["targets"].amax(dim=1) < 1).any())  # it corrects
    for rank in range(2):
        together = load_file(looped(2) / f"loop, {name}, rank {rank}.safetensors")
        for key in alone:
            torch.testing.assert_close(alone[key], together[key], atol=WITHIN, rtol=WITHIN)


@pytest.mark.parametrize("name", AUTOMATIC)
def test_selc_loss_under_ddp_chooses_the_same_start(ran: Ran, name: str) -> None:
    alone = load_file(ran(1) / f"loop, {name}, rank 0.safetensors")
    assert 5 < float(alone["start"][0]) < 12  # it did start
    for rank in range(2):
        together = load_file(ran(2) / f"loop, {name}, rank {rank}.safetensors")
        for key in ("start", "visits", "changes"):
            assert torch.equal(alone[key], together[key])
        torch.testing.assert_close(alone["quality"], together["quality"], atol=WITHIN, rtol=WITHIN)


@pytest.mark.parametrize("name", but_for(set(LOOPS) - set(QUICK), LOOPS | AUTOMATIC))
def test_under_ddp_every_process_holds_the_same_table(looped: Ran, name: str) -> None:
    first, second = (load_file(looped(2) / f"loop, {name}, rank {rank}.safetensors")["targets"] for rank in range(2))
    assert torch.equal(first, second)


def test_a_recorder_gathers_what_one_process_would_have_seen(ran: Ran) -> None:
    alone = load_file(ran(1) / "recorder, rank 0.safetensors")
    assert alone["epochs"].tolist() == [0, 1, 2, 3]
    assert bool((alone["epochs.predictions"] >= 0).all())
    for rank in range(2):
        together = load_file(ran(2) / f"recorder, rank {rank}.safetensors")
        assert together.keys() == alone.keys()
        for key in alone.keys() - {"about"}:  # which also counts what this process has seen
            torch.testing.assert_close(alone[key], together[key], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("size", [2, *exhaustive(4)])
def test_messages_arrive_as_they_were_sent(ran: Ran, size: int) -> None:
    for rank in range(size):
        told = json.loads((ran(size) / f"told to {rank}.json").read_text())
        assert told["sum"] == [size, sum(range(size))]
        numbers = [[float(row), float(row % 2)] for row in range(10)]
        for kind in ("float32", "bfloat16", "int16", "int64"):
            assert told[f"torch.{kind}"] == numbers
        assert told["torch.bool"] == [[float(row > 0), float(row % 2)] for row in range(10)]
        assert told["lengths"] == [[float(other)] * other for other in range(size)]
        assert told["plain"] == {"from": 0, "text": "é", "none": None, "number": 0.1}
        assert (told["before"] == []) == (rank == 0)  # whoever leads goes first
