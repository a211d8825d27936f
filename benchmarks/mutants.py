"""Do the tests bite? Small faults are put into the code that judges labels, one at a time, and the tests must fail.

A mutant is one change of one file: an operator for its neighbour, a number for the next one, `and` for `or`, a
condition for its opposite, a minimum for a maximum, or a statement that is left out. Mutants are drawn at random.
`mutants_run.py` tries each on the quick tests that reach its lines, cheapest first, until one fails.

    python benchmarks/mutants.py --count 300 --seed 17 --out build/mutants

It ends after `--minutes` of processor time (the map of who tests what is kept, and so is what was tried: call it again
to go on). In `build/mutants`: `tried.jsonl`, a line for each mutant, and `table.md`.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "selc"
ROOMS = ("turning", "analysis", "losses", "memory")
METHODS = ("judge", "selc", "selc_plus")  # SELC; the other methods have tests of their own formulas
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
PAIRS = (("min", "max"), ("ceil", "floor"), ("clamp_min", "clamp_max"), ("any", "all"), ("argmax", "argmin"))
NAMES = {a: b for one, other in (*PAIRS, ("amax", "amin")) for a, b in ((one, other), (other, one))}


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `place` and `way` say which of all."""

    file: str
    place: int
    way: int
    lines: tuple[int, int]  # of the statement that is changed
    function: str | None  # the outermost function around it; None: it is run by the import
    span: tuple[int, int]  # the lines of that function; of a statement that is run by the import, the whole file
    what: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.lines[0]}:{self.place}.{self.way}"

    @property
    def path(self) -> Path:
        return PACKAGE / self.file

    def code(self) -> CodeType:
        """The whole file, changed; its lines keep their numbers."""
        tree = ast.parse(self.path.read_text())
        at = list(_places(tree))[self.place]
        changed = list(_changes(at))[self.way][1]
        value = getattr(at.parent, at.field)
        if at.index is None:
            setattr(at.parent, at.field, changed)
        else:
            value[at.index] = changed
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec")


