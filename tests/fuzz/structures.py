"""Inputs that hypothesis makes up from their grammar, instead of spoiling valid ones."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from selc._io.unpickled import read_pickle
from selc.data import DATASETS
from selc.errors import SelcError
from selc.runs import Config
from selc.runs.decisions import FORMAT, VERDICTS, Decisions

text = st.text(max_size=12)
number = st.integers() | st.floats()
json_value = st.recursive(
    st.none() | st.booleans() | number | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
toml_value = st.recursive(
    st.booleans() | st.integers() | st.floats() | text | st.datetimes() | st.dates() | st.times(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
SECTIONS = ("data", "labels", "noise", "method", "net", "train")
KEYS = ("name", "path", "kind", "rate", "alpha", "epochs", "lr", "optimizer", "milestones", "drop", "size", "threads")
NAMES = (
    "digits",
    "moons",
    "table",
    "arrays",
    "symmetric",
    "file",
    "selc",
    "ce",
    "mlp",
    "resnet18",
    "SGD",
    "import:a:b",
)
section = st.dictionaries(st.sampled_from(KEYS) | text, st.sampled_from(NAMES) | toml_value, max_size=4)
configuration = st.dictionaries(st.sampled_from(SECTIONS) | text, section | toml_value, max_size=5)

entry = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("sample_id", "given", "suggested", "label"), text | json_value),
        "confidence": json_value,
        "verdict": st.sampled_from(VERDICTS) | json_value,
    },
)
decisions = st.fixed_dictionaries(
    {},
    optional={
        "format": st.just(FORMAT) | json_value,
        "run": text | json_value,
        "samples": st.integers() | json_value,
        "decisions": st.lists(entry | json_value, max_size=4) | json_value,
    },
)

cell = (
    text | st.integers().map(str) | st.floats().map(str) | st.sampled_from(("", "nan", "1e999", "a,b", '"', "é", "\r"))
)
header = st.lists(st.sampled_from(("label", "path", "id", "x", "y", "image")) | text, min_size=1, max_size=4)
table = st.tuples(header, st.lists(st.lists(cell, max_size=5), max_size=8), st.sampled_from(",;\t|"))

some_dtypes = st.one_of(
    *(arrays.boolean_dtypes(), arrays.integer_dtypes(), arrays.unsigned_integer_dtypes(), arrays.floating_dtypes()),
    *(arrays.unicode_string_dtypes(max_len=4), arrays.byte_string_dtypes(max_len=4), arrays.datetime64_dtypes()),
    arrays.complex_number_dtypes(),
)
any_array = arrays.arrays(some_dtypes, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
archive = st.dictionaries(
    st.sampled_from(("x", "y", "ids", "true", "classes", "x_test", "y_test", "meta", "z")), any_array, max_size=6
)


def _config(folder: Path, value: Any) -> None:
    (folder / "config.toml").write_bytes(tomli_w.dumps(value).encode("utf-8", "replace"))
    Config.load(folder / "config.toml").fingerprint("")


def _decisions(folder: Path, value: Any) -> None:
    (folder / "decisions.json").write_text(json.dumps(value))
    Decisions.read(folder / "decisions.json").check(["0", "a"], ["0", "a"])


def _table(folder: Path, value: Any) -> None:
    names, rows, separator = value
    lines = [separator.join(row) for row in (names, *rows)]
    (folder / "t.csv").write_bytes("\n".join(lines).encode("utf-8", "replace"))
    DATASETS["table"](path=str(folder / "t.csv"), cache="off")


def _npz(folder: Path, value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy's writer, about odd types
        np.savez(folder / "d.npz", **value)
    DATASETS["npz"](path=str(folder / "d.npz"))


def _pickle(folder: Path, value: Any) -> None:
    read_pickle(value, "it", "Do not.")


GRAMMARS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Path, Any], None]]] = {
    "config": (configuration, _config),
    "decisions": (decisions | json_value, _decisions),
    "csv": (table, _table),
    "npz": (archive, _npz),
    "pickles": (st.binary(max_size=200), _pickle),
}


def made_up(name: str, examples: int, seed: int) -> tuple[int, int]:
    """Run so many made-up inputs; the numbers that ended in our error and in success. A fault is raised, shrunk."""
    from hypothesis import seed as seeded

    strategy, read = GRAMMARS[name]
    counts = {"ours": 0, "success": 0}

    @seeded(seed)
    @settings(
        max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(strategy)
    def check(value: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                read(Path(folder), value)
            except SelcError as error:
                counts["ours"] += 1
                if "\n" in str(error):
                    raise AssertionError(f"more than a sentence: {error}") from None
            else:
                counts["success"] += 1

    check()
    return counts["ours"], counts["success"]
