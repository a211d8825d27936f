"""The recorder: what it keeps, by formulas; and what it concludes from it."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc import Recorder
from selc._io.files import read_tensors, write_tensors
from selc.analysis import LabelAnalysis, Why, analyse
from selc.analysis.findings import KEEP, RELABEL
from selc.errors import InputError
from selc.losses.seen import Seen, filled, stacked
from selc.memory.store import Store
from selc.turning import Evidence, decide
from selc.turning.point import TurningPoint
from selc.types import Outcome

N, C = 50, 4
LABELS = torch.arange(N) % C


def recorded(recorder: Recorder, epoch: int) -> Seen:
    recorder.gather()
    return recorder._epochs[epoch]


def outputs(seed: int, rows: int = N, classes: int = C) -> Tensor:
    return 3 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed))


def expected(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, class and probability, by the definition of softmax in float64."""
    e = logits.double().exp()
    p = e / e.sum(dim=1, keepdim=True)
    return -p[torch.arange(len(p)), labels].log(), p.argmax(dim=1), p.amax(dim=1)


@pytest.mark.parametrize("classes", [C, 40, 300])
@pytest.mark.parametrize("batch", [1, 7, N])
def test_it_keeps_loss_class_and_probability_of_each_sample(classes: int, batch: int) -> None:
    recorder = Recorder(LABELS, classes)
    for epoch in range(2):
        recorder.set_epoch(epoch)
        logits = outputs(epoch, classes=classes)
        for index in torch.randperm(N, generator=torch.Generator().manual_seed(epoch)).split(batch):
            recorder(index, logits[index])
    for epoch in range(2):
        seen, (loss, named, sure) = recorded(recorder, epoch), expected(outputs(epoch, classes=classes), LABELS)
        assert torch.allclose(seen.losses.double(), loss, atol=1e-5)
        assert torch.equal(seen.predictions.long(), named)
        assert torch.allclose(seen.confidences.double(), sure, atol=1e-6)


def test_many_batches_that_wait_for_each_other_are_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for together in (1, 30, 2**16):
        monkeypatch.setattr("selc.recorder.AT_ONCE", together)
        recorder = Recorder(LABELS, C)
        for index in torch.arange(N).split(3):
            recorder(index, outputs(0)[index])
        tables.append(recorded(recorder, 0))
    for other in tables[1:]:
        assert all(torch.equal(a, b) for a, b in zip(tables[0], other, strict=True))


def test_what_happens_to_a_batch_afterwards_does_not_matter() -> None:
    recorder = Recorder(LABELS, C)
    index, logits = torch.arange(N), outputs(0)
    recorder(index, logits)
    index.zero_()
    logits.fill_(torch.nan)
    assert torch.allclose(recorded(recorder, 0).losses.double(), expected(outputs(0), LABELS)[0], atol=1e-5)


def test_it_changes_neither_gradients_nor_random_numbers() -> None:
    def trained(recorder: Recorder | None) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        model, x = nn.Linear(3, C), torch.randn(N, 3)
        logits = model(x)
        if recorder is not None:
            recorder(torch.arange(N), logits)
        F.cross_entropy(logits, LABELS).backward()
        assert model.weight.grad is not None
        return model.weight.grad, torch.get_rng_state()

    recorder = Recorder(LABELS, C)
    for with_, without in zip(trained(recorder), trained(None), strict=True):
        assert torch.equal(with_, without)
    assert not any(part.requires_grad for part in recorded(recorder, 0))


def test_without_a_word_an_epoch_is_as_many_samples_as_there_are_labels() -> None:
    recorder = Recorder(LABELS, C)
    for epoch in range(3):
        for index in torch.arange(N).split(8):
            recorder(index, outputs(epoch)[index])
    assert recorder.epoch == 2
    for epoch in range(3):
        assert torch.equal(recorded(recorder, epoch).predictions.long(), outputs(epoch).argmax(dim=1))


