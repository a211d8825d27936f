"""The one door of the data of a configuration: a source, and what its preprocessor makes of it.

`source` reads items, labels and ids, and hands out items as a person sees them. `prepared` makes rows for the loop of
them: with an encoder, its features; else what the source brings is what the network is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from selc.callbacks import Callbacks
from selc.data import DATASETS, Bundle, Recipe
from selc.data.image_cache.cache import cache_folder
from selc.data.preprocess.features import FeatureInputs
from selc.data.preprocess.labels import bad_labels
from selc.data.preprocess.labels import encode as numbered
from selc.data.sources.hub import hub_bundle
from selc.data.sources.objects import object_bundle
from selc.data.sources.recognise import choice_for
from selc.data.sources.table_columns import Columns
from selc.encoders import NONE, Encoding, choice_of, encode
from selc.errors import InputError
from selc.runs.config import Choice, Config, resolve_plan
from selc.runs.encoder_choice import AUTO, suitable
from selc.runs.folder import RunFolder
from selc.runs.preprocessing import stored_inputs
from selc.types import EvalSet


def source(config: Config) -> Bundle:
    """The data as they are: for a person to look at, or to prepare."""
    choice = config.data
    if choice.name == "npz" and (test := str(choice.options.get("test", ""))) and Path(test).suffix != ".npz":
        found = DATASETS["npz"](**{**choice.options, "test": ""})
        return replace(found, tests={**found.tests, "test": _photographs(found, test)})
    return DATASETS[choice.name](**choice.options)


def prepared(found: Bundle, config: Config) -> Bundle:
    """The same as rows for the loop."""
    encoding = encoding_of(found, config)
    return found if encoding is None else encode(found, encoding)


def encoding_of(found: Bundle, config: Config) -> Encoding | None:
    """What makes rows of the images of a source; None where these are what the network is shown."""
    if config.encoder.name == NONE:
        return None
    cache = cache_folder(str(config.data.options.get("cache", "auto")))
    return Encoding.of(found, config.encoder.model_dump(), device=config.train.torch_device(), cache=cache)


class HandedOver(NamedTuple):
    """What a program trains on, and how a configuration would name it."""

    bundle: Bundle
    data: Mapping[str, Any]  # empty for objects in memory
    encoder: Mapping[str, Any]


def handed_over(
    x: Any, labels: Any, others: Mapping[str, Any], text_model: str, encoder: str, say: Callbacks
) -> HandedOver:
    """Objects in memory; or a path or a dataset of Hugging Face, as `selc train` takes them."""
    if not (isinstance(x, str | Path) or _from_hub(x)):
        return HandedOver(object_bundle(x, labels, others, text_model), {}, {"name": NONE})
    if labels is not None and not isinstance(labels, str):
        what = "a path" if isinstance(x, str | Path) else "a Hugging Face dataset"
        raise InputError(f"labels of {what} must be the name of a column; got an array. Add a column.")
    if isinstance(x, str | Path):
        data = _at(x, labels, others, text_model)
        found = DATASETS[data["name"]](**{key: value for key, value in data.items() if key != "name"})
    else:
        parts = {**(x if isinstance(x, Mapping) else {"train": x}), **others}
        if strange := [name for name, part in parts.items() if not _from_hub(part)]:
            raise InputError(
                f"{strange[0]} must be a Hugging Face dataset like the data, which is treated the same way."
            )
        data, found = {"name": "hub"}, hub_bundle(parts, Columns(label=labels or ""))
    chosen = suitable({"data": data, "encoder": encoder if encoder == AUTO else choice_of(encoder)}, found)
    if chosen.told:
        say.notice(chosen.told)
    if (name := chosen.encoder["name"]) != NONE:
        say.on_message(f"Images are seen through the encoder {name} (encoder='none': as they are).")
        device = resolve_plan({}, Recipe()).torch_device()
        found = encode(found, Encoding.of(found, chosen.encoder, device=device, cache=cache_folder()))
    return HandedOver(found, data, chosen.encoder)


def _from_hub(x: Any) -> bool:
    """A dataset of Hugging Face, or a dictionary of such: by where its class comes from, which imports nothing."""
    return any(kind.__module__.split(".")[0] == "datasets" for kind in type(x).__mro__)


def _at(path: Path | str, label: str | None, others: Mapping[str, Any], text_model: str) -> dict[str, Any]:
    """The section ``data`` of a configuration for a path; of the options, those that such data have."""
    places = {name: str(place) for name, place in others.items()}
    more = {"label_column": label, "text_model": None if text_model == AUTO else text_model}
    section = choice_for(str(path), **places, **more)
    name = section.pop("name")
    return {"name": name, **DATASETS.checked(name, {**DATASETS.defaults(name), **section})}


def _photographs(found: Bundle, place: str) -> EvalSet:
    """Photographs as a test set of a file of features, by the encoder that made it."""
    inputs = found.inputs
    if not isinstance(inputs, FeatureInputs) or inputs.how.encoding is None:
        raise InputError(
            f"--test must be an .npz file like the data; got {place}, and the data do not say which encoder made them. "
            "Make them by `selc embed`, or train on the photographs themselves."
        )
    state, arrays = inputs.how.encoding.state(), inputs.how.encoding.arrays()
    section = choice_for(place)
    if section["name"] not in ("folder", "table", "hub"):
        raise InputError(f"--test must be an .npz file, or photographs in class folders; got {place}.")
    height, width = state.get("stored", (0, 0))
    if height != width or height == 0:
        raise InputError(f"--test must be an .npz file like the data; got {place}. Make it by `selc embed`.")
    options = {key: value for key, value in section.items() if key != "name"}
    test: Bundle = DATASETS[section["name"]](**options, size=height, resize=state["resize"])
    names = [test.classes[label] for label in test.labels.tolist()]
    bad_labels(names, found.classes, "test", lambda row: f"for {(test.ids or names)[row]}", skip_bad=False)
    encoding = Encoding.from_state(state, arrays, cache=cache_folder())
    return EvalSet(replace(inputs.how, encoding=encoding).apply(test.inputs), numbered(names, found.classes))


def origin_of(run: RunFolder) -> Choice:
    """Where the samples of a run themselves are: its data, or what its file of features was made from."""
    config = run.config
    data = (stored_inputs(run.path) or {}).get("encoding", {}).get("data") if config.data.name == "npz" else None
    return Choice(**data) if data else config.data
