"""One call for whoever has arrays, a DataFrame or a dataset in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from selc.analysis import analyse
from selc.callbacks import Callback, Callbacks, with_trackers
from selc.data import Bundle, Recipe
from selc.data.dealing import groups_of, times_of, verified_rows
from selc.data.sources.objects import as_numbers, votes_of
from selc.encoders import NONE
from selc.errors import ConfigError
from selc.memory.store import Store
from selc.methods import METHODS, Method
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise.base import measured
from selc.registry import keyword_options
from selc.runs.config import ARRAYS, Choice, Config, resolve_plan
from selc.runs.door import handed_over
from selc.runs.encoder_choice import AUTO
from selc.runs.folder import RunFolder
from selc.runs.job import train_into, whole
from selc.runs.preprocessing import write_inputs
from selc.runs.remarks import remarked
from selc.training import Trainer
from selc.training.metrics import chosen
from selc.types import Labels, Outcome, TrainSet
from selc.world import current

Net = str | nn.Module | Callable[[int], nn.Module]


def fit(
    x: Any,
    labels: Any = None,
    *,
    method: str | Method = "selc",
    options: Mapping[str, Any] | None = None,
    net: Net | None = None,
    encoder: str | None = None,
    net_options: Mapping[str, Any] | None = None,
    num_classes: int | None = None,
    tests: Mapping[str, Any] | None = None,
    val: Any = None,
    verified: Any = None,
    groups: Any = None,
    time: Any = None,
    text_model: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    tracker: Any = None,
    annotators: bool = False,
    **train: Any,
) -> Outcome:
    """Train on ``x`` with noisy ``labels``; get the model and the labels it believes.

    Parameters
    ----------
    x : array, Tensor, list of str, DataFrame, map-style dataset, dataset of Hugging Face or path
        The samples, [N, ...]. A DataFrame may have columns of text and gaps, like a table. A path is whatever
        ``selc train`` takes, and is treated alike.
    labels : array-like, shape [N], or str, optional
        Numbers from 0, or names (numbered in their order, see ``outcome.classes``). They may be left out where ``x``
        brings them: a dataset that yields ``(x, y)``, a DataFrame with a column ``label`` (or give its name).
    method : str or Method, default "selc"
        A name (``selc list methods``) with its ``options``, or an object.
    options : mapping, optional
        Of a method that is given by name.
    net : str, nn.Module or callable, optional
        A name (``selc list nets``) with its ``net_options``, a module (copied, not changed), or a function of the
        number of outputs. By default what suits the data.
    net_options : mapping, optional
        Of a network that is given by name.
    encoder : str, optional
        Makes features of the images of a Hugging Face dataset: a name (``selc list encoders``), by default the best
        that is installed unless a ``net`` is given, or "none".
    num_classes : int, optional
        Where not every class has a label.
    tests : mapping of str to pairs ``(x, labels)``, datasets or paths, optional
        Measured after each epoch; never trained on.
    val : pair ``(x, labels)`` or dataset, optional
        A validation set, whose labels may be noisy: correction is decided by it, and nothing else is held out.
    verified : array of int or of bool [N], optional
        Rows whose labels a person has checked: these labels never change.
    groups : array-like, shape [N], optional
        Rows of one group are never split between what is trained on and what judges.
    time : array-like, shape [N], optional
        When each row was taken: each stretch of it is judged by the others.
    out : path, optional
        Run folder to write; every epoch is saved.
    resume : bool, default False
        Go on with the run in ``out``, with the same arguments.
    callbacks : sequence of Callback, optional
        Hear of each epoch, and may end a stage; see `selc.Callback`.
    text_model : str, default "auto"
        What reads texts: "tf-idf", "minilm", or a folder with a BERT in Hugging Face's format; by default MiniLM if it
        is installed.
    tracker : str, sequence or object, optional
        Where metrics and result go besides: "tensorboard", "mlflow", "wandb", several of them, or an object with
        options (`selc.integrations.trackers`).
    annotators : bool, default False
        Whether ``labels`` are [N, A], a column for each annotator (empty or None: no vote): what most say is the label,
        and the shares of the votes are trained on.
    **train
        Fields of `selc.Plan`, such as ``epochs`` and ``lr``.

    Returns
    -------
    Outcome

    Raises
    ------
    InputError
        If data or labels cannot be used.
    ConfigError
        If a setting or a name is unknown or out of range.

    Examples
    --------
    Two groups of points of which every fifth has the wrong label. ``start`` is fixed here, which takes one training;
    leave it out, and held-out rows decide when correction starts and how many labels are wrong.

    >>> import torch
    >>> import selc
    >>> generator = torch.Generator().manual_seed(1)
    >>> true = torch.arange(200) % 2
    >>> x = torch.randn(200, 2, generator=generator) + 4 * true[:, None]
    >>> given = torch.where(torch.arange(200) % 5 == 0, 1 - true, true)
    >>> outcome = selc.fit(x, given, epochs=10, batch_size=20, options={"start": 4})
    >>> bool((outcome.corrected_labels == true).float().mean() > 0.95)
    True
    """
    callbacks = with_trackers(callbacks, tracker if current().leads else None)
    votes = votes_of(labels) if annotators else None
    given = labels if votes is None else as_numbers(votes.labels)
    others = {**(tests or {}), **({"val": val} if val is not None else {})}
    by = encoder or (AUTO if net is None else NONE)
    door = handed_over(x, given, others, text_model, by, Callbacks(callbacks))
    found = door.bundle
    if votes is not None:
        found = replace(found, notes=[*found.notes, *votes.notes()])
    if encoder is not None and not door.data:
        raise ConfigError(
            f"encoder is for a path, or the images of a Hugging Face dataset; got x of type {type(x).__name__}."
        )
    count = num_classes or len(found.classes) or (int(found.labels.max()) + 1 if found.labels.numel() else 0)
    classes = _names(found.classes, count)
    rows = len(found.labels)
    data = TrainSet(
        found.inputs,
        Labels(found.labels if votes is None else Store.of({"table": votes.soft(classes)}, count), count),
        verified=verified_rows(verified, rows),
        groups=found.groups if groups is None else groups_of(groups, rows),
        time=found.time if time is None else times_of(time, rows),
    )
    chosen_method = _method(method, options)
    recipe = found.recipe or Recipe()
    plan = resolve_plan(train, recipe)
    chosen(plan.metrics)  # says what is wrong before a folder is made
    net = net if net is not None else recipe.net
    factory = _factory(net, found.shape, net_options)
    remarks = remarked(replace(found, classes=classes), Callbacks(callbacks), arrays=not door.data)
    if out is None:
        trainer = Trainer(plan, factory, tests=found.tests, val=found.val, callbacks=callbacks)
        Callbacks(callbacks).on_run_begin(None)
        outcome = whole(trainer.fit(chosen_method, data))
        outcome.remarks = remarks
        return _described(outcome, found, data, classes, Callbacks(callbacks))
    path = "path" in door.data and isinstance(net, str) and _name(chosen_method) in METHODS  # it can all be had again
    config = Config(
        data=Choice(**(door.data if path else {"name": ARRAYS})),
        encoder=Choice(**door.encoder),
        noise=Choice(name="none"),
        method=Choice(name=_name(chosen_method), **_stored_options(chosen_method)),
        net=Choice(name=net if isinstance(net, str) else _name(net), **(net_options or {})),
        train=plan,
    )
    noise = measured(data.labels.hard, data.labels.hard, count)
    run = RunFolder(out)
    if current().leads:
        if resume and (run.path / "config.toml").exists():
            if not run.finished:
                run.check_resumable()
        else:
            soft = None if votes is None else Store.of({"table": votes.soft(classes)}, count)
            known = (found.true, classes, found.ids, found.digest if path else "")
            RunFolder.create(out, config, noise, *known, target=soft, verified=data.verified, remarks=remarks)
        write_inputs(run.path, found.inputs)
    current().barrier()
    outcome = train_into(
        run,
        chosen_method,
        factory,
        data,
        plan,
        tests=found.tests,
        val=found.val,
        fingerprint=config.fingerprint(noise.digest),
        callbacks=callbacks,
    )
    outcome.remarks = remarks
    return _described(outcome, found, data, classes, None)


def _names(classes: tuple[str, ...], count: int) -> tuple[str, ...]:
    """A name for each of ``count`` classes; those that the data does not show are called by their number."""
    return classes + tuple(str(k) for k in range(len(classes), count))


def _described(
    outcome: Outcome, found: Bundle, data: TrainSet, classes: tuple[str, ...], callbacks: Callbacks | None
) -> Outcome:
    """The outcome with the names of its classes, and what it says of each label.

    ``callbacks`` are told of the result, unless they were already.
    """
    outcome.classes, outcome.named = classes, bool(found.classes)
    names = np.array(classes, dtype=np.str_) if outcome.named else np.arange(len(classes))
    ids = np.arange(len(data)) if found.ids is None else np.array(found.ids, dtype=np.str_)
    analysis = analyse(outcome, data.labels.hard, len(classes), data.verified)
    outcome.corrected = analysis.corrected
    outcome.label_issues_ = analysis.findings.columns(ids, names)
    if callbacks is not None:
        callbacks.on_run_end(analysis.as_dict(), None)
    return outcome


def _method(method: str | Method, options: Mapping[str, Any] | None) -> Method:
    if isinstance(method, str):
        return create_method(method, options)
    if options:
        raise ConfigError("options go with a method's name; got a method object, which has its own. Drop one of them.")
    return method


def _factory(net: Net, shape: tuple[int, ...], options: Mapping[str, Any] | None) -> Callable[[int], nn.Module]:
    if isinstance(net, str):
        return lambda outputs: create_net(net, outputs, shape, options)
    if options:
        raise ConfigError("net_options go with a network's name; got a network of your own. Drop one of them.")
    if isinstance(net, nn.Module):
        return lambda outputs: copy.deepcopy(net)
    return net


def _name(thing: object) -> str:
    """The registered name of a method, or where the code of another object is."""
    for name in METHODS:
        if METHODS[name] is type(thing):
            return name
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def _stored_options(method: Method) -> dict[str, Any]:
    """The options of a method object, which its constructor stored under their names."""
    constructor: Callable[..., Method] = type(method)
    options = {key: getattr(method, key) for key in keyword_options(constructor)}
    return {k: v if isinstance(v, str | int | float | bool | list) else repr(v) for k, v in options.items()}
