"""Do the tests bite? Small faults are put into the code that judges labels, one at a time, and the tests must fail.

A mutant is one change of one expression: an operator for its neighbour, a number for the next one, `and` for `or`, a
condition for its opposite, a minimum for a maximum. Mutants are drawn at random over the files below. Each is tried on
the quick tests named beside its file, in the order given, until one fails; a mutant that takes far longer than the
tests do is counted as found, as an endless loop would be. Processes are forked from one that has torch and the tests'
libraries imported already.

    python benchmarks/mutants.py --count 300 --out benchmarks/results/mutants.md
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
SELC = ["tests/methods/test_judge.py", "tests/methods/test_selc_auto.py"]
LOSS = ["tests/losses/test_selc_loss.py", "tests/losses/test_selc_loss_forms.py", "tests/losses/test_selc_loss_auto.py"]
STORES = ["tests/memory/test_store.py", "tests/memory/test_store_forms.py", "tests/memory/test_store_choice.py"]
FILES: dict[str, list[str]] = {
    "turning/decision.py": ["tests/turning/test_decision.py", *SELC],
    "turning/evidence.py": ["tests/turning/test_evidence.py", "tests/turning/test_decision.py", *SELC],
    "turning/held_out.py": ["tests/turning/test_held_out.py", *LOSS],
    "turning/paper.py": ["tests/turning/test_paper.py"],
    "turning/point.py": ["tests/turning/test_point.py", *SELC],
    "turning/splits.py": ["tests/turning/test_splits.py", *SELC],
    "analysis/label_analysis.py": ["tests/analysis/test_labels.py", "tests/test_recorder.py", *SELC],
    "analysis/findings.py": ["tests/analysis/test_labels.py", "tests/test_findings.py"],
    "analysis/lapse.py": ["tests/analysis/test_noise.py", "tests/analysis/test_labels.py"],
    "analysis/noise_rate.py": ["tests/analysis/test_noise.py", "tests/analysis/test_labels.py"],
    "analysis/probabilities.py": ["tests/analysis/test_probabilities.py"],
    "analysis/training_pass.py": ["tests/test_recorder.py"],
    "analysis/words.py": ["tests/test_cli.py", "tests/test_report_page.py"],
    "losses/cross_entropy.py": ["tests/losses/test_soft_cross_entropy.py", *LOSS],
    "losses/selc_loss.py": LOSS,
    "losses/loss_table.py": ["tests/losses/test_selc_loss_forms.py"],
    "losses/indexed.py": ["tests/losses/test_indexed.py"],
    "losses/seen.py": ["tests/test_recorder.py"],
    "losses/watcher.py": ["tests/losses/test_selc_loss_auto.py", "tests/turning/test_held_out.py"],
    "memory/store.py": STORES,
    "memory/topk.py": STORES,
    "memory/choice.py": [*STORES[::-1], "tests/losses/test_selc_loss_forms.py"],
    "memory/disk.py": STORES[::-1],
    "memory/forms.py": STORES,
    "turning/mixture.py": ["tests/turning/test_mixture.py", "tests/turning/test_paper.py"],
    "methods/judge.py": SELC,
    "methods/selc.py": SELC,
    "methods/selc_plus.py": ["tests/methods/test_formulas.py", *SELC, "tests/contract/test_methods.py"],
}
PATIENCE = 240.0  # seconds of a mutant: the longest tests take a quarter of that on a quiet core
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {
    "min": "max",
    "max": "min",
    "ceil": "floor",
    "floor": "ceil",
    "clamp_min": "clamp_max",
    "any": "all",
    "all": "any",
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    what: str
    code: str  # the whole file, changed


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every change that is known for a file; what only people read (annotations, docstrings, words) is left alone."""
    tree = ast.parse((SOURCE / "selc" / file).read_text())
    for number, (parent, field, at) in enumerate(list(_places(tree))):
        node = _node(parent, field, at)
        for what, changed in _changes(node):
            other = copy.deepcopy(tree)
            there, name, place = list(_places(other))[number]
            if place is None:
                setattr(there, name, changed)
            else:
                getattr(there, name)[place] = changed
            yield Mutant(file, getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(other)))


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where expressions stand, the annotations and the text of errors aside."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "bases") or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr):
                yield tree, field, place
            if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                yield from _places(child)


def _node(parent: ast.AST, field: str, place: int | None) -> ast.expr:
    value = getattr(parent, field)
    found: ast.expr = value if place is None else value[place]
    return found


