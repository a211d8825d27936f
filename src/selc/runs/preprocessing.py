"""How the data of a run became inputs, kept beside it for new data.

inputs.json             columns and their coding, or size and normalisation of images
inputs.safetensors      the arrays that go with it: mean and deviation of each column
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from selc._io.files import read_json, read_tensors, write_json, write_tensors
from selc.data import ImageInputs
from selc.data.preprocess.imagery import Images
from selc.types import Inputs


def write_inputs(folder: Path, inputs: Inputs) -> None:
    """Remember how data become such inputs; the JSON file is written last."""
    state = state_of(inputs)
    arrays = state.pop("arrays", {})
    if arrays:
        write_tensors(folder / "inputs.safetensors", {name: torch.from_numpy(a) for name, a in arrays.items()})
    write_json(folder / "inputs.json", {**state, "arrays": sorted(arrays)})


def stored_inputs(folder: Path) -> dict[str, Any] | None:
    """The same back, with numpy arrays under "arrays"; None if the folder does not hold it."""
    if not (folder / "inputs.json").exists():
        return None
    state = dict(read_json(folder / "inputs.json"))
    arrays = read_tensors(folder / "inputs.safetensors") if state["arrays"] else {}
    return {**state, "arrays": {name: arrays[name].numpy() for name in state["arrays"]}}


def state_of(inputs: Inputs) -> dict[str, Any]:
    """How data become such inputs: JSON, and numpy arrays under "arrays"."""
    first = torch.tensor([0])
    shape = list(next(iter(inputs.stream([first], None))).shape[1:])
    how = Images.of(inputs) if isinstance(inputs, ImageInputs) else getattr(inputs, "how", None)
    return {**({"kind": "arrays"} if how is None else how.state()), "shape": shape}
