"""A fitted classifier in a file. It is a pickle, which may run any code when it is read: so only with a word of trust.

Scikit-learn has no other form that holds every classifier. What is written is the classifier and the version of
scikit-learn; what else a run folder holds is plain text and arrays, and needs no trust.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

from selc._io.files import in_short, write_bytes
from selc.errors import ConfigError, RunFolderError

FILE = "model.pickle"


def write_model(folder: Path, classifier: Any) -> None:
    """Write a classifier into the folder of a run."""
    try:
        data = pickle.dumps(classifier)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the classifier must be one that can be pickled, to be kept in {folder}; got: {in_short(error)}."
        ) from None
    write_bytes(folder / FILE, data)


def read_model(folder: Path, trust: bool) -> Any:
    """The classifier back; ``trust`` is the word of the user, without which the file is not opened."""
    path = folder / FILE
    if not trust:
        raise ConfigError(
            f"{path} is a pickle, and to read it may run code of whoever wrote it; got no --trust (trust=True). Give "
            "it if you know where the folder comes from."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return pickle.loads(path.read_bytes())  # noqa: S301  (the user has said that the folder is trusted)
    except Warning as warning:
        raise RunFolderError(
            f"{path} must be read with the version of scikit-learn that wrote it; got: {in_short(warning)}."
        ) from None
    except Exception as error:  # whatever a broken or another pickle raises
        raise RunFolderError(f"{path} must hold the classifier of the run; got: {in_short(error)}.") from None
