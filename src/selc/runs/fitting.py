"""One call for whoever has arrays, a DataFrame or a dataset in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selc.analysis import analyse
from selc.callbacks import Callback, Callbacks, with_trackers
from selc.data import ArrayInputs, DatasetInputs, Recipe
from selc.data.dealing import groups_of, times_of, verified_rows
from selc.data.image_cache.cache import cache_folder
from selc.data.inputs.torch_datasets import labels_of
from selc.data.preprocess.coding import Cells, Coding
from selc.data.preprocess.features import FeatureInputs, Scale
from selc.data.preprocess.labels import bad_labels, class_names, encode, is_missing, tidied
from selc.data.preprocess.text_encoder import TF_IDF, chosen_encoder
from selc.data.sources.annotators import Votes, votes_by_column
from selc.data.sources.feature_table import notes_on_empty_texts
from selc.data.sources.frames import (
    TEXT,
    frame_cells,
    frame_numbers,
    is_frame,
    is_plain,
    is_texts,
    split_frame,
    text_cells,
)
from selc.data.sources.recognise import suits
from selc.encoders import NONE, Encoding, choice_of
from selc.encoders import encode as encode_images
from selc.errors import ConfigError, InputError
from selc.memory.store import Store
from selc.methods import METHODS, Method
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise.base import measured
from selc.registry import keyword_options
from selc.runs.config import ARRAYS, Choice, Config, resolve_plan
from selc.runs.encoder_choice import AUTO, suitable
from selc.runs.folder import RunFolder
from selc.runs.job import train_into, whole
from selc.runs.preprocessing import write_inputs
from selc.training import Trainer
from selc.training.metrics import chosen
from selc.types import EvalSet, Inputs, Labels, Outcome, TrainSet
from selc.world import current

_SEVERAL = (
    " Several labels of a sample (multi-label, tokens) are not supported; those of several annotators are, with "
    "annotators=True."
)
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
    x : array, Tensor, list of str, DataFrame, map-style dataset or dataset of Hugging Face
        The samples, [N, ...]. A DataFrame may have columns of text and gaps, like a table.
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
    tests : mapping of str to pairs ``(x, labels)`` or datasets, optional
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
    >>> generator = torch.Generator().manual_seed(0)
    >>> true = torch.arange(200) % 2
    >>> x = torch.randn(200, 2, generator=generator) + 4 * true[:, None]
    >>> given = torch.where(torch.arange(200) % 5 == 0, 1 - true, true)
    >>> outcome = selc.fit(x, given, epochs=10, batch_size=20, options={"start": 4})
    >>> bool((outcome.corrected_labels == true).float().mean() > 0.95)
    True
    """
    callbacks = with_trackers(callbacks, tracker if current().leads else None)
    votes = _votes(labels, Callbacks(callbacks)) if annotators else None
    if encoder is not None and not _from_hub(x):
        raise ConfigError(f"encoder is for the images of a Hugging Face dataset; got x of type {type(x).__name__}.")
    by = encoder or (AUTO if net is None else NONE)
    given = labels if votes is None else _as_numbers(votes.labels)
    samples = _samples(x, given, tests or {}, val, Callbacks(callbacks), text_model, by)
    count = num_classes or len(samples.classes) or (int(samples.labels.max()) + 1 if samples.labels.numel() else 0)
    classes = _names(samples.classes, count)
    rows = len(samples.labels)
    data = TrainSet(
        samples.inputs,
        Labels(samples.labels if votes is None else Store.of({"table": votes.soft(classes)}, count), count),
        held=verified_rows(verified, rows),
        groups=groups_of(groups, rows),
        time=times_of(time, rows),
    )
    chosen_method = _method(method, options)
    plan = resolve_plan(train, samples.recipe)
    chosen(plan.metrics)  # says what is wrong before a folder is made
    shape = tuple(next(iter(samples.inputs.stream([torch.tensor([0])], None))).shape[1:])
    net = net if net is not None else samples.recipe.net
    factory = _factory(net, shape, net_options)
    if out is None:
        trainer = Trainer(plan, factory, tests=samples.tests, val=samples.val, callbacks=callbacks)
        Callbacks(callbacks).on_run_begin(None)
        return _described(whole(trainer.fit(chosen_method, data)), samples, data, classes, Callbacks(callbacks))
    config = Config(
        data=Choice(name=ARRAYS),
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
            RunFolder.create(out, config, noise, None, classes, samples.ids, target=soft, held=data.held)
        write_inputs(run.path, samples.inputs)
    current().barrier()
    outcome = train_into(
        run,
        chosen_method,
        factory,
        data,
        plan,
        tests=samples.tests,
        val=samples.val,
        fingerprint=config.fingerprint(noise.digest),
        callbacks=callbacks,
    )
    return _described(outcome, samples, data, classes, None)


@dataclass(frozen=True)
class _Samples:
    """What the caller has handed in, in the forms that the training takes."""

    inputs: Inputs
    labels: Tensor
    classes: tuple[str, ...] = ()  # their names, where they have any
    tests: Mapping[str, EvalSet] = field(default_factory=dict)
    val: EvalSet | None = None
    recipe: Recipe = field(default_factory=Recipe)
    ids: list[str] | None = None


def _samples(
    x: Any,
    labels: Any,
    tests: Mapping[str, Any],
    val: Any,
    callbacks: Callbacks,
    text_model: str,
    encoder: str = NONE,
) -> _Samples:
    if _from_hub(x):
        return _hub_samples(x, labels, tests, val, callbacks, encoder)
    inputs, written = _pair(x, labels, text_model=text_model)
    numbers, classes = _labels(written)

    def eval_set(name: str, given: Any) -> EvalSet:
        column = labels if isinstance(labels, str) else None
        rows, written = given if isinstance(given, tuple) else (given, column)
        part, answers = _pair(rows, written, inputs)
        return EvalSet(part, _labels(answers, classes, name)[0])

    others = {name: eval_set(name, given) for name, given in tests.items()}
    recipe = Recipe()
    if is_texts(x) and isinstance(inputs, FeatureInputs) and inputs.coding is not None:
        recipe = suits(len(numbers))
        for note in notes_on_empty_texts(inputs.coding, text_cells(x)):
            callbacks.notice(note)
    return _Samples(inputs, numbers, classes, others, eval_set("val", val) if val is not None else None, recipe)


def _votes(labels: Any, callbacks: Callbacks) -> Votes:
    """Labels by several annotators, [N, A]; a DataFrame names them."""
    values = labels.to_numpy() if is_frame(labels) else np.asarray(labels)
    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError(
            f"labels by several annotators must be [N, A], a column for each of two or more; got shape "
            f"{list(values.shape)}."
        )
    names = labels.columns if is_frame(labels) else range(1, values.shape[1] + 1)
    votes = votes_by_column({str(name): values[:, k].tolist() for k, name in enumerate(names)})
    for note in votes.notes():
        callbacks.notice(note)
    return votes


def _as_numbers(labels: list[str]) -> list[int] | list[str]:
    """Labels that are numbers of classes as such, as if they had been given alone."""
    return [int(label) for label in labels] if all(label.isdecimal() for label in labels) else labels


def _pair(x: Any, labels: Any, like: Inputs | None = None, text_model: str = TF_IDF) -> tuple[Inputs, Any]:
    """Inputs, and the labels as they were written; other sets are treated ``like`` the inputs of the training."""
    if isinstance(x, torch.utils.data.Dataset):
        if not hasattr(x, "__len__"):
            raise InputError("a dataset must give rows by number; got one that can only be walked through.")
        return DatasetInputs(x), labels_of(x) if labels is None else labels
    if is_frame(x):
        names = list(x.columns)
        if labels is None or isinstance(labels, str):
            labels, names = split_frame(x, labels)
        if isinstance(like, FeatureInputs):
            return _coded(frame_cells(x, like.coding), like), labels
        if like is None and len(set(names)) == len(names) and not is_plain(x, names):
            return _coded(frame_cells(x, columns=names), None, text_model), labels
        return ArrayInputs(torch.from_numpy(frame_numbers(x, names).astype(np.float32))), labels
    of_texts = isinstance(like, FeatureInputs) and like.coding is not None and like.coding.inputs == (TEXT,)
    if isinstance(like, FeatureInputs) and not (of_texts and is_texts(x)):
        wanted = "a list of texts" if of_texts else "a DataFrame"
        raise InputError(
            f"a test set must be {wanted} like the data, which have columns of text or gaps; got {type(x).__name__}."
        )
    if labels is None:
        raise InputError(f"labels must be given, one per sample; got none beside x, which is {type(x).__name__}.")
    if is_texts(x) and (like is None or of_texts):
        return _coded(text_cells(x), like if isinstance(like, FeatureInputs) else None, text_model), labels
    try:
        tensor = torch.as_tensor(x, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(x).__name__
        raise InputError(f"x must be an array of numbers or a torch dataset; got {kind}: {error}.") from None
    return ArrayInputs(tensor), labels


def _coded(cells: Cells, like: FeatureInputs | None, text_model: str = TF_IDF) -> FeatureInputs:
    """Columns with text or gaps, by the rules for tables; ``like`` what was made of the training rows."""
    if like is not None and like.coding is not None:
        coding, scale = like.coding, like.scale
        x = coding.apply(cells)
    else:
        free = any(column.dtype.kind == "O" for column in cells.values())
        coding, x = Coding.learnt(cells, chosen_encoder(text_model) if free else None)
        scale = Scale.of(x, coding.measured, coding.names)
    return FeatureInputs(scale.apply(x, coding.names), scale, coding.names, coding)


def _labels(labels: Any, classes: tuple[str, ...] | None = None, what: str = "") -> tuple[Tensor, tuple[str, ...]]:
    """Numbers of classes, and the names of these where labels are names.

    ``classes`` are those of the training set, for other sets: what is numbered there is numbered here.
    """
    values = labels if isinstance(labels, Tensor) else _array(labels)
    _refuse_gaps(values, what or "the data")
    if isinstance(values, Tensor) or not _are_names(values):
        if classes:
            raise InputError(f"the labels of {what} must be names like those of the data; got numbers.")
        return _whole(values), ()
    if classes == ():
        raise InputError(f"the labels of {what} must be numbers like those of the data; got names.")
    if values.ndim != 1 or not values.size:
        raise InputError(f"labels must be a non-empty vector [N]; got shape {values.shape}.{_SEVERAL}")
    written = tidied(values.tolist())
    bad_labels(written, classes, what or "the data", lambda row: f"in row {row}", skip_bad=False)
    known = classes or class_names(written)
    return encode(written, known), known


def _refuse_gaps(labels: Tensor | np.ndarray[Any, Any], what: str) -> None:
    """Refuse labels of which some are not there: NaN, None, or what pandas writes for it."""
    if isinstance(labels, Tensor):
        gaps = labels.isnan().cpu().numpy()  # whole numbers have none
    elif labels.dtype.kind == "f":
        gaps = np.isnan(labels)
    elif labels.dtype.kind in "OUT":
        gaps = np.array([is_missing(text) for text in tidied(labels.flat)], dtype=bool).reshape(labels.shape)
    else:
        return
    if gaps.any():
        raise InputError(
            f"every row of {what} must have a label; got {int(gaps.sum())} of {len(labels)} without, first in row "
            f"{int(np.argwhere(gaps)[0][0])}. Fill it in, or leave such rows out."
        )


def _whole(labels: Tensor | np.ndarray[Any, Any]) -> Tensor:
    """Labels that are numbers as int64: true and false are 1 and 0, and 1.0 is 1."""
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind not in "biuf":
            kind = type(labels.flat[0]).__name__ if labels.dtype.kind == "O" and labels.size else str(labels.dtype)
            raise InputError(f"labels must be integers or names, one per sample; got values of type {kind}.")
        labels = torch.from_numpy(labels)
    if labels.is_floating_point():
        broken = ((labels != labels.floor()) | (labels.abs() >= 2**31)).nonzero()
        if len(broken):
            first = tuple(broken[0].tolist())
            raise InputError(
                f"labels must be integers or names; got {labels[first].item():g} in row {first[0] if first else 0}. "
                "Measurements are no classes: turn them into such first."
            )
    if labels.is_complex():
        raise InputError(f"labels must be integers or names, one per sample; got values of type {labels.dtype}.")
    return labels.long()


def _array(labels: Any) -> np.ndarray[Any, Any]:
    try:
        values = np.array(labels)  # a copy: what pandas hands out may not be written to, which torch warns about
        if values.dtype.kind == "O" and values.size:
            if all(isinstance(value, int) for value in values.flat):
                return values.astype(np.int64)
            if all(isinstance(value, int | float | np.number) for value in values.flat):
                return values.astype(np.float64)
        return values
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        kind = type(labels).__name__
        raise InputError(f"labels must be integers or names, one per sample; got {kind}: {error}.{_SEVERAL}") from None


def _are_names(values: np.ndarray[Any, Any]) -> bool:
    kind = values.dtype.kind
    return kind in "UST" or (kind == "O" and any(isinstance(value, str) for value in values.flat))


def _from_hub(x: Any) -> bool:
    """A dataset of Hugging Face, or a dictionary of such: by where its class comes from, which imports nothing."""
    return any(kind.__module__.split(".")[0] == "datasets" for kind in type(x).__mro__)


def _hub_samples(
    x: Any, labels: Any, tests: Mapping[str, Any], val: Any, callbacks: Callbacks, encoder: str
) -> _Samples:
    from selc.data.sources.hub import hub_bundle
    from selc.data.sources.table_columns import Columns

    if labels is not None and not isinstance(labels, str):
        raise InputError("labels of a Hugging Face dataset must be the name of a column; got an array. Add a column.")
    parts = dict(x) if isinstance(x, Mapping) else {"train": x}
    parts |= {**tests, **({"val": val} if val is not None else {})}
    if strange := [name for name, part in parts.items() if not _from_hub(part)]:
        raise InputError(f"{strange[0]} must be a Hugging Face dataset like the data, which is treated the same way.")
    bundle = hub_bundle(parts, Columns(label=labels or ""))
    chosen = suitable({"data": "hub", "encoder": encoder if encoder == AUTO else choice_of(encoder)}, bundle)
    if chosen.told:
        callbacks.notice(chosen.told)
    if chosen.encoder["name"] != NONE:
        name = chosen.encoder["name"]
        callbacks.on_message(f"Images are seen through the encoder {name} (encoder='none': as they are).")
        device = resolve_plan({}, Recipe()).torch_device()
        bundle = encode_images(bundle, Encoding.of(bundle, chosen.encoder, device=device, cache=cache_folder()))
    for note in bundle.notes:
        callbacks.notice(note)
    assert bundle.recipe is not None
    ids = None if bundle.ids is None else list(bundle.ids)
    return _Samples(bundle.inputs, bundle.labels, bundle.classes, bundle.tests, bundle.val, bundle.recipe, ids)


def _names(classes: tuple[str, ...], count: int) -> tuple[str, ...]:
    """A name for each of ``count`` classes; those that the data does not show are called by their number."""
    return classes + tuple(str(k) for k in range(len(classes), count))


def _described(
    outcome: Outcome, samples: _Samples, data: TrainSet, classes: tuple[str, ...], callbacks: Callbacks | None
) -> Outcome:
    """The outcome with the names of its classes, and what it says of each label.

    ``callbacks`` are told of the result, unless they were already.
    """
    outcome.classes, outcome.named = classes, bool(samples.classes)
    names = np.array(classes, dtype=np.str_) if outcome.named else np.arange(len(classes))
    ids = np.arange(len(data)) if samples.ids is None else np.array(samples.ids, dtype=np.str_)
    analysis = analyse(outcome, data.labels.hard, len(classes), data.held)
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
    options = {key: getattr(method, key) for key in keyword_options(type(method))}
    return {k: v if isinstance(v, str | int | float | bool | list) else repr(v) for k, v in options.items()}
