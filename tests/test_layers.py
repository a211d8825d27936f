"""Who may import whom. The order is that of the design; a test reads the imports and names the offending line."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "selc"
# Lowest first. A module may import from layers below its own and from its own package.
LAYERS = [
    {"errors"},
    {"registry", "_io", "seeding", "world"},
    {"memory"},
    {"losses"},
    {"turning"},
    {"types"},
    {"callbacks"},
    {"analysis"},
    {"classifiers", "noise", "data", "nets", "recorder"},
    {"methods"},
    {"training"},
    {"encoders"},
    {"runs"},
    {"report", "screen", "estimator"},
    {"demo", "bench", "review", "integrations"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE = ("losses", "memory")  # the paper: what people use in loops of their own
CORE_MAY_USE = {"torch", "selc.losses", "selc.memory", "selc.world", "selc.errors"}
STANDARD = sys.stdlib_module_names  # what it may not load from there is tested below


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import in a file, wherever it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} must import by full name"
            found.append((node.lineno, node.module or ""))
    return found


def part(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def test_every_module_belongs_to_a_layer() -> None:
    parts = {part(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert parts == set(LEVEL)


def test_imports_go_down() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        own = part(path)
        if own == "__init__":
            continue  # the public surface names everything, and imports it when it is used
        for line, module in imports(path):
            if not module.startswith("selc."):
                continue
            other = module.split(".")[1]
            if other != own and LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{path.relative_to(SOURCE.parent)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


SAME_IDEA = {"__init__", "base", "own", "seal"}  # docs/architecture.md says which ideas


def test_no_two_modules_have_one_name_for_different_ideas() -> None:
    """A command may have the name of what it calls; nothing else shares one, be it with a file or with a room."""
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if part(path) != "cli" and path.stem not in SAME_IDEA:
            places.setdefault(path.stem, []).append(str(path.relative_to(SOURCE)))
    for folder in SOURCE.rglob("__init__.py"):
        if folder.parent not in (SOURCE, SOURCE / "cli"):
            places.setdefault(folder.parent.name, []).append(str(folder.parent.relative_to(SOURCE)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


CONCLUDED_BY = {  # what is said of labels, and the one room that works it out; all others read the result
    "selc.analysis": {"explain", "transitions", "mean_probabilities", "NoiseRate", "NoiseRange"},
    "selc.turning": {"of_mixture", "two_means"},
}


def test_what_is_concluded_about_labels_is_worked_out_in_one_room() -> None:
    """Figures of the paper draw the mixtures themselves; of the analysis nothing is worked out a second time."""
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom):
                continue
            for room, names in CONCLUDED_BY.items():
                at_home = part(path) == room.removeprefix("selc.") or (
                    room == "selc.turning" and part(path) == "report"
                )
                if not at_home and (node.module or "").startswith(room):
                    wrong += [
                        f"{path.relative_to(SOURCE)}:{node.lineno} {a.name}" for a in node.names if a.name in names
                    ]
    assert not wrong, wrong


GENERIC = ("types", "callbacks", "training")  # they train by any method, and know none
OF_METHODS = {"selc.methods.base", "selc.methods.parts"}  # what all methods share


def known_methods(source: str) -> list[int]:
    """Lines that import what belongs to a method: the turning point, what is concluded from it, or a file of one."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
            if node.module == "selc":
                modules = [f"selc.{alias.name}" for alias in node.names]
        for module in modules:
            room = ".".join(module.split(".")[:2])
            if room in ("selc.turning", "selc.analysis") or (room == "selc.methods" and module not in OF_METHODS):
                wrong.append(node.lineno)  # type: ignore[attr-defined]
    return wrong


def test_what_trains_knows_no_method() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if part(path) in GENERIC or path == SOURCE / "methods" / "base.py"
        for line in known_methods(path.read_text())
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "line",
    [
        "import selc.turning",
        "from selc import turning",
        "from selc.turning import Decision",
        "from selc.turning.evidence import Evidence",
        "from selc.analysis import analyse",
        "from selc.methods import CE",
        "from selc.methods.selc import SELC",
    ],
)
def test_a_line_that_knows_a_method_would_be_noticed(line: str) -> None:
    assert known_methods(line) == [1]
    assert known_methods(f"def late():\n    {line}") == [2]
    assert not known_methods("from selc.methods.base import METHODS\nfrom selc.methods.parts import Pair\nimport selc")


def test_the_core_needs_nothing_but_torch() -> None:
    wrong = []
    for path in [SOURCE / "world.py", *(path for room in CORE for path in (SOURCE / room).glob("*.py"))]:
        for line, module in imports(path):
            known = module.split(".")[0] in STANDARD or any(module.startswith(name) for name in CORE_MAY_USE)
            if not known:
                wrong.append(f"{path.name}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


RUN_CODE = {"pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}  # when they read
ONLY_IN_UNPICKLED = {"pickletools"}
LOADERS = re.compile(
    r"(torch(\.serialization|\.jit|\.hub|\.package)?|torchvision|joblib)\.(load\w*|read_pickle)|(pandas|pd)\.read_pickle"
)


def unpickling(source: str, *, the_reader: bool = False) -> list[int]:
    """Lines that use a pickle, or a loader that may: all of torch's, and numpy's unless it is told not to."""
    wrong = []
    forbidden = RUN_CODE if the_reader else RUN_CODE | ONLY_IN_UNPICKLED
    for node in ast.walk(ast.parse(source)):
        found = False
        if isinstance(node, ast.Import):
            found = any(alias.name.split(".")[0] in forbidden for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
            found = module.split(".")[0] in forbidden or any(map(LOADERS.fullmatch, names)) or "numpy.load" in names
        elif isinstance(node, ast.Attribute):
            found = LOADERS.fullmatch(ast.unparse(node)) is not None
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
            found = not any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords)
        if found:
            wrong.append(getattr(node, "lineno", 0))
    return wrong


def test_nothing_is_unpickled() -> None:
    """But by our own reader, which runs nothing."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in unpickling(path.read_text(), the_reader=path == SOURCE / "_io" / "unpickled.py")
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "from _pickle import Unpickler",
        "import pickletools",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "read = torch.load",
        "from torch import load",
        "torch.serialization.load(path)",
        "torch.jit.load(path)",
        "torch.hub.load_state_dict_from_url(url)",
        "pd.read_pickle(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "from numpy import load",
    ],
)
def test_a_line_that_unpickles_would_be_noticed(line: str) -> None:
    assert unpickling(line) == [1]
    assert not unpickling("np.load(path, allow_pickle=False)\nmodel.load_state_dict(state)\nimport json")


def test_the_reader_of_pickles_needs_nothing_of_ours_but_errors_and_files() -> None:
    modules = {module for _, module in imports(SOURCE / "_io" / "unpickled.py") if module.split(".")[0] == "selc"}
    assert modules <= {"selc.errors", "selc._io.files"}
