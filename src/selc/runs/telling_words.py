"""The words of a text that speak for one class and against another, by the trained network of a run.

With f = log p(one) - log p(other) the words of a text are held against no text at all: along the straight line from the
features of the empty text to those of the text the gradients of f are averaged (integrated gradients, M. Sundararajan
et al., ICML 2017), and since features are linear in the weights of terms, each word gets its part of

    f(text) - f(empty text) = sum over words.

Other columns stay as they are. For a linear network this is gradient times input.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor, nn

from selc.data import Bundle
from selc.data.preprocess.coding import Coding
from selc.data.preprocess.features import FeatureInputs, Numbers
from selc.data.preprocess.spoken import word_weights
from selc.data.preprocess.text_column import TextColumn
from selc.errors import SelcError
from selc.methods import Method
from selc.registry import is_import
from selc.runs.folder import RunFolder
from selc.runs.predict import class_log_probs, model_of

STEPS = 32  # of the line, each in its middle
WORDS = 6  # that are told of a text
LEAST = 0.02  # of what all words for it say together: less is not worth a look


def telling_words(
    run: RunFolder, bundle: Bundle, rows: Sequence[int], one: Sequence[int], other: Sequence[int], count: int = WORDS
) -> list[list[str]]:
    """For each row the words that speak most for the class ``one`` against ``other``; none where these are the same."""
    nothing: list[list[str]] = [[] for _ in rows]
    inputs, name = bundle.inputs, run.config.net.name
    # Code of the user's own is not imported for a page: the folder may be from somebody else.
    if not isinstance(inputs, FeatureInputs) or inputs.how.coding is None or bundle.texts is None or is_import(name):
        return nothing
    blocks = _blocks(inputs.how.coding, inputs.x.shape[1])
    asked = [k for k in range(len(rows)) if one[k] != other[k]]
    if not blocks or not asked or not (run.path / "model.safetensors").is_file():
        return nothing
    with suppress(SelcError):
        net, method = model_of(run, tuple(inputs.x.shape[1:]))
        x = inputs.x[torch.tensor([rows[k] for k in asked])].float().cpu()
        pairs = torch.tensor([[one[k], other[k]] for k in asked])
        texts = bundle.texts([rows[k] for k in asked])
        for column, block in blocks:
            slopes = mean_slopes(net, method, x, block, torch.from_numpy(column.shift), pairs, len(run.classes))
            for place, k in enumerate(asked):
                said = word_weights(column, texts[column.name][place], slopes[place])
                nothing[k] += most_telling(said, count)
    return nothing


def most_telling(said: dict[str, Numbers], count: int) -> list[str]:
    """The words that speak for it, the strongest first."""
    speaking = sorted(((float(value), word) for word, value in said.items() if value > 0), key=lambda x: (-x[0], x[1]))
    enough = LEAST * sum(value for value, _ in speaking)
    return [word for value, word in speaking[:count] if value >= enough]


def mean_slopes(
    net: nn.Module, method: Method, x: Tensor, block: slice, shift: Tensor, pairs: Tensor, classes: int
) -> Numbers:
    """The mean gradient [N, D] of f by the features of a text, on the way from the empty text to rows ``x``."""
    net = net.eval().requires_grad_(False)
    empty = x.clone()
    empty[:, block] = -shift.to(x.dtype)
    total = torch.zeros_like(x[:, block], dtype=torch.float64)
    for step in range(STEPS):
        at = (empty + (x - empty) * ((step + 0.5) / STEPS)).requires_grad_(True)
        with torch.enable_grad():
            f = class_log_probs(method, net(at), classes).gather(1, pairs)
            (slope,) = torch.autograd.grad((f[:, 0] - f[:, 1]).sum(), at)
        total += slope[:, block]
    found: Numbers = (total / STEPS).numpy()
    return found


def _blocks(coding: Coding, width: int) -> list[tuple[TextColumn, slice]]:
    """The columns of text that are read by their words, and which features are theirs: the last ones, in order."""
    start = width - int(np.sum([column.width for column in coding.texts]))
    found = []
    for column in coding.texts:
        if isinstance(column, TextColumn):
            found.append((column, slice(start, start + column.width)))
        start += column.width
    return found
