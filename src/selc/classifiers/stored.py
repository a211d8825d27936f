"""A fitted classifier in a run folder, without a pickle: the rows and labels that it was fitted on.

Scikit-learn keeps classifiers as pickles, which may run any code when they are opened; nothing here ever opens one. The
name, the options and the seed are in the configuration, the rows are here, and to fit them again gives the same
classifier. What it said of these rows is kept as well, so that another version of scikit-learn shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.files import read_tensors, write_tensors
from selc.classifiers.folds import Rows, fitted, probabilities
from selc.errors import RunFolderError

FILE = "fitted_on.safetensors"
SAME = 1e-3  # of a probability: as far as one fit may be from another by rounding


def write_fit(folder: Path, x: Any, labels: Tensor, probs: Tensor) -> None:
    """Write the rows [N, D] that a classifier was fitted on, their labels [N], and what it says of them [N, C]."""
    rows = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    write_tensors(folder / FILE, {"x": rows, "labels": labels, "probs": probs.float()})


def fitted_again(folder: Path, classifier: Any) -> Any:
    """The classifier of a run folder: ``classifier``, fitted as it was then."""
    kept = read_tensors(folder / FILE)
    x, num_classes = kept["x"].numpy(), kept["probs"].shape[1]
    data = Rows(x, kept["labels"], num_classes)
    model = fitted(classifier, data, np.arange(len(x)), kept["labels"].numpy())
    apart = float(np.abs(probabilities(model, x, num_classes) - kept["probs"].numpy()).max())
    if apart > SAME:
        raise RunFolderError(
            f"{folder / FILE} must give the classifier of the run when it is fitted again; got probabilities that are "
            f"{apart:.2g} apart. Take the version of scikit-learn that made it (environment.json), or train again."
        )
    return model
