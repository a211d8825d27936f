"""The calls that make a run: from a configuration, from a folder that was interrupted, from arrays in memory."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from selc.data import DATASETS, ArrayInputs, DatasetInputs
from selc.data.base import Recipe
from selc.errors import InputError, RunFolderError
from selc.methods import METHODS, Method
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise import draw_noise
from selc.noise.base import measured
from selc.run.config import ARRAYS, Config, checked_plan
from selc.run.folder import RunFolder
from selc.train import Plan, Progress, Trainer
from selc.types import EvalSet, Inputs, Labels, Outcome, TrainSet


def execute(config: Config, out: Path | str, progress: Progress | None = None) -> RunFolder:
    """Run a configuration into a new folder."""
    bundle = DATASETS[config.data]()
    seed = config.train.seed
    noise = draw_noise(config.noise.name, bundle.labels, len(bundle.classes), seed, config.noise.options)
    run = RunFolder.create(out, config, noise, bundle.labels, bundle.classes)
    _go(run, config, progress or Progress())
    return run


def resume(path: Path | str, progress: Progress | None = None) -> RunFolder:
    """Go on with a run that was interrupted; a finished one is left as it is."""
    run = RunFolder.open(path)
    config = run.config
    if config.data == ARRAYS:
        raise RunFolderError(
            f"{run.path} was started from Python with arrays, which are not in the folder. "
            "Call selc.fit with the same arguments and resume=True."
        )
    if not run.finished:
        _go(run, config, progress or Progress())
    return run


def _go(run: RunFolder, config: Config, progress: Progress) -> None:
    """Train on the labels in the folder; what was saved there is not trained again."""
    bundle = DATASETS[config.data]()
    given = run.given
    data = TrainSet(bundle.inputs, Labels(given, len(bundle.classes)))
    _train_into(
        run,
        create_method(config.method.name, config.method.options),
        lambda outputs: create_net(config.net.name, outputs, bundle.shape, config.net.options),
        data,
        config.train,
        tests=bundle.tests,
        fingerprint=config.fingerprint(measured(given, given, len(bundle.classes)).digest),
        progress=progress,
    )


def fit(
    x: Any,
    labels: Any,
    *,
    method: str | Method = "selc",
    options: Mapping[str, Any] | None = None,
    net: str | nn.Module | Callable[[int], nn.Module] = "mlp",
    net_options: Mapping[str, Any] | None = None,
    num_classes: int | None = None,
    tests: Mapping[str, tuple[Any, Any]] | None = None,
    val: tuple[Any, Any] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **train: Any,
) -> Outcome:
    """Train on ``x`` [N, ...] with noisy integer ``labels`` [N]; get the model and the labels it believes.

    ``method`` is a name with ``options`` or an object; ``net`` a name, a module (copied, not changed) or a function
    of the number of outputs; ``x`` an array, a tensor or a map-style dataset; ``train`` are fields of `Plan`, such
    as ``epochs`` and ``lr``. With ``out`` every epoch is saved, and ``resume=True`` goes on.
    """
    inputs = _inputs(x)
    given = torch.as_tensor(labels)
    count = int(given.max()) + 1 if num_classes is None and given.numel() else num_classes or 0
    data = TrainSet(inputs, Labels(given, count))
    if isinstance(method, str):
        method_name, method = method, create_method(method, options)
    else:
        method_name = next((name for name in METHODS if METHODS[name] is type(method)), "selc")
    shape = tuple(next(inputs.stream([torch.tensor([0])], None)).shape[1:])
    trainer_arguments: dict[str, Any] = {
        "tests": {name: EvalSet(_inputs(a), torch.as_tensor(b)) for name, (a, b) in (tests or {}).items()},
        "val": EvalSet(_inputs(val[0]), torch.as_tensor(val[1])) if val is not None else None,
        "progress": progress or Progress(),
    }
    factory = _factory(net, shape, net_options)
    if out is None:
        return Trainer(checked_plan(train), factory, **trainer_arguments).fit(method, data)
    settings = {
        "data": ARRAYS,
        "method": {"name": method_name, **_options(method, method_name)},
        "net": {"name": net, **(net_options or {})} if isinstance(net, str) else {},
        "train": train,
    }
    config = Config.resolve(settings, Recipe())
    noise = measured(data.labels.hard, data.labels.hard, count)
    run = RunFolder(out)
    if not (resume and (run.path / "config.toml").exists()):
        run = RunFolder.create(out, config, noise, None, [str(k) for k in range(count)])
    return _train_into(
        run,
        method,
        factory,
        data,
        config.train,
        fingerprint=config.fingerprint(noise.digest),
        **trainer_arguments,
    )


def _train_into(
    run: RunFolder,
    method: Method,
    net: Callable[[int], nn.Module],
    data: TrainSet,
    plan: Plan,
    *,
    tests: Mapping[str, EvalSet],
    fingerprint: str,
    progress: Progress,
    val: EvalSet | None = None,
) -> Outcome:
    began = time.perf_counter()
    watched = _Watched(run, progress)
    trainer = Trainer(plan, net, tests=tests, val=val, folder=run.path, fingerprint=fingerprint, progress=watched)
    outcome = trainer.fit(method, data)
    if not run.finished:
        run.write_results(outcome, summarise(run, outcome, plan, time.perf_counter() - began))
    return outcome


def summarise(run: RunFolder, outcome: Outcome, plan: Plan, seconds: float) -> dict[str, Any]:
    """The results, with how they came about."""
    last = outcome.history[-1]
    corrected = outcome.corrected_labels.cpu()
    true, given = run.true, run.given
    epochs = [e for e in run.history() if e["stage"] == last["stage"]]
    picked = last["epoch"]
    if plan.pick == "best-val":
        picked = max(epochs, key=lambda e: (e["val"]["top1"], -e["epoch"]))["epoch"]
    names = {k for k, v in last.items() if isinstance(v, dict)}
    summary: dict[str, Any] = {
        "pick": plan.pick,
        "epoch": picked,
        "accuracy": {name: epochs[picked][name] for name in sorted(names)},
        "changed": float((corrected != given).float().mean()),
        "seconds_this_session": round(seconds, 3),
        "seconds_training": round(sum(e["seconds"] for e in run.history()), 3),
    }
    if true is not None:
        summary["right_before"] = float((given == true).float().mean())
        summary["right_after"] = float((corrected == true).float().mean())
    return summary


class _Watched(Progress):
    """Writes the metrics after each epoch, and passes everything on to whoever watches."""

    def __init__(self, run: RunFolder, inner: Progress) -> None:
        self.run, self.inner = run, inner
        self.begin_stage = inner.begin_stage  # type: ignore[method-assign]
        self.advance = inner.advance  # type: ignore[method-assign]
        self.notice = inner.notice  # type: ignore[method-assign]

    def end_epoch(self, entry: dict[str, Any]) -> None:
        self.run.write_metrics()
        self.inner.end_epoch(entry)


def _inputs(x: Any) -> Inputs:
    if isinstance(x, torch.utils.data.Dataset):
        return DatasetInputs(x)
    try:
        return ArrayInputs(torch.as_tensor(x, dtype=torch.float32))
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"x must be an array of numbers or a torch dataset; got {type(x).__name__}: {error}."
        ) from None


def _factory(
    net: str | nn.Module | Callable[[int], nn.Module],
    shape: tuple[int, ...],
    options: Mapping[str, Any] | None,
) -> Callable[[int], nn.Module]:
    if isinstance(net, str):
        return lambda outputs: create_net(net, outputs, shape, options)
    if isinstance(net, nn.Module):
        return lambda outputs: copy.deepcopy(net)
    return net


def _options(method: Method, name: str) -> dict[str, Any]:
    """The options of a method object: its constructor stored them under their names."""
    return {key: getattr(method, key) for key in METHODS.defaults(name)}
