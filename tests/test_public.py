"""What is public: the list of names, and that each says in its docstring what it takes and how it is used.

The examples themselves are run in `test_docstrings.py`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import selc

# A name that is added here is a promise; one that is to go is deprecated first (CONTRIBUTING.md, "Deprecate").
PUBLIC = {
    *("fit", "resume", "SELCClassifier", "Outcome", "Config", "Plan", "RunFolder"),
    *("SELCLoss", "IndexedDataset", "HeldOut", "Recorder", "Watcher", "soft_cross_entropy"),
    *("LabelAnalysis", "analyse_probabilities", "separation", "turning_point"),
    *("Method", "Store", "Callback", "EpochRecord"),
    *("SelcError", "InputError", "ConfigError", "TrainingError", "RunFolderError"),
}
FILLED_BY_SELC = {"Outcome", "LabelAnalysis", "Config"}  # nobody calls these: their attributes are what counts
SELF_EXPLANATORY = {"self", "args", "kwargs"}


def sections(text: str) -> dict[str, str]:
    """The sections of a numpydoc docstring by their titles; what comes before the first is ''."""
    parts = re.split(r"^([A-Z][a-z]+)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(section: str) -> set[str]:
    """The names that a section of parameters or attributes describes."""
    heads = [line.split(":")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    return {name.strip(" *`") for head in heads for name in head.split(",")}


def test_the_public_names_are_those_of_the_list() -> None:
    assert set(selc.__all__) == PUBLIC
    assert list(selc.__all__) == sorted(selc.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_is_found_and_has_sections_and_an_example(name: str) -> None:
    thing: Any = getattr(selc, name)
    assert name in dir(selc)
    found = sections(thing.__doc__)
    assert len(found[""].strip()) > 20, "the first lines say what it is"
    assert ">>>" in found.get("Examples", ""), "an example that runs"
    if name in FILLED_BY_SELC:
        assert len(described(found["Attributes"])) > 3
    elif inspect.isfunction(thing) or "__init__" in vars(thing):
        parameters = set(inspect.signature(thing).parameters) - SELF_EXPLANATORY
        missing = parameters - described(found.get("Parameters", ""))
        assert not missing, f"Parameters must describe {sorted(missing)}"
    if inspect.isfunction(thing):
        assert "Returns" in found


def test_the_plan_describes_every_setting() -> None:
    text = sections(selc.Plan.__doc__ or "")["Parameters"]
    missing = [name for name in selc.Plan.model_fields if not re.search(rf"\b{name}\b", text)]
    assert not missing
