"""What the processes of the tests in this folder do: small trainings, in one process or in several.

``python -m tests.parallel.work TASKS FOLDER SIZE`` is SIZE processes; they meet by a file in FOLDER. What comes out of
a task is written to FOLDER. Trainings that are compared to the last digits are in float64: how far two orders of a sum
drift apart in float32 depends on the processor.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from selc.callbacks import Callback, EpochRecord
from selc.data import ArrayInputs, Bundle, ImageInputs
from selc.data.preprocess.imagery import Images
from selc.encoders import Encoding, encode
from selc.encoders.finetuned import finetuned
from selc.losses import SELCLoss, Watcher
from selc.memory.store import Store
from selc.methods import Method, create
from selc.recorder import Recorder
from selc.runs.job import gathered
from selc.training import Plan, Trainer
from selc.turning import TurningPoint
from selc.types import Batch, EvalSet, Labels, Outcome, StagePlan, TrainSet
from selc.world import current
from tests.encoders.tiny_vit import write_vit
from tests.float64 import in_float64

CLASSES, FEATURES = 5, 8
ROWS = 398  # with batches of 66 the last one has 2 rows: of four processes two have none of them
BATCH = 66

# Start and alpha are given: found by the training itself, they would turn a rounding into another training.
SELC: dict[str, Any] = {"start": 1.5, "alpha": 0.7}
# Times are early, so that five epochs are enough for whatever a method does late.
METHODS: dict[str, dict[str, Any]] = {
    "ce": {},
    "gce": {},
    "sce": {},
    "nce+rce": {"clip_norm": 0.5},
    "elr": {},
    "sat": SELC,
    "selc": SELC,
    "selc+": SELC,
    "plc": {"warm_up": 1, "window": 2, "theta": 0.5, "quiet": 0.5},
    "lrt": {"update": 1, "start": 1, "interval": 2, "window": 2},
    "pencil": {},
    "bootstrap": {},
    "mixup": {},
    "truncated-gce": {"start": 1, "every": 1},
    "seal": {"iterations": 1},
    "rsl": {},
    "aum": {},
}
FEW = ["ce", "elr", "selc", "selc+", "plc"]  # in `make test`; no table, each kind of table, several stages, new labels
OTHERS = [name for name in METHODS if name not in FEW]
SINGLE = ["ce", "gce", "elr", "sat", "selc"]  # in float32 as well: they decide nothing by a comparison
NUDGES = 4
PLANS: dict[str, dict[str, Any]] = {
    "sce": {"lr": 0.01}
}  # the gradient of its reverse term is nine times that of cross entropy
# The same once more in other circumstances.
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "selc, weighted": ("selc", {**SELC, "weighted": True}, {}),
    "selc, Option I": ("selc", {"start": 1, "alpha": 0.8, "option": "I"}, {}),
    "selc, held out": ("selc", {"start": 1, "alpha": 0.8}, {"val_fraction": 0.1, "pick": "best-val"}),
    "selc, swept": ("selc", {"start": 1, "alpha": 0.8}, {"losses": "sweep"}),
    "selc, balanced": ("selc", {"start": 1, "alpha": 0.8}, {"samples_per_epoch": 200, "stratified": True}),
    "selc, top-k": ("selc", {"start": 1, "alpha": 0.8}, {"store": "top-k"}),
}


def points(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Five clouds of points that overlap a little."""
    rng = torch.Generator().manual_seed(seed)
    label = torch.arange(rows) % CLASSES
    return 1.5 * torch.eye(CLASSES, FEATURES)[label] + 0.7 * torch.randn(rows, FEATURES, generator=rng), label


