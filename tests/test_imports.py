"""Heavy libraries are imported when they are needed, and not before."""

from __future__ import annotations

import subprocess
import sys
import time

HEAVY = ("torch", "sklearn", "matplotlib", "pyarrow", "numpy", "scipy", "pandas")


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
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


def test_help_answers_in_half_a_second() -> None:
    times = []
    for _ in range(5):  # the best of five: others may share the machine
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "selc", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.5, times


def test_every_public_name_exists() -> None:
    import selc

    for name in selc.__all__:
        assert getattr(selc, name) is not None
    assert set(selc.__all__) <= set(dir(selc))
