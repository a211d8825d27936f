"""The pages: links lead somewhere, each is on the site, commands and snippets work, figures are those measured."""

from __future__ import annotations

import ast
import fnmatch
import json
import os
import re
import shlex
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from torch.utils.data import DataLoader, TensorDataset

import selc
from selc.cli import app
from tests.test_cli import call

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))])
SITE = [*PAGES, ROOT / "SECURITY.md", *sorted((ROOT / "benchmarks" / "results").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, *kinds: str) -> list[str]:
    return [body for kind, body in FENCE.findall(page.read_text()) if kind in kinds]


# Links


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, by GitHub's rule."""
    text = FENCE.sub("", page.read_text())
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", head) for head in heads]
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue  # another site
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{named(page)} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(goal), f"{named(page)} links to {target}: no such heading"


def test_every_page_is_in_the_table_of_contents() -> None:
    """What is not would be a warning of Sphinx, and `make docs` takes none."""
    listed: set[Path] = {DOCS / "index.md"}
    for page in SITE:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            for entry in (line for line in block.splitlines() if line and not line.startswith(":")):
                pattern = os.path.normpath(page.parent / f"{entry}.md")
                found = {other for other in SITE if other.parent == Path(pattern).parent}
                found = {other for other in found if fnmatch.fnmatchcase(str(other), pattern)}
                assert found, f"{named(page)}: nothing is called {entry}"
                listed |= found
    assert not [named(page) for page in SITE if page not in listed]


# Commands

COMMANDS: Any = typer.main.get_command(app)


def option_names(words: list[str]) -> tuple[set[str], list[str]]:
    """The options of the command that the words call, and the words after it."""
    command = COMMANDS
    while hasattr(command, "commands") and words:
        assert words[0] in command.commands, f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    return {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}, words


def command_lines() -> list[Any]:
    lines = [
        (page, line.strip())
        for page in PAGES
        for body in blocks(page, "", "sh", "bash")
        for line in body.replace("\\\n", " ").splitlines()
    ]
    calls = [(page, re.match(r"(?:torchrun .*-m )?(selc [a-z].*)", line)) for page, line in lines]
    return [pytest.param(call[1], id=f"{named(page)}: {call[1][:60]}") for page, call in calls if call]


@pytest.mark.parametrize("line", command_lines())
def test_commands_on_pages_have_options_that_exist(line: str) -> None:
    known, words = option_names(shlex.split(line, comments=True)[1:])
    for word in words:
        if word.startswith("--"):
            assert word.split("=")[0] in known, f"{word} is no option in: {line}"


# Snippets

ELSEWHERE = {  # pages whose Python is run by another test
    *("docs/tutorial-folder.md", "docs/tutorial-table.md", "docs/tutorial-text.md"),  # tests/test_tutorials.py
    *(
        "docs/networks.md",
        "docs/metrics.md",
        "docs/own-method.md",
    ),  # tests/nets, test_own_metric.py, test_own_method.py
    "README.md",  # tests/test_examples.py
}
LONG = {"docs/start.md", "docs/own-data.md", "docs/scikit-learn.md", "docs/cleanlab.md", "docs/noise.md"}
OTHER_LIBRARIES = (  # tests/adapters, tests/trackers, tests/analysis/test_pages.py
    *("selc.integrations.transformers", "selc.integrations.lightning", "selc.integrations.trackers"),
    *("selc.integrations.datasets", "decisions.json"),
)


def snippets() -> list[Any]:
    pages = [page for page in PAGES if blocks(page, "python") and named(page) not in ELSEWHERE]
    late = [pytest.mark.exhaustive]
    return [pytest.param(page, id=named(page), marks=late if named(page) in LONG else []) for page in pages]


def surroundings(page: str) -> dict[str, Any]:
    """What the text around a snippet speaks of, small."""
    torch.manual_seed(0)
    labels = torch.arange(60) % 2
    x = torch.randn(60, 2) + 4 * labels[:, None]
    data, model = TensorDataset(x, labels), torch.nn.Linear(2, 2)
    around: dict[str, Any] = {"selc": selc, "torch": torch, **{name: getattr(selc, name) for name in selc.__all__}}
    around |= {"x": x, "labels": labels, "num_classes": 2, "epochs": 3, "model": model, "outputs": model(x)}
    around |= {"index": torch.arange(60), "x_val": x[:20], "y_val": labels[:20]}
    around |= {"loader": DataLoader(selc.IndexedDataset(data), batch_size=20, shuffle=True)}
    around |= {"val_loader": DataLoader(data, batch_size=20)}
    if page == "docs/noise.md":
        from selc.data import digits
        from selc.nets import create

        around |= {"bundle": (bundle := digits()), "labels": bundle.labels, "plan": selc.Plan(epochs=10)}
        around |= {"net": lambda outputs: create("mlp", outputs, bundle.shape)}
    if page == "docs/scale.md":
        import safetensors.torch

        around["safetensors"] = safetensors
    return around


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("page", snippets())
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = surroundings(named(page))
    for folder in ("run", "runs/photos-selc-1"):
        if f'"{folder}"' in page.read_text():
            call("train", "moons", "--method", "ce", "--epochs", "1", "--out", folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sixty rows are few, and it says so
        for body in blocks(page, "python"):
            code = compile(body, named(page), "exec")
            if not any(library in body for library in OTHER_LIBRARIES):
                exec(code, names)


# What pages say of the program


def test_the_reference_has_every_public_name() -> None:
    text = (DOCS / "reference" / "python.md").read_text()
    shown = re.findall(r"^\.\. auto\w+:: selc\.(\w+)(?:\(\))?$", text, re.MULTILINE)
    assert sorted(shown) == list(selc.__all__)


def test_the_start_page_has_every_extra() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    table = table_with(DOCS / "start.md", "extra")
    assert {row["extra"].strip("`") for row in table} == extras - {"all", "dev"}


def test_the_page_of_the_run_folder_names_what_is_in_one(tmp_path: Path) -> None:
    call("train", "moons", "--noise", "symmetric", "--rate", "0.2", "--epochs", "1", "--out", str(tmp_path / "run"))
    run = selc.RunFolder.open(tmp_path / "run")
    text = (DOCS / "reference" / "run-folder.md").read_text()
    there = {re.sub(r"stage-\d+", "stage-0", path.name) for path in run.path.iterdir()}
    assert not [name for name in sorted(there) if f"`{name}`" not in text]
    told = set(re.findall(r"^\| `([\w.-]+)`", text, re.MULTILINE))
    sometimes = {"given_labels.npz", "data.json", "given_targets.safetensors", "report.html", "label_issues.parquet"}
    assert told - sometimes <= there
    for file in ("corrected_labels.csv", "label_issues.csv"):
        for column in (run.path / file).read_text().splitlines()[0].split(","):
            assert f"`{column}`" in text, f"{file}: {column}"
    for key in ("noise_rate", "transition_matrix", "decision", "why_unchanged", "actions"):
        assert key in run.summary


def test_notebooks_are_the_examples() -> None:
    written = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert len(written) == 3
    for path in written:
        cells = json.loads(path.read_text())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        example = (ROOT / "examples" / f"{path.stem}.py").read_text()
        same = ast.dump(ast.parse(code)) == ast.dump(ast.Module(ast.parse(example).body[1:], []))
        assert same, f"{named(path)} is not the example any more: python docs/render_notebooks.py"


# Figures


def tables(path: Path) -> list[list[dict[str, str]]]:
    """The tables of a page, each as its rows by the names of the columns."""
    found = []
    for lines in re.findall(r"(?:^\|.*\n)+", path.read_text() + "\n", re.MULTILINE):
        cells = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines.splitlines()]
        found.append([dict(zip(cells[0], row, strict=False)) for row in cells[2:]])
    return found


def table_with(path: Path, column: str) -> list[dict[str, str]]:
    return next(table for table in tables(path) if table and column in table[0])


def test_figures_of_the_readme_are_those_of_the_results() -> None:
    results = ROOT / "benchmarks" / "results"
    said = {row["you have"]: row["measured"] for row in table_with(ROOT / "README.md", "you have")}
    assert list(said) == ["images", "text", "tables", "arrays"]

    findings = table_with(results / "findings.md", "AUROC")  # the first: features, human_random1
    selc_way = next(row["AUROC"] for row in findings if row["way"].startswith("selc"))
    folds = max(row["AUROC"] for row in findings if row["way"].startswith("five-fold"))
    images = [f"{float(value.strip('* ')):.3f}" for value in (selc_way, folds)]

    words = {row["way"]: row for row in table_with(results / "text.md", "way")}
    column = next(name for name in words["SELC"] if name.startswith("right labels after"))
    before, after = (words[way][column].split(" %")[0] for way in ("logistic regression, given labels", "SELC"))

    cells = next(table for table in tables(results / "judge.md") if table and "labels right before" in table[0])
    cell = next(row for row in cells if (row["data"], row["noise"]) == ("breast-cancer", "symmetric 0.2"))
    judged = [cell[name] for name in ("labels right before", "after", "SELC", "CE")]

    methods = {row["method"].strip("*"): row for row in table_with(results / "methods.md", "method")}
    arrays = [methods[name]["digits, symmetric 0.4"].split(" ")[0] for name in ("selc", "ce")]

    for kind, numbers in {"images": images, "text": [before, after], "tables": judged, "arrays": arrays}.items():
        assert re.findall(r"\d+\.\d+", said[kind]) == numbers, f"{kind}: mend README.md"


def test_the_readme_has_no_figure_that_is_not_compared_with_the_results() -> None:
    """Decimals and shares outside of the table are claims without a line in the results; sizes in it are those used."""
    text = FENCE.sub("", (ROOT / "README.md").read_text())
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    elsewhere = set(re.findall(r"\d+\.\d+|\d+ %|\d+ times", prose))
    assert elsewhere == {"3.11", "2.0"}, "say it in the table, and compare it above"  # of Python, of the licence
    said = {row["you have"]: row["measured"] for row in table_with(ROOT / "README.md", "you have")}
    whole = {kind: re.findall(r"(?<![\d.,])\d[\d,]*(?![\d.])", claim.split("](")[0]) for kind, claim in said.items()}
    # The noise of tables ("a fifth") and of digits is the name of the row and of the column that are read above.
    assert whole == {"images": ["10,000"], "text": ["2,000"], "tables": [], "arrays": ["40"]}
    results = ROOT / "benchmarks" / "results"
    assert f"Data: {whole['text'][0]} film reviews to train on" in (results / "text.md").read_text()
    assert "exactly 20% of the training labels flipped" in (results / "text.md").read_text()
    subset = re.search(r"^SUBSET = ([\d_]+)", (ROOT / "benchmarks" / "suite.py").read_text(), re.MULTILINE)
    assert subset is not None
    assert f"{int(subset[1]):,}" == whole["images"][0]
    assert "digits, symmetric 0.4" in (results / "methods.md").read_text()