def noisy(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Clouds of which every third label is wrong."""
    x, label = points(rows, seed)
    return x, torch.where(torch.arange(rows) % 3 == 0, (label + 1 + torch.arange(rows) % 4) % CLASSES, label)


def train_set() -> TrainSet:
    x, given = noisy(ROWS, seed=0)
    return TrainSet(ArrayInputs(x), Labels(given, CLASSES))


def net(outputs: int) -> nn.Module:
    """Without batch norm and dropout: what a row gives does not depend on the rows beside it."""
    return nn.Sequential(nn.Linear(FEATURES, 24), nn.Tanh(), nn.Linear(24, outputs))


EPOCHS = 5
STEPS = EPOCHS * -(-ROWS // BATCH)


def trainer(
    folder: Path | None = None,
    callback: Callback | None = None,
    model: Callable[[int], nn.Module] = net,
    **plan: Any,
) -> Trainer:
    settings = {"epochs": EPOCHS, "lr": 0.1, "batch_size": BATCH, "schedule": "constant", "threads": 1, **plan}
    x, label = points(150, seed=1)
    tests = {"test": EvalSet(ArrayInputs(x), label)}
    return Trainer(
        Plan(**settings), model, tests=tests, folder=folder, fingerprint="it", callbacks=[callback] if callback else []
    )


def described(outcome: Outcome) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """All that must not depend on the number of processes: tensors, and the history without times."""
    tensors = {f"model/{k}": v for k, v in outcome.model.state_dict().items()}
    tensors |= {"target": outcome.target.full(), "probs": outcome.probs.full(), "losses": outcome.losses}
    tensors |= {"predictions": outcome.predictions, "confidences": outcome.confidences, "beliefs": outcome.beliefs}
    tensors["corrected"] = outcome.corrected_labels
    timed = ("seconds", "samples_per_second")
    history = [{k: v for k, v in entry.items() if k not in timed} for entry in outcome.history]
    return {k: v.detach().clone().contiguous() for k, v in tensors.items()}, history


def write(folder: Path, name: str, outcome: Outcome) -> None:
    tensors, history = described(outcome)  # every process, as it gathers rows
    if current().leads:
        save_file(tensors, folder / f"{name}.safetensors")
        (folder / f"{name}.json").write_text(json.dumps(history))


class Watched(Method):
    """Runs another method, and notes which rows come and how many its tables hold."""

    parallel = True

    def __init__(self, inner: Method) -> None:
        super().__init__()
        self.inner = inner
        self.came: list[list[int]] = []

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.inner.setup(data, plan)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.came.append(batch.index.tolist())
        return self.inner.loss(outputs, batch)


def messages(folder: Path) -> None:
    """What the processes can tell each other; each has as many rows as its number."""
    world = current()
    mine = torch.arange(world.rank, 10, world.size)
    told: dict[str, Any] = {"sum": world.sum(torch.tensor([1.0, world.rank])).tolist()}
    for kind in (torch.float32, torch.bfloat16, torch.int16, torch.int64, torch.bool):
        rows = torch.stack([mine, mine % 2], dim=1).to(kind)
        told[str(kind)] = world.gather_rows(mine, rows, 10).double().tolist()
    told["lengths"] = [part.tolist() for part in world.gather(torch.full((world.rank,), float(world.rank)))]
    told["plain"] = world.broadcast({"from": world.rank, "text": "é", "none": None, "number": 0.1})

    def turn() -> list[str]:
        before = [path.name for path in folder.glob("turn-*")]
        (folder / f"turn-{world.rank}").touch()
        return before

    told["before"] = world.in_turn(turn)
    (folder / f"told to {world.rank}.json").write_text(json.dumps(told))


@in_float64()
def few(folder: Path) -> None:
    for name in FEW:
        write(folder, name, trainer(**PLANS.get(name, {})).fit(create(name, METHODS[name]), train_set()))


def single(folder: Path) -> None:
    """In float32, and in one process also from inputs and weights that are off by their last digit."""
    for name in SINGLE:
        write(folder, f"{name}, float32", trainer().fit(create(name, METHODS[name]), train_set()))
        for nudge in range(NUDGES if current().size == 1 else 0):
            outcome = trainer(model=partial(nudged_net, nudge)).fit(create(name, METHODS[name]), nudged_set(nudge))
            write(folder, f"{name}, nudge {nudge}", outcome)


def nudged(x: Tensor, nudge: int) -> Tensor:
    """One unit in the last place up or down, drawn for each number."""
    up = torch.rand(x.shape, generator=torch.Generator().manual_seed(nudge)) < 0.5
    return torch.nextafter(x, torch.where(up, torch.inf, -torch.inf))


def nudged_net(nudge: int, outputs: int) -> nn.Module:
    model = net(outputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(nudged(weight, nudge))
    return model


def nudged_set(nudge: int) -> TrainSet:
    return replace(train_set(), inputs=ArrayInputs(nudged(points(ROWS, seed=0)[0], nudge)))


# By what automatic SELC decides: splits of the training set, or the validation set of the user.
WAYS = {"splits": 5, "watched": 8}  # and the epochs


@in_float64()
def automatic(folder: Path, name: str = "exact", off: float = 0.0) -> None:
    """What SELC decides by itself."""
    x = points(ROWS, seed=0)[0]
    blur = off * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    for way, epochs in WAYS.items():
        training = trainer(epochs=epochs)
        if way == "watched":
            others, given = noisy(400, seed=2)
            training.val = EvalSet(ArrayInputs(others), given)
        outcome = training.fit(create("selc", {}), replace(train_set(), inputs=ArrayInputs(x * (1 + blur))))
        found = TurningPoint.of(outcome.decided)
        assert found is not None
        assert found.evidence is not None
        history = [[entry["epoch"], entry["stage"], bool(entry.get("undone"))] for entry in outcome.history]
        decided = {"start": found.decision.start, "best": found.decision.best, "epochs": history}
        place = f"automatic, {way}, {name}, rank {current().rank}"
        (folder / f"{place}.json").write_text(json.dumps(decided))
        save_file(found.evidence.tensors(), folder / f"{place}.safetensors")
        write(folder, f"automatic, {way}, {name}", outcome)


def blurred(folder: Path) -> None:
    """The same with inputs that are off by a thousandth: it must be no close decision."""
    automatic(folder, "blurred", 1e-3)


@in_float64()
def others(folder: Path) -> None:
    """The other methods that run in several processes, and SELC in other circumstances."""
    for name in OTHERS:
        write(folder, name, trainer(**PLANS.get(name, {})).fit(create(name, METHODS[name]), train_set()))
    for name, (method, options, plan) in VARIANTS.items():
        write(folder, name, trainer(**plan).fit(create(method, options), train_set()))


def tables(folder: Path) -> None:
    """Which rows each process sees in an epoch, and which its tables hold."""
    method = Watched(create("selc", {"start": 0, "alpha": 0.5}))
    outcome = trainer(epochs=1).fit(method, train_set())
    stores = [m for m in method.modules() if isinstance(m, Store)] + [outcome.probs]
    noted = {"came": method.came, "held": [[t.shape[0] for t in s.tensors().values()] for s in stores]}
    (folder / f"rows of {current().rank}.json").write_text(json.dumps(noted))
    whole = gathered(outcome.probs)
    assert torch.equal(whole.full(), outcome.probs.full())


@in_float64()
def engines(folder: Path) -> None:
    """DDP, and what it leaves behind when it is broken off."""
    with_engine(folder, "ddp")
    broken_off(folder / "left", {})


@in_float64()
def sharded(folder: Path) -> None:
    """The weights themselves are divided among the processes."""
    with_engine(folder, "fsdp")


def with_engine(folder: Path, engine: str) -> None:
    """Uninterrupted, and with a second start after three epochs."""
    plan: dict[str, Any] = {"engine": engine, "optimizer": "AdamW", "lr": 0.01, "clip_norm": 0.5}
    write(folder, engine, trainer(**plan).fit(create("selc", SELC), train_set()))
    broken_off(folder / f"{engine}-run", plan)
    again = trainer(folder / f"{engine}-run", **plan).fit(create("selc", SELC), train_set())
    write(folder, f"{engine}, resumed", again)


def broken_off(folder: Path, plan: dict[str, Any]) -> None:
    """A run that ends after three epochs."""
    try:
        trainer(folder, StopAfter(3), **plan).fit(create("selc", SELC), train_set())
    except BrokenOffError:
        return
    raise AssertionError("it went on")


class BrokenOffError(Exception):
    """Raised by `StopAfter`."""


class StopAfter(Callback):
    """Breaks a training off after a number of epochs."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def on_epoch_saved(self, record: EpochRecord) -> None:
        self.left -= 1
        if self.left == 0:
            raise BrokenOffError


def batch_norm(folder: Path) -> None:
    """A network with batch norm, where a process may have a single row of a batch, or none."""

    def normed(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, outputs))

    plan = Plan(epochs=2, lr=0.1, batch_size=7, schedule="constant", threads=1)
    outcome = Trainer(plan, normed).fit(create("ce", {}), replace(train_set(), rows=torch.arange(100)))
    mine = torch.cat([v.flatten().double() for v in outcome.model.state_dict().values() if v.is_floating_point()])
    apart = [float((theirs - mine).abs().max()) for theirs in current().gather(mine)]
    write(folder, "batch norm", outcome)
    (folder / f"apart {current().rank}.json").write_text(json.dumps(max(apart)))


