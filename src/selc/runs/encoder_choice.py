"""Which encoder suits data that nobody named one for, and how long it will take.

The rule: a user's own images (a folder, a table of paths or with images, a Hugging Face dataset) of at least 32 pixels
a side go through the best encoder that is installed, unless a network or an encoder was chosen. Smaller images are no
photographs, and datasets by name are benchmarks: both keep the network that suits them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from selc.data import Bundle
from selc.data.sources.recognise import suits
from selc.encoders import NONE, Encoding, best
from selc.methods.judge import AT_MOST, LARGE, SPLITS
from selc.nets import create as create_net
from selc.runs.config import Config
from selc.world import current

OWN = ("folder", "table", "hub")  # data by name that are a user's own and may be images
SMALLEST = 32  # pixels: the shorter side from which on an image is taken for a photograph
AUTO = "auto"  # what suits the data
INSTALL = "pip install 'selc[pretrained]'"
WATCHED = 1.3  # trainings, where one part stays out: it goes on for a while after the start, and steps back
SLOW_SECONDS = 90  # in minutes from here on


class Suits(NamedTuple):
    """The encoder to take, and what to tell a person about it ("" for nothing)."""

    encoder: dict[str, Any]
    told: str = ""


def suitable(settings: Mapping[str, Any], found: Bundle) -> Suits:
    """The section ``encoder`` of a configuration for a source; what the user chose goes first."""
    given = settings.get("encoder", AUTO)
    section = {"name": given} if isinstance(given, str) else dict(given)
    if section.get("name", AUTO) != AUTO:
        return Suits(section)
    if "name" in settings.get("net", {}) or not is_photographs(settings["data"], found):
        return Suits({"name": NONE})
    name = best()
    if name is None:
        net = suits(len(found.labels), min(found.shape[1:])).net
        return Suits(
            {"name": NONE},
            f"for photographs install a trained encoder, which is better and faster: {INSTALL}; without it {net} is "
            "trained from scratch.",
        )
    return Suits({"name": name})


def is_photographs(data: Mapping[str, Any] | str, found: Bundle) -> bool:
    name = data if isinstance(data, str) else data.get("name")
    return name in OWN and found.pictures is not None and len(found.shape) == 3 and min(found.shape[1:]) >= SMALLEST


def expectation(encoding: Encoding, found: Bundle, config: Config) -> str:
    """What is going to be done, how long that takes here, and how to do otherwise."""
    sets = [found.inputs, *(part.inputs for part in found.tests.values())]
    images = sum(map(len, sets)) + (len(found.val.inputs) if found.val is not None else 0)
    missing = encoding.missing(found)
    seconds = missing * _seconds_per_image(encoding) / current().size
    plan, rows = config.train, len(found.labels)
    steps = plan.epochs * -(-rows // plan.batch_size)
    one = steps * _seconds_per_step(encoding.encoder.dims, len(found.classes), plan.batch_size, plan.threads)
    decides = config.method.name == "selc" and config.method.options.get("start") == AUTO
    training = one * (_trainings(rows, one, found.val is not None) if decides else 1)
    known = f", {images - missing:,} of which are known" if 0 < missing < images else ""
    make = f"about {_time(seconds)} to make them" if missing else "they are known from before"
    return (
        f"training on features of {images:,} images{known}, by the encoder {encoding.encoder.name}: {make}, about "
        f"{_time(training)} to train. From scratch: --net resnet18; another encoder: --encoder NAME (selc list "
        "encoders)."
    )


def _trainings(rows: int, seconds: float, validation: bool = False) -> float:
    """How many trainings of so many seconds SELC is likely to make, those by which it decides among them."""
    if not validation and rows < LARGE and (SPLITS - 1) * seconds <= AT_MOST:
        return SPLITS + 1
    return WATCHED


def _seconds_per_image(encoding: Encoding) -> float:
    encoder = encoding.encoder
    images = torch.rand(min(encoder.batch, 16), 3, encoder.size, encoder.size, device=encoder.device)
    encoder.features(images)  # the first call makes itself ready
    began = time.perf_counter()
    encoder.features(images)
    return (time.perf_counter() - began) / len(images)


def _seconds_per_step(dims: int, classes: int, batch: int, threads: int) -> float:
    """The time of a step with the threads of the training: more wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        return _timed_step(dims, classes, batch)
    finally:
        torch.set_num_threads(before)


def _timed_step(dims: int, classes: int, batch: int) -> float:
    with torch.random.fork_rng(devices=[]):
        net, x = create_net("mlp", classes, (dims,)), torch.randn(batch, dims)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0, momentum=0.9)
    labels = torch.zeros(batch, dtype=torch.long)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), labels).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _time(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < SLOW_SECONDS else f"{seconds / 60:.0f} min"