@dataclass(frozen=True)
class Place:
    """Where an expression or a statement stands."""

    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt
    function: ast.stmt | None
    name: str | None

    @property
    def node(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        node: ast.AST = value if self.index is None else value[self.index]
        return node


def files() -> list[str]:
    found = [path for room in ROOMS for path in sorted((PACKAGE / room).glob("*.py"))]
    found += [PACKAGE / "methods" / f"{name}.py" for name in METHODS]
    return [path.relative_to(PACKAGE).as_posix() for path in found]


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every change that is known for a file; what only people read (annotations, docstrings, words) is left alone."""
    tree = ast.parse((PACKAGE / file).read_text())
    for number, at in enumerate(_places(tree)):
        # Of a compound statement only its head: what stands below it are statements of their own.
        body = getattr(at.statement, "body", None)
        first = at.statement.lineno
        last = max(first, body[0].lineno - 1) if body else at.statement.end_lineno or first
        span = (1, 10**6) if at.function is None else (at.function.lineno, at.function.end_lineno or 0)
        for way, (what, _) in enumerate(_changes(at)):
            yield Mutant(file, number, way, (first, last), at.name, span, what)


def _places(
    tree: ast.AST, statement: ast.stmt | None = None, function: ast.stmt | None = None, name: str | None = None
) -> Iterator[Place]:
    """Where expressions and statements stand, annotations and the text of errors aside."""
    scope = f"{name}." if name else ""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "bases") or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_for_checkers(child):
                continue
            here = child if isinstance(child, ast.stmt) else statement
            # Defaults belong to the definition, which the import runs; a body to its function.
            outer = function
            if function is None and isinstance(tree, ast.FunctionDef) and field == "body":
                outer = tree
            inner = name
            if function is None and isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = scope + child.name
            if isinstance(child, ast.expr | ast.stmt):
                assert here is not None
                yield Place(tree, field, index, here, outer, name if outer is not None else None)
            yield from _places(child, here, outer, inner)


def _is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changes(at: Place) -> Iterator[tuple[str, ast.AST]]:
    """What becomes of an expression or a statement, in words and as another one."""
    node = at.node
    if isinstance(node, ast.stmt):
        if _can_go(node):
            yield f"`{ast.unparse(node)[:60]}` left out", ast.copy_location(ast.Pass(), node)
        return
    assert isinstance(node, ast.expr)
    if at.field == "test" and isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        yield _told(node, ast.UnaryOp(ast.Not(), node))
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
        yield _told(node, ast.Constant(2 * node.value or 1.0))
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield _told(node, ast.Name(NAMES[node.id], node.ctx))
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield _told(node, ast.Attribute(node.value, NAMES[node.attr], node.ctx))


def _can_go(node: ast.stmt) -> bool:
    """A call for its effect, or `a += b`: without them the rest still runs."""
    return isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))


def _of_types(node: ast.BinOp) -> bool:
    """Whether it is `A | B` of types, which only a checker reads."""
    if not isinstance(node.op, ast.BitOr):
        return False
    sides = (ast.unparse(node.left), ast.unparse(node.right))
    return any(side == "None" or side.split("[")[0].split(".")[-1][:1].isupper() for side in sides)


def _told(old: ast.expr, new: ast.expr) -> tuple[str, ast.expr]:
    return f"`{ast.unparse(old)[:60]}` -> `{ast.unparse(new)[:60]}`", ast.copy_location(new, old)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=17, help="of the drawing")
    parser.add_argument("--minutes", type=float, default=60.0, help="processor time that all may take together")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests that a mutant is tried on at most")
    parser.add_argument("--again", action="store_true", help="try those that nobody found once more")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants", help="folder of the results")
    arguments = parser.parse_args()
    everything = [mutant for file in files() for mutant in mutants_of(file)]
    drawn = random.Random(arguments.seed).sample(everything, min(arguments.count, len(everything)))
    print(f"{len(everything):,} mutants, {len(drawn)} drawn", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = arguments.out / "tried.jsonl"
    tried = {line["key"]: line for line in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    left = [mutant for mutant in drawn if mutant.key not in tried or (arguments.again and not tried[mutant.key]["by"])]

    from mutants_run import Tests, used  # which imports torch

    tests = Tests(arguments.out / "map.json")
    with log.open("a") as file:
        for mutant in left:
            if used() > 60 * arguments.minutes:
                break
            before = used()
            by, asked = tests.find(mutant, arguments.seconds)
            line = {"key": mutant.key, "what": mutant.what, "by": by, "tests": asked, "cpu": round(used() - before, 2)}
            file.write(json.dumps(line) + "\n")
            file.flush()
            tried[mutant.key] = line
            print(f"{time.strftime('%H:%M:%S')} {len(tried)} {by or 'NOBODY'} {mutant.key} {mutant.what}", flush=True)
    print(f"{used() / 60:.1f} minutes of processor time")
    (arguments.out / "table.md").write_text(table([m for m in drawn if m.key in tried], tried, len(everything)))


def table(done: list[Mutant], tried: dict[str, Any], known: int) -> str:
    """The share that was found, by room, and each that was not."""
    alive = [mutant for mutant in done if not tried[mutant.key]["by"]]
    counts, left = (Counter(mutant.file.split("/")[0] for mutant in some) for some in (done, alive))
    lines = [f"{len(done)} of {known:,} mutants tried, {1 - len(alive) / max(len(done), 1):.1%} found.", ""]
    lines += ["| room | mutants | not found |", "|---|---|---|"]
    lines += [f"| {room} | {count} | {left[room]} |" for room, count in sorted(counts.items())]
    lines += ["", "| not found | change | tests that reach it |", "|---|---|---|"]
    for mutant in sorted(alive, key=lambda mutant: (mutant.file, mutant.lines)):
        change = mutant.what.replace("|", chr(92) + "|")
        lines.append(f"| {mutant.file}:{mutant.lines[0]} | {change} | {tried[mutant.key]['tests']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