def pictures() -> tuple[Images, ImageInputs, Tensor]:
    """54 noisy images of three colours, each fourth with a wrong label; one is there twice."""
    rng = np.random.default_rng(0)
    label = np.arange(54) % 3
    pixels = rng.integers(0, 200, (54, 16, 16, 3)) + 55 * np.eye(3, dtype=int)[label][:, None, None]
    pixels[53] = pixels[0]
    given = np.where(np.arange(54) % 4 == 0, (label + 1) % 3, label)
    return *Images.of_bytes(pixels.astype(np.uint8), "crop-flip"), torch.from_numpy(given)


@in_float64()
def tuned(folder: Path) -> None:
    """An encoder that is trained with its head, on images that are cut out otherwise in each epoch."""
    how, inputs, given = pictures()
    place = write_vit(folder / f"tuned by {current().rank}")

    def model(outputs: int) -> nn.Module:
        options: dict[str, Any] = {"encoder": "directory", "path": str(place)}
        return finetuned(outputs, how.shape, mean=how.view.mean, std=how.view.std, **options).double()

    plan = Plan(epochs=EPOCHS, lr=0.1, batch_size=10, schedule="constant", threads=1)
    write(folder, "tuned", Trainer(plan, model).fit(create("selc", SELC), TrainSet(inputs, Labels(given, 3))))


