"""The one door of the data of a configuration: a source, and what its preprocessor makes of it.

`source` reads items, labels and ids, and hands out items as a person sees them. `prepared` makes rows for the loop of
them: with an encoder, its features; else what the source brings is what the network is shown.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selc.data import DATASETS, Bundle
from selc.data.image_cache.cache import cache_folder
from selc.data.preprocess.features import FeatureInputs
from selc.data.preprocess.labels import bad_labels
from selc.data.preprocess.labels import encode as numbered
from selc.data.sources.recognise import choice_for
from selc.encoders import NONE, Encoding, encode
from selc.errors import InputError
from selc.runs.config import Choice, Config
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


def _photographs(found: Bundle, place: str) -> EvalSet:
    """Photographs as a test set of a file of features, by the encoder that made it."""
    inputs = found.inputs
    if not isinstance(inputs, FeatureInputs) or inputs.encoding is None:
        raise InputError(
            f"--test must be an .npz file like the data; got {place}, and the data do not say which encoder made them. "
            "Make them by `selc embed`, or train on the photographs themselves."
        )
    state, arrays = inputs.encoding.state(), inputs.encoding.arrays()
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
    rows = inputs.scale.apply(encoding.apply(test.inputs))
    features = FeatureInputs(rows, inputs.scale, inputs.columns, encoding=inputs.encoding)
    return EvalSet(features, numbered(names, found.classes))


def origin_of(run: RunFolder) -> Choice:
    """Where the samples of a run themselves are: its data, or what its file of features was made from."""
    config = run.config
    data = (stored_inputs(run.path) or {}).get("encoding", {}).get("data") if config.data.name == "npz" else None
    return Choice(**data) if data else config.data
