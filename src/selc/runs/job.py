"""A run from a configuration, or from the folder of one that was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc._io.files import sweep
from selc.analysis import LabelAnalysis, analyse
from selc.callbacks import Callback, Callbacks, EpochRecord, Silent
from selc.classifiers import is_classifier_name
from selc.data import Bundle
from selc.errors import ConfigError, RunFolderError
from selc.memory.store import Store
from selc.methods import Method
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise import Noise, draw_noise
from selc.noise.base import check as check_noise
from selc.noise.base import label_digest, measured, needs
from selc.runs.classifier_job import ClassifierJob
from selc.runs.config import ARRAYS, Config
from selc.runs.door import prepared, source
from selc.runs.folder import RunFolder
from selc.runs.remarks import remarked
from selc.runs.start_labels import Start, corrected_by, with_verdicts
from selc.runs.summary import label_summary
from selc.runs.teacher import supply_for
from selc.training import Plan, Trainer
from selc.training.metrics import headline
from selc.training.stages import check_processes
from selc.types import EvalSet, Labels, Outcome, TrainSet, accuracies
from selc.world import current


def load(config: Config) -> Bundle:
    """The data of a configuration. Of several processes one reads first, and writes what the others find prepared."""
    return prepared(current().in_turn(lambda: source(config)), config)


def execute(
    config: Config, out: Path | str, callbacks: Sequence[Callback] = (), bundle: Bundle | None = None
) -> RunFolder:
    """Run a configuration into a new folder; ``bundle`` is its data, if that was loaded before."""
    job = _job_for(config, bundle)
    bundle = job.bundle
    remarks = remarked(bundle, Callbacks(callbacks))
    start, noise = _begin(job, callbacks)
    if current().leads:
        known = (bundle.true, bundle.classes, bundle.ids, bundle.digest)
        begin = (start.target, start.rows, start.verified)
        RunFolder.create(out, config, noise, *known, *begin, remarks, bundle.inputs)
    current().barrier()
    run = RunFolder.open(out)
    job.go(run, callbacks)
    return run


def check(config: Config, out: Path | str, bundle: Bundle | None = None) -> None:
    """Refuse whatever `execute` would refuse before it trains; nothing is trained, and nothing written."""
    job = _job_for(config, bundle)
    taught = {"mean_probs", "last_probs", "supply"} & {*needs(config.noise.name)}
    if taught and not config.labels.path:  # to draw this noise, a network has to be trained
        with torch.device("meta"):
            job.net(len(job.bundle.classes))  # what is no network refuses
        check_noise(config.noise.name, config.noise.options, supply_for(job.bundle, job.net, config.train))
        _shares(job.bundle, config)
        job.check(job.bundle.labels)
    else:
        _begin(job)
    RunFolder(out).check_new()


def _begin(job: _Job | ClassifierJob, callbacks: Sequence[Callback] = ()) -> tuple[Start, Noise]:
    """The labels to train on, and how they differ from those that the data bring."""
    config, bundle = job.config, job.bundle
    C = len(bundle.classes)
    if config.labels.path:
        start = corrected_by(config.labels, bundle)
        noise = measured(bundle.labels, start.labels, C)
    else:
        epochs = config.noise.options.get("teacher_epochs", 0)
        supply = supply_for(bundle, job.net, config.train, callbacks, epochs)
        noise = draw_noise(config.noise.name, bundle.labels, C, config.train.seed, config.noise.options, supply=supply)
        start = Start(noise.labels, _shares(bundle, config))
    if config.labels.verified:
        start = with_verdicts(start, config.labels.verified, bundle)
        noise = measured(bundle.labels, start.labels, C)._replace(facts=noise.facts)
    job.check(noise.labels)
    return start, noise


def _shares(bundle: Bundle, config: Config) -> Store | None:
    """The votes of several annotators as soft labels to train on."""
    if bundle.soft is None:
        return None
    if config.noise.name != "none":
        raise ConfigError(
            f"--noise must be none where several annotators labelled the data; got {config.noise.name!r}, and the "
            "votes would not be those on the noisy labels. Leave one of both out."
        )
    return Store.of({"table": bundle.soft}, len(bundle.classes))


def begun(path: Path, config: Config) -> bool:
    """Whether there is a run of this configuration at ``path`` to go on with."""
    if not (path / "config.toml").is_file():
        return False
    return RunFolder.open(path).config.fingerprint("") == config.fingerprint("")


def resume(
    path: Path | str, callbacks: Sequence[Callback] = (), bundle: Bundle | None = None, *, trust: bool = False
) -> RunFolder:
    """Go on with a run that was interrupted, to the same bits as without; a finished one is left as it is.

    Parameters
    ----------
    path : path
        The run folder.
    callbacks : sequence of Callback, optional
        As of `selc.fit`.
    bundle : Bundle, optional
        Its data, if they are loaded already.
    trust : bool, default False
        Lets the module be imported that the folder names as its network, method or metric, which runs its code.

    Returns
    -------
    RunFolder

    Raises
    ------
    RunFolderError
        If it is no run, or one that was started with arrays: then call `selc.fit` again with ``resume=True``.

    Examples
    --------
    >>> import tempfile
    >>> from typer.testing import CliRunner
    >>> import selc
    >>> from selc.cli import app
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = f"{folder.name}/run"
    >>> CliRunner().invoke(app, ["train", "moons", "--method", "ce", "--epochs", "1", "--out", run]).exit_code
    0
    >>> selc.resume(run).finished  # or `selc resume RUN`
    True
    >>> folder.cleanup()
    """
    run = RunFolder.open(path)
    if not run.finished:
        run.check_resumable()
    config = run.config
    if config.data.name == ARRAYS:
        raise RunFolderError(
            f"{run.path} must be a run on data by name to be resumed here; it was started from Python with arrays, "
            "which are not in the folder. Call selc.fit with the same arguments and resume=True."
        )
    if not current().broadcast(run.finished):
        config.check_trusted(run.path, trust, measures=True)
        _job_for(config, bundle).go(run, callbacks)
    return run


def _job_for(config: Config, bundle: Bundle | None) -> _Job | ClassifierJob:
    """With a network, or with a classifier of scikit-learn in its place."""
    if is_classifier_name(config.net.name):
        return ClassifierJob(config, bundle or load(config))
    return _Job(config, bundle)


class _Job:
    """A configuration turned into objects: whatever is wrong with it shows before a folder is made."""

    def __init__(self, config: Config, bundle: Bundle | None = None) -> None:
        self.config = config
        self.plan = config.train
        self.method = create_method(config.method.name, config.method.options)
        self.bundle = bundle or load(config)
        Trainer(self.plan, self.net, val=self.bundle.val)
        with torch.device("meta"):
            self.plan.make_optimizer(self.method.build(self.net, len(self.bundle.classes)))

    def net(self, outputs: int) -> nn.Module:
        return create_net(self.config.net.name, outputs, self.bundle.shape, self.config.net.options)

    def check(self, given: Tensor) -> None:
        """Refuse a method that cannot be trained on these labels."""
        data = TrainSet(self.bundle.inputs, Labels(given, len(self.bundle.classes)))
        check_processes(self.method, self.plan, len(data))
        self.method.check(data, self.plan.of_stage())

    def go(self, run: RunFolder, callbacks: Sequence[Callback]) -> None:
        """Train on the labels in the folder; what was saved there is not trained again."""
        run.check_data(self.bundle.digest, len(self.bundle.labels))
        soft = run.given_targets()
        labels = Labels(run.given if soft is None else soft, len(self.bundle.classes))
        bundle = self.bundle
        data = TrainSet(bundle.inputs, labels, run.rows, run.verified, groups=bundle.groups, time=bundle.time)
        fingerprint = self.config.fingerprint(label_digest(labels.hard))
        tests = self.bundle.tests
        train_into(
            run,
            self.method,
            self.net,
            data,
            self.plan,
            tests=tests,
            val=self.bundle.val,
            fingerprint=fingerprint,
            callbacks=callbacks,
        )


def train_into(
    run: RunFolder,
    method: Method,
    net: Callable[[int], nn.Module],
    data: TrainSet,
    plan: Plan,
    *,
    tests: Mapping[str, EvalSet],
    fingerprint: str,
    callbacks: Sequence[Callback] = (),
    val: EvalSet | None = None,
) -> Outcome:
    """Train in a run folder, which one of the processes writes; what was finished there before is not done again."""
    began, world = time.perf_counter(), current()
    if world.leads:
        sweep(run.path)  # what killed processes left; the others wait at the next line
    finished = world.broadcast(run.finished)
    ours = [MetricsFile(run), *callbacks] if world.leads else [Silent()]
    if not finished:
        Callbacks(ours).on_run_begin(run.path)
    trainer = Trainer(plan, net, tests=tests, val=val, folder=run.path, fingerprint=fingerprint, callbacks=ours)
    outcome = whole(trainer.fit(method, data))
    if not finished and world.leads:
        analysis = analyse(outcome, run.given, len(run.classes), run.settled)
        outcome = replace(outcome, corrected=analysis.corrected)
        summary = summarise(run, outcome, plan, time.perf_counter() - began, analysis)
        run.write_results(outcome, summary, analysis)
        Callbacks(ours).on_run_end(summary, run.path)
    world.barrier()
    return outcome


def whole(outcome: Outcome) -> Outcome:
    """An outcome that a process can read without the others."""
    return replace(outcome, target=gathered(outcome.target), probs=gathered(outcome.probs))


def gathered(store: Store) -> Store:
    """A table whose rows are spread over the processes as one that holds all of them, in every process."""
    if store.owned is None:
        return store
    whole = Store(store.rows, store.columns, form="dense" if store.form == "disk" else store.form).to(store.device)
    rows = {name: current().gather_rows(store.owned.cpu(), t.cpu(), len(store)) for name, t in store.tensors().items()}
    whole.load(torch.arange(len(store)), rows)
    return whole


def summarise(run: RunFolder, outcome: Outcome, plan: Plan, seconds: float, analysis: LabelAnalysis) -> dict[str, Any]:
    """The results, with how they came about."""
    last = outcome.history[-1]
    corrected = outcome.corrected_labels.cpu()
    epochs = {e["epoch"]: e for e in run.history() if e["stage"] == last["stage"]}
    picked = last["epoch"]
    if plan.pick == "best-val":
        picked = max(epochs, key=lambda e: (headline(epochs[e]["val"]), -e))
    summary: dict[str, Any] = {
        "pick": plan.pick,
        "epoch": picked,
        "accuracy": accuracies(epochs[picked]),
        "changed": float((corrected != run.given).float().mean()),
        "seconds_this_session": round(seconds, 3),
        "seconds_training": round(sum(e["seconds"] for e in run.history()), 3),
    }
    return summary | label_summary(run, corrected, analysis)


class MetricsFile(Callback):
    """Writes metrics.jsonl after each epoch."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    def on_epoch_saved(self, record: EpochRecord) -> None:
        self.run.write_metrics(record.entry)
