"""The notebooks of docs/notebooks, from examples that are tested: python docs/render_notebooks.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"
EXAMPLES = ("one_call", "own_loop", "estimator")


def notebook(name: str) -> str:
    """The first lines of an example as text, and each paragraph of its code as a cell."""
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    found = re.fullmatch(r'"""(.*?)"""\s+(.*)', text, flags=re.DOTALL)
    assert found, f"examples/{name}.py must begin with a docstring"
    about, code = found.groups()
    install = "Needs `pip install '.[sklearn]'` in a clone of selc."
    cells = [_cell("markdown", f"# {name.replace('_', ' ').capitalize()}\n\n{about}\n\n{install}")]
    cells += [_cell("code", part) for part in paragraphs(code)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about_it = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": cells, "metadata": about_it, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def paragraphs(code: str) -> list[str]:
    """The imports, then code between empty lines; what is indented stays with what it belongs to."""
    first = re.search(r"^(?!import |from |\n)", code, flags=re.MULTILINE)
    place = first.start() if first else 0
    parts = [code[:place], *re.split(r"\n\n+(?=\S)", code[place:])]
    return [part.strip("\n") for part in parts if part.strip()]


def _cell(kind: str, source: str) -> dict[str, Any]:
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": "", "metadata": {}, **more, "source": source.splitlines(keepends=True)}


if __name__ == "__main__":
    for name in EXAMPLES:
        (FOLDER / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
