"""Who may import whom. The order is that of the design; a test reads the imports and names the offending line."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "selc"
# Lowest first. A module may import from layers below its own and from its own package.
LAYERS = [
    {"errors"},
    {"registry", "files"},
    {"core"},
    {"types"},
    {"noise", "data", "nets"},
    {"methods"},
    {"train"},
    {"run"},
    {"report", "screen"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE_MAY_USE = {"torch", "selc.core", "selc.errors"}
STANDARD = {"__future__", "collections", "hashlib", "logging", "math", "typing"}


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


def test_the_core_needs_nothing_but_torch() -> None:
    wrong = []
    for path in (SOURCE / "core").glob("*.py"):
        for line, module in imports(path):
            known = module.split(".")[0] in STANDARD or any(module.startswith(name) for name in CORE_MAY_USE)
            if not known:
                wrong.append(f"{path.name}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_nothing_is_unpickled() -> None:
    """No pickle, and of torch's and numpy's loaders only the ones that cannot run code."""
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
                if {"pickle", "cloudpickle", "dill", "shelve", "marshal"} & set(names):
                    wrong.append(f"{path.name}:{node.lineno}")
            elif isinstance(node, ast.Call):
                call = ast.unparse(node.func)
                allowed = any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords)
                if call == "torch.load" or (call == "np.load" and not allowed):
                    wrong.append(f"{path.name}:{node.lineno} {call}")
    assert not wrong, wrong
