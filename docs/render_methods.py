"""The table of docs/methods/index.md, and a first page for a method that has none: python docs/render_methods.py.

Both come from the code, so that whoever adds a method writes it and its test. A page that is there is never touched:
what its author, or somebody who has compared it with other code, adds to it stays.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from selc._io.files import write_text
from selc.methods import METHODS

FOLDER = Path(__file__).parent / "methods"
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


def first_page(name: str) -> str:
    """The outline that all pages have, filled in by the docstrings and defaults of a method."""
    method = METHODS[name]
    module = inspect.getmodule(method)
    assert module is not None
    text, _, deviations = inspect.cleandoc(method.__doc__ or "").partition("Deviations:")
    idea, *parts = text.strip().split("\n\n")
    equation = "\n".join(inspect.cleandoc(part) for part in parts if part.startswith("    "))
    said = [" ".join(part.split()) for part in parts if not part.startswith("    ")]
    options = "".join(f"| `{option}` | {value} |\n" for option, value in METHODS.defaults(name).items())
    table = f"\n\n| option | default |\n|---|---|\n{options.rstrip()}" if options else ""
    sections = {
        "Idea": "\n\n".join([idea, *said]),
        "Equation": f"```\n{equation}\n```",
        "Our code": f"`selc train DATA --method {name}`; `src/{module.__name__.replace('.', '/')}.py`.{table}",
        "Our deviations": " ".join(deviations.split()) or "None.",
        "Deviations of the authors' code": "Not compared yet.",
        "What it needs": method.needs or "Nothing but the given labels.",  # type: ignore[attr-defined]
        "Cost": f"About {method.cost:.1f} trainings with cross entropy.",  # type: ignore[attr-defined]
    }
    paper = " ".join((module.__doc__ or "").split())
    return f"# {name}\n\n{paper}\n" + "".join(f"\n## {title}\n\n{body}\n" for title, body in sections.items())


def file_of(name: str) -> str:
    """selc+ has the page selc-plus.md, nce+rce the page nce-rce.md."""
    return (name.removesuffix("+") + "-plus" if name.endswith("+") else name.replace("+", "-")) + ".md"


if __name__ == "__main__":
    write_text(FOLDER / "index.md", page())
    for name in METHODS:
        if not (FOLDER / file_of(name)).exists():
            write_text(FOLDER / file_of(name), first_page(name))