def _changes(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What becomes of an expression, in words and as another one."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not _of_types(node):
        yield _told(node, ast.BinOp(node.left, SWAPS[type(node.op)](), node.right))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        yield _told(node, ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators))
    elif isinstance(node, ast.BoolOp):
        yield _told(node, ast.BoolOp(SWAPS[type(node.op)](), node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield _told(node, node.operand)
    elif isinstance(node, ast.IfExp):
        yield _told(node, ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):  # which is an int, too
        yield _told(node, ast.Constant(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield _told(node, ast.Constant(node.value + 1))
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield _told(node, ast.Constant(node.value * 2))
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield _told(node, ast.Name(NAMES[node.id], node.ctx))
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield _told(node, ast.Attribute(node.value, NAMES[node.attr], node.ctx))


def _of_types(node: ast.BinOp) -> bool:
    """Whether it is `A | B` of types, which only a checker reads."""
    return isinstance(node.op, ast.BitOr) and "None" in (ast.unparse(node.left), ast.unparse(node.right))


def _told(old: ast.expr, new: ast.expr) -> tuple[str, ast.expr]:
    return f"`{ast.unparse(old)[:60]}` -> `{ast.unparse(new)[:60]}`", new


class Changed(SourceFileLoader):
    """Loads one module from other source code."""

    def __init__(self, name: str, path: str, code: str) -> None:
        super().__init__(name, path)
        self.changed = code

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.changed, self.path, "exec")


class Finder(PathFinder):
    """Finds the changed module before the real one."""

    mutant: Mutant

    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:  # type: ignore[no-untyped-def]
        file = SOURCE / "selc" / cls.mutant.file
        if fullname != "selc." + cls.mutant.file.removesuffix(".py").replace("/", "."):
            return None
        return spec_from_file_location(fullname, file, loader=Changed(fullname, str(file), cls.mutant.code))


def passes(tests: list[str], mutant: Mutant | None) -> bool:
    """Whether the tests pass with a mutant, in a process of its own."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if mutant is not None:
            Finder.mutant = mutant
            sys.meta_path.insert(0, Finder)
        import pytest

        options = [
            "-n",
            "0",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not exhaustive and not browser",
            "-W",
            "ignore",
        ]
        os._exit(int(pytest.main([*options, *tests])))
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument("--only", nargs="+", default=[], metavar="PREFIX", help="rooms or files, such as memory/")
    parser.add_argument("--out", type=Path, help="write the table of those that nobody found here")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path[:0] = [str(ROOT), str(SOURCE)]
    import numpy  # noqa: F401  # what takes long to import is imported once
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)
    files = [file for file in FILES if not arguments.only or file.startswith(tuple(arguments.only))]
    everything = [mutant for file in files for mutant in mutants_of(file)]
    drawn = random.Random(arguments.seed).sample(everything, min(arguments.count, len(everything)))
    print(f"{len(everything):,} mutants, {len(drawn)} drawn", flush=True)
    alive: list[Mutant] = []
    began = time.monotonic()
    for number, mutant in enumerate(drawn, start=1):
        if all(passes([tests], mutant) for tests in FILES[mutant.file]):
            alive.append(mutant)
            print(f"nobody found {mutant.file}:{mutant.line} {mutant.what}", flush=True)
        if number % 10 == 0:
            rate = (time.monotonic() - began) / number
            print(
                f"{number} of {len(drawn)}, {len(alive)} alive, {rate * (len(drawn) - number):.0f} s left", flush=True
            )
    if arguments.out is not None:
        arguments.out.write_text(table(drawn, alive, len(everything), arguments.seed))


def table(drawn: list[Mutant], alive: list[Mutant], known: int, seed: int) -> str:
    """The share that was found, by file, and each that was not."""
    tried, left = (Counter(mutant.file for mutant in some) for some in (drawn, alive))
    share = 1 - len(alive) / max(len(drawn), 1)
    lines = [
        "# Do the tests bite?",
        "",
        f"`python benchmarks/mutants.py --count {len(drawn)} --seed {seed}`, of {known:,}.",
    ]
    lines += [f"Found: {share:.1%}.", "", "| file | mutants | not found |", "|---|---|---|"]
    lines += [f"| {file} | {count} | {left[file]} |" for file, count in sorted(tried.items())]
    lines += ["", "| not found | change |", "|---|---|"]
    lines += [f"| {mutant.file}:{mutant.line} | {mutant.what.replace('|', chr(92) + '|')} |" for mutant in alive]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
