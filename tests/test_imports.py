"""Heavy libraries are imported when they are needed, and not before."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "sklearn", "matplotlib", "pyarrow", "numpy", "scipy", "pandas")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_selc_loads_no_heavy_library() -> None:
    assert not modules_after("import selc") & set(HEAVY)


def test_the_core_names_load_torch_but_none_of_the_extras() -> None:
    loaded = modules_after("from selc import SELCLoss, IndexedDataset, soft_cross_entropy, fit, resume, Config")
    assert "torch" in loaded
    assert not loaded & {"sklearn", "matplotlib", "pyarrow", "scipy", "pandas"}


def test_the_command_line_is_read_without_torch() -> None:
    assert not modules_after("import selc.cli") & set(HEAVY)


HELP = """
from typer.main import get_command
from typer.testing import CliRunner
from selc.cli import app
for name in get_command(app).commands:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0 and "Usage" in result.output, name
"""


def test_help_of_every_command_answers_without_a_heavy_library() -> None:
    assert not modules_after(HELP) & set(HEAVY)


def test_the_module_answers_for_help_without_a_heavy_library() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "selc", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & set(HEAVY)


def test_every_public_name_exists() -> None:
    import selc

    for name in selc.__all__:
        assert getattr(selc, name) is not None
    assert set(selc.__all__) <= set(dir(selc))
