"""The table of docs/methods/index.md, from the registry of methods: python docs/render_methods.py."""

from __future__ import annotations

import inspect
from pathlib import Path

from selc._io.files import write_text
from selc.methods import METHODS

TARGET = Path(__file__).parent / "methods" / "index.md"
HEAD = """# Methods

Made from the code by `make docs`. *Needs* is what must be known beside the given labels (an estimate of our own is the
default), *time* that of a training relative to cross entropy, as measured in
[benchmarks/results/methods.md](../../benchmarks/results/methods.md), *processes* whether torchrun may start several.
Each page has the idea, the equation, our deviations and those of the authors' code.

| method | paper | family | what it does | needs | time | processes |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    return HEAD + "".join(row(name) for name in METHODS)


def row(name: str) -> str:
    method = METHODS[name]
    module = inspect.getmodule(method)
    paper = " ".join((module.__doc__ or "").split("\n\n")[0].split()) if module else ""
    needs, cost = method.needs or "-", f"{method.cost:.1f}"  # type: ignore[attr-defined]
    family = method.family  # type: ignore[attr-defined]
    what = METHODS.describe(name)
    processes = "many" if method.parallel else "one"  # type: ignore[attr-defined]
    return f"| [{name}]({file_of(name)}) | {paper} | {family} | {what} | {needs} | {cost} | {processes} |\n"


def file_of(name: str) -> str:
    """selc+ has the page selc-plus.md, nce+rce the page nce-rce.md."""
    return (name.removesuffix("+") + "-plus" if name.endswith("+") else name.replace("+", "-")) + ".md"


if __name__ == "__main__":
    write_text(TARGET, page())