@pytest.mark.parametrize("at_once", [True, False])
def test_of_a_sample_that_comes_twice_the_last_visit_counts(at_once: bool) -> None:
    recorder = Recorder(LABELS, C)
    recorder.set_epoch(0)
    index, logits = torch.tensor([5, 5, 6, 5]), outputs(0, rows=4)
    if at_once:
        recorder(index, logits)
    else:
        for k in range(4):
            recorder(index[k : k + 1], logits[k : k + 1])
            recorder.gather()
    seen = recorded(recorder, 0)
    assert seen.predictions[[5, 6]].tolist() == logits.argmax(dim=1)[[3, 2]].tolist()
    assert int((seen.predictions >= 0).sum()) == 2


def test_a_sample_that_does_not_come_is_taken_as_it_was_seen_last_or_next() -> None:
    nan = torch.nan
    epochs = [
        Seen(torch.tensor([nan, 1.0, nan, nan]), torch.tensor([-1, 1, -1, -1]), torch.tensor([nan, 0.1, nan, nan])),
        Seen(torch.tensor([2.0, nan, nan, nan]), torch.tensor([2, -1, -1, -1]), torch.tensor([0.2, nan, nan, nan])),
        Seen(torch.tensor([3.0, nan, 4.0, nan]), torch.tensor([3, -1, 0, -1]), torch.tensor([0.3, nan, 0.4, nan])),
    ]
    before = copy.deepcopy(epochs)
    assert filled(epochs).predictions.tolist() == [[2, 1, 0, -1], [2, 1, 0, -1], [3, 1, 0, -1]]
    assert filled(epochs).losses[:, :3].tolist() == [[2, 1, 4], [2, 1, 4], [3, 1, 4]]
    assert torch.equal(stacked(epochs).predictions, stacked(before).predictions)


def test_rows_that_are_not_finite_count_as_not_seen() -> None:
    recorder = Recorder(LABELS, C)
    logits = outputs(0)
    logits[3], logits[4, 0], logits[5, (LABELS[5] + 1) % C] = torch.nan, torch.inf, -torch.inf
    recorder(torch.arange(N), logits)
    seen = recorded(recorder, 0)
    assert (seen.predictions < 0).nonzero().flatten().tolist() == [3, 4]
    assert bool(seen.losses[5].isfinite())


def test_going_back_forgets_what_came_later() -> None:
    recorder = Recorder(LABELS, C)
    for epoch, seed in ((0, 0), (1, 1), (2, 2), (1, 5)):
        recorder.set_epoch(epoch)
        recorder(torch.arange(N), outputs(seed))
        recorder.validation(outputs(seed + 10), LABELS)
    recorder.gather()
    assert list(recorder._epochs) == list(recorder._looks) == [0, 1]
    assert torch.equal(recorded(recorder, 1).predictions.long(), outputs(5).argmax(dim=1))