def embedded(folder: Path) -> None:
    """Features of images, of which each process makes its share."""
    how, inputs, given = pictures()
    chosen = {"name": "directory", "path": str(write_vit(folder / f"asked by {current().rank}"))}
    bundle = Bundle(inputs, given, ("red", "green", "blue"), how.shape)
    made = Encoding.of(bundle, chosen, device=torch.device("cpu"), cache=folder / f"cache of {current().rank}", batch=8)
    seen: list[int] = []
    made.encoder.net.register_forward_hook(lambda net, given, found: seen.append(len(found)))
    rows = encode(bundle, made).inputs
    assert isinstance(rows, ArrayInputs)
    save_file({"x": rows.x, "seen": torch.tensor(seen)}, folder / f"embedded, rank {current().rank}.safetensors")


def refused(folder: Path) -> None:
    """What is said before a training that cannot run in so many processes."""
    said = {}
    plans: dict[str, dict[str, Any]] = {"dmi": {}, "ce": {"shards": 3}, "gce": {"sync_batchnorm": True}}
    for name, plan in plans.items():
        try:
            trainer(batch_size=100, **plan).fit(create(name, {}), train_set())
        except ValueError as error:
            said[name] = str(error)
    (folder / f"said by {current().rank}.json").write_text(json.dumps(said))


LOOPS: dict[str, dict[str, Any]] = {
    "a number": {"start": 2, "alpha": 0.8},
    "weighted": {"start": 2, "alpha": 0.8, "weighted": True},
    "Option I": {"start": 2, "alpha": 0.8, "option": "I"},
    "uneven": {"start": 2, "alpha": 0.8},
    "half": {"start": 2, "alpha": 0.8, "store": "half"},
    "disk": {"start": 2, "alpha": 0.8, "store": "disk"},
    "top-k": {"start": 2, "alpha": 0.8, "store": "top-k"},
}
AUTOMATIC: dict[str, dict[str, Any]] = {"auto": {"start": "auto", "epochs": 12}}
QUICK = ["uneven", "top-k", "auto"]  # in `make test`
WIDTH = {"top-k": 24}  # classes, most of them of no sample: of so few as there are, top-k keeps all


def own_loop(folder: Path) -> None:
    loops(folder, QUICK)


def own_loops(folder: Path) -> None:
    loops(folder, [name for name in LOOPS if name not in QUICK])