def fed(recorder: Recorder, steps: range, batch: int = 7) -> Recorder:
    """Batches of an endless training: which epoch it is, and what comes, follow from the number of the step."""
    per_epoch = -(-N // batch)
    for step in steps:
        epoch, place = divmod(step, per_epoch)
        if place == 0:
            recorder.set_epoch(epoch)
        index = torch.randperm(N, generator=torch.Generator().manual_seed(epoch))[place * batch : (place + 1) * batch]
        recorder(index, outputs(epoch)[index])
        if place == per_epoch - 1:
            recorder.validation(outputs(epoch + 100, 30), LABELS[:30])
    return recorder


@pytest.mark.parametrize("stop", [0, 3, 8, 13, 16])
def test_its_state_goes_on_where_it_was_through_a_file(stop: int, tmp_path: Path) -> None:
    whole = fed(Recorder(LABELS, C), range(24)).state_dict()
    write_tensors(tmp_path / "state.safetensors", fed(Recorder(LABELS, C), range(stop)).state_dict())
    other = Recorder(LABELS, C)
    other.load_state_dict(read_tensors(tmp_path / "state.safetensors"))
    state = fed(other, range(stop, 24)).state_dict()
    assert state.keys() == whole.keys()
    assert all(torch.equal(state[key].nan_to_num(nan=-7), whole[key].nan_to_num(nan=-7)) for key in whole)


def test_a_state_of_other_labels_is_refused() -> None:
    with pytest.raises(InputError, match="must be of the same labels"):
        Recorder(LABELS.flip(0), C).load_state_dict(Recorder(LABELS, C).state_dict())


def test_memory_is_ten_bytes_for_each_sample_and_epoch_whatever_the_number_of_classes() -> None:
    rows, classes, epochs = 400, 1000, 3
    recorder = Recorder(torch.arange(rows), classes)
    for epoch in range(epochs):
        recorder.set_epoch(epoch)
        for index in torch.arange(rows).split(100):
            recorder(index, outputs(epoch, rows, classes)[index])
            assert not recorder._waiting  # outputs are not kept, only what follows from them
    kept = recorder.state_dict()
    size = sum(part.numel() * part.element_size() for name, part in kept.items() if name.startswith("epochs."))
    assert size == 10 * rows * epochs


@pytest.mark.parametrize(
    ("index", "logits", "labels", "said"),
    [
        (torch.arange(3), torch.zeros(3, C + 1), None, r"\[B, 4\]"),
        (torch.arange(3), torch.zeros(2, C), None, r"got \[3\], \[2, 4\]"),
        (torch.arange(3)[None], torch.zeros(3, C), None, "must be"),
        (torch.arange(3), torch.zeros(3, C), torch.arange(2), r"got \[3\], \[3, 4\], \[2\]"),
        (torch.arange(3).float(), torch.zeros(3, C), None, "index must be of integers"),
    ],
)
def test_what_is_no_batch_is_refused(index: Tensor, logits: Tensor, labels: Tensor | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Recorder(LABELS, C)(index, logits, labels)


@pytest.mark.parametrize("row", [-1, N, 10**12])
def test_an_index_of_no_label_is_said_after_the_epoch(row: int) -> None:
    recorder = Recorder(LABELS, C)
    recorder.set_epoch(0)
    recorder(torch.tensor([0, row]), torch.zeros(2, C))
    with pytest.raises(InputError, match=r"index must be in 0..49.*got 1 in this epoch"):
        recorder.set_epoch(1)


def test_labels_that_are_not_those_at_the_index_are_said_after_the_epoch() -> None:
    recorder = Recorder(LABELS, C)
    for index in torch.arange(N).split(9):
        recorder(index, torch.zeros(len(index), C), LABELS[index])
    recorder.gather()
    recorder(torch.arange(9), torch.zeros(9, C), LABELS[9:18])
    with pytest.raises(InputError, match="got 9 in this epoch that differ"):
        recorder.gather()


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("none", ""),
        ("softmax", "must be given logits; got what sums to one"),
        ("place in the batch", "got 50 visits of 5 samples. The index must be the place in the dataset"),
        ("one epoch for ever", "got 200 visits of 50 samples"),
        ("evaluation", "got a batch under no_grad"),
    ],
)
def test_usual_mistakes_that_raise_nothing_are_told_once(
    mistake: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(LABELS, C)
    for epoch in range(4):
        recorder.set_epoch(0 if mistake == "one epoch for ever" else epoch)
        for index in torch.arange(N).split(5):
            logits = outputs(epoch)[index]
            place = torch.arange(5) if mistake == "place in the batch" else index
            with torch.set_grad_enabled(mistake != "evaluation"):
                recorder(place, logits.softmax(dim=1) if mistake == "softmax" else logits)
    recorder.gather()
    assert len(caplog.messages) == bool(said)
    assert all(message.startswith("Recorder: ") and said in message for message in caplog.messages)


def test_rows_that_could_not_be_written_are_no_sign_of_a_wrong_index(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(LABELS, C)
    logits = outputs(0)
    logits[3:] = torch.nan
    recorder(torch.arange(N), logits)
    recorder.gather()
    assert not caplog.messages


def test_a_batch_of_a_training_may_be_handed_over_without_its_graph(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(LABELS, C)
    recorder(torch.arange(N), outputs(0).requires_grad_().detach())
    with torch.no_grad():
        recorder(torch.arange(N), outputs(1).requires_grad_())
    assert not caplog.messages


def test_a_recorder_that_saw_nothing_says_so() -> None:
    with pytest.raises(InputError, match="must be given the batches"):
        Recorder(LABELS, C).analysis()


# What it concludes: points of four clouds, of which 30 % have a wrong label.
ROWS, OUT = 1200, 300


def clouds() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(C, 20, generator=generator)
    true = torch.arange(ROWS + OUT) % C
    x = centres[true] + 2 * torch.randn(len(true), 20, generator=generator)
    flip = torch.rand(len(true), generator=generator) < 0.3
    return x, true, torch.where(flip, (true + torch.randint(1, C, (len(true),), generator=generator)) % C, true)


def trained(*recorders: Recorder, epochs: int = 20, accumulate: int = 1) -> None:
    """Plain cross entropy; the second recorder and those after it are shown the rows that stay out."""
    x, _, given = clouds()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, C))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        for recorder in recorders:
            recorder.set_epoch(epoch)
        for step, index in enumerate(torch.randperm(ROWS).split(64)):
            logits = model(x[index])
            for recorder in recorders:
                recorder(index, logits)
            F.cross_entropy(logits, given[index]).backward()
            if (step + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        for recorder in recorders[1:]:
            recorder.validation(model(x[ROWS:]), given[ROWS:])


@pytest.fixture(scope="module")
def both() -> tuple[Recorder, Recorder]:
    _, _, given = clouds()
    recorders = Recorder(given[:ROWS], C), Recorder(given[:ROWS], C)
    trained(*recorders)
    return recorders


def test_without_held_out_samples_it_ranks_and_suggests_and_changes_nothing(both: tuple[Recorder, Recorder]) -> None:
    _, true, given = (part[:ROWS] for part in clouds())
    found = both[0].analysis()
    wrong = true != given
    assert torch.equal(found.corrected, given)
    assert found.why_unchanged is Why.NOT_HELD_OUT
    assert found.decision is None
    assert not bool((found.findings.action == RELABEL).any())
    assert found.noise_rate is not None
    assert found.noise_rate.estimate is None
    assert found.noise_rate.low == 0
    assert found.noise_rate.low <= float(wrong.double().mean()) <= found.noise_rate.high < 0.5
    worst = found.findings.quality.argsort()[: int(wrong.sum())]
    assert float(wrong[worst].double().mean()) > 0.9
    issue = found.findings.is_issue
    assert float((found.findings.suggested == true)[issue].double().mean()) > 0.9


def test_with_held_out_samples_it_decides_as_a_run_does(both: tuple[Recorder, Recorder]) -> None:
    """The same evidence, decision and training pass, put into the analysis of a run."""
    _, true, given = (part[:ROWS] for part in clouds())
    recorder = both[1]
    found = recorder.analysis()
    seen, looks = (stacked([kept[k] for k in sorted(kept)]) for kept in (recorder._epochs, recorder._looks))
    evidence = Evidence(clouds()[2][ROWS:], looks.predictions, looks.confidences, looks.losses.neg().exp(), C, splits=1)
    witness = both[0].analysis().findings.suggested
    outcome = Outcome(
        model=nn.Identity(),
        target=Store.from_labels(witness, C),
        probs=Store.from_labels(seen.predictions[-1].long(), C),
        losses=seen.losses,
        predictions=seen.predictions,
        confidences=seen.confidences,
        beliefs=torch.full_like(seen.predictions, -1),
        decided=TurningPoint(evidence, decide(evidence, len(seen.losses))),
    )
    same = analyse(outcome, given, C)
    assert torch.equal(found.corrected, same.corrected)
    assert torch.equal(found.findings.quality, same.findings.quality)
    assert found.as_dict() == same.as_dict()
    changed = found.corrected != given
    assert int(changed.sum()) > ROWS / 10
    assert float((found.corrected == true)[changed].double().mean()) > 0.9
    assert float((found.corrected == true).double().mean()) > float((given == true).double().mean()) + 0.1


def test_gradient_accumulation_is_recorded_batch_by_batch() -> None:
    recorder = Recorder(clouds()[2][:ROWS], C)
    trained(recorder, epochs=2, accumulate=4)
    assert bool((recorded(recorder, 0).predictions >= 0).all())
    assert bool((recorded(recorder, 1).predictions >= 0).all())


def test_labels_that_cannot_be_learnt_are_not_judged() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, C, (400,), generator=generator)
    recorder = Recorder(labels, C)
    for epoch in range(5):
        recorder.set_epoch(epoch)
        recorder(torch.arange(400), torch.randn(400, C, generator=generator))
    found = recorder.analysis()
    assert found.why_unchanged is Why.NOT_LEARNT
    assert found.noise_rate is None
    assert bool((found.findings.action == KEEP).all())


def test_samples_that_never_came_are_left_alone() -> None:
    recorder = Recorder(LABELS, C)
    for epoch in range(3):
        recorder.set_epoch(epoch)
        recorder(torch.arange(40), 3 * F.one_hot(LABELS[:40], C).float())
    found = recorder.analysis().findings
    assert bool((found.action[40:] == KEEP).all())
    assert torch.equal(found.suggested[40:], LABELS[40:])
    assert torch.equal(found.predicted[40:], LABELS[40:])
    assert bool((found.quality[40:] == 1).all())


def test_epochs_without_a_look_are_left_out() -> None:
    every, some = Recorder(LABELS, C), Recorder(LABELS, C)
    for epoch in range(6):
        some.set_epoch(epoch)
        some(torch.arange(N), outputs(epoch) + 2 * F.one_hot(LABELS, C))
        if epoch % 2:
            some.validation(outputs(epoch + 50) + 2 * F.one_hot(LABELS, C), LABELS)
            every.set_epoch(epoch // 2)
            every(torch.arange(N), outputs(epoch) + 2 * F.one_hot(LABELS, C))
            every.validation(outputs(epoch + 50) + 2 * F.one_hot(LABELS, C), LABELS)
    ours, theirs = some.analysis(), every.analysis()
    assert ours.as_dict() == theirs.as_dict()
    assert torch.equal(ours.findings.quality, theirs.findings.quality)


@pytest.mark.parametrize("looks", [True, False])
def test_one_epoch_is_enough_to_ask(looks: bool) -> None:
    recorder = Recorder(LABELS, C)
    recorder(torch.arange(N), 3 * F.one_hot(LABELS, C).float())
    if looks:
        recorder.validation(outputs(1) + 3 * F.one_hot(LABELS, C), LABELS)
    assert torch.equal(recorder.analysis().corrected, LABELS)


def test_validation_in_another_order_or_shape_is_refused() -> None:
    recorder = Recorder(LABELS, C)
    recorder.validation(outputs(0), LABELS)
    with pytest.raises(InputError, match="the same samples in the same order"):
        recorder.validation(outputs(0), LABELS.flip(0))
    with pytest.raises(InputError, match=r"\[M, 4\] and \[M\]"):
        recorder.validation(outputs(0)[:, :2], LABELS)
    with pytest.raises(InputError, match="must be finite"):
        recorder.validation(torch.full((N, C), torch.nan), LABELS)


def test_issues_are_columns_and_a_frame_by_names_of_the_user(both: tuple[Recorder, Recorder]) -> None:
    found: LabelAnalysis = both[0].analysis()
    columns = found.issues()
    assert columns["given_label"].tolist() == clouds()[2][:ROWS].tolist()
    assert columns["sample_id"].tolist() == list(range(ROWS))
    frame = found.frame(ids=[f"img{k}" for k in range(ROWS)], classes=list("abcd"))
    assert set(frame["suggested_label"]) == set("abcd")
    assert frame["label_quality"].is_monotonic_increasing
    assert frame["sample_id"].iloc[0] == f"img{int(np.argmin(columns['label_quality']))}"