@in_float64()
def loops(folder: Path, names: list[str]) -> None:
    """`SELCLoss` in a loop that is not ours; the batches of all processes together are the same for any number."""
    samples, epochs = 51, 12
    x, label = points(samples, seed=3)
    given = torch.where(torch.arange(samples) % 4 == 0, (label + 2) % CLASSES, label)
    world = current()
    for name in names:
        options = (LOOPS | AUTOMATIC)[name]
        uneven, classes = name == "uneven", WIDTH.get(name, CLASSES)
        torch.manual_seed(0)
        model = net(classes)
        forward = DistributedDataParallel(model) if world.size > 1 else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        criterion = SELCLoss(given, classes, repeats="once", **options)
        for epoch in range(epochs):
            criterion.set_epoch(epoch)
            for parts in dealt(samples, epoch, uneven):
                index = torch.cat(parts) if world.size == 1 else parts[world.rank]
                optimizer.zero_grad()
                criterion(forward(x[index]), given[index], index).backward()
                optimizer.step()
        tensors = {"targets": criterion.targets, **model.state_dict()}
        tensors["start"] = torch.tensor([criterion.start, criterion.alpha], dtype=torch.float64)
        tensors |= {"visits": criterion.visits, "quality": criterion.label_quality}
        if isinstance(criterion.watcher, Watcher):
            tensors["changes"] = torch.tensor(criterion.watcher.changes)
        save_file(
            {k: v.contiguous() for k, v in tensors.items()}, folder / f"loop, {name}, rank {world.rank}.safetensors"
        )


def recorder(folder: Path) -> None:
    """A recorder whose processes see other batches, are gathered in the middle of an epoch, and one of which rests."""
    samples, world = 51, current()
    given = torch.arange(samples) % CLASSES
    kept = Recorder(given, CLASSES)
    for epoch in range(4):
        kept.set_epoch(epoch)
        outputs = torch.randn(samples, CLASSES, generator=torch.Generator().manual_seed(epoch))
        for step, parts in enumerate(dealt(samples, epoch, uneven=epoch != 2)):
            index = torch.cat(parts) if world.size == 1 else parts[world.rank]
            if epoch == 3:  # the second process has nothing to do
                index = torch.cat(parts) if world.rank == 0 else index[:0]
            kept(index, outputs[index])
            if step == 1:
                kept.gather()
    kept.gather()
    analysis = kept.analysis()
    save_file(
        {**kept.state_dict(), "quality": analysis.findings.quality}, folder / f"recorder, rank {world.rank}.safetensors"
    )


def dealt(samples: int, epoch: int, uneven: bool) -> list[list[Tensor]]:
    """The batches of an epoch, each as the parts of two processes: dealt anew in each epoch, and the odd one twice."""
    if uneven:
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
        return [list(batch.split([len(batch) - 2, 2])) for batch in order.split(13)]
    rows = []
    for rank in range(2):
        sampler: DistributedSampler[int] = DistributedSampler(range(samples), num_replicas=2, rank=rank, shuffle=True)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        rows.append(torch.tensor(list(sampler)).split(8))
    return [list(parts) for parts in zip(*rows, strict=True)]


def tasks(names: str, folder: Path) -> None:
    torch.set_num_threads(1)
    for name in names.split(","):
        TASKS[name](folder)


def one_of(size: int, rank: int, names: str, folder: Path) -> None:
    """The tasks as one of several processes."""
    with (folder / f"log-{rank}").open("w") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    tasks(names, folder)
    current().barrier()
    dist.destroy_process_group()


def main(names: str, folder: Path, size: int) -> int:
    """Imported once: the other processes are forked from this one. One that fails ends those that wait for it."""
    ranks = {}
    for rank in range(size):
        if (pid := os.fork()) == 0:
            code = 1
            try:
                one_of(size, rank, names, folder)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)  # a thread of torch's backend now and then aborts a process that ends as usual
        ranks[pid] = rank
    failed = 0
    while ranks:
        pid, status = os.wait()
        del ranks[pid]
        if status and not failed:
            failed = 1
            for other in ranks:
                os.kill(other, signal.SIGTERM)
    return failed


QUICKLY = (messages, few, automatic, tables, engines, batch_norm, tuned, embedded, refused, own_loop, recorder)
LATER = (single, blurred, others, sharded, own_loops)
TASKS = {task.__name__: task for task in (*QUICKLY, *LATER)}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
