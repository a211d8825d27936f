"""Nothing skips unseen: a test may skip only if it is on the list below, and the session fails otherwise."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Test (as `file::name`) -> why it may skip.
MAY_SKIP = {
    "tests/test_gpu.py::test_a_gpu_trains_to_the_same_accuracy_as_the_cpu": "needs a GPU",
    "tests/test_gpu.py::test_mixed_precision_on_a_gpu_records_finite_losses": "needs a GPU",
    "tests/own_data/test_hub.py::test_the_library_itself_hands_out_the_same": "needs the package datasets",
    "tests/own_data/test_real.py::test_real_jpegs_in_parquet_have_the_published_mean_and_deviation": "needs SELC_DATA",
    **dict.fromkeys(
        (
            f"tests/test_{page}_browser.py::test_{name}"
            for page, name in (
                ("review", "twenty_are_judged_by_keyboard_undone_kept_over_a_reload_saved_and_applied"),
                ("review", "filters_mouse_and_search_do_what_they_say"),
                ("review", "names_of_files_and_classes_made_of_script_do_nothing"),
                ("review", "nothing_is_wider_than_the_window"),
                ("review", "a_grid_judges_many_at_once_and_undoes_them_at_once"),
                ("review", "pairs_sorting_help_and_zoom"),
                ("review", "the_precision_is_told_with_wilsons_interval_and_when_to_stop"),
                ("review", "the_original_file_is_shown_large"),
                ("review", "axe_has_no_serious_finding_in_the_review"),
                ("review", "a_hundred_thousand_samples_stay_fluid"),
                ("report", "axe_has_no_serious_finding_in_the_report"),
                ("report", "what_is_wider_than_its_box_scrolls_there_and_shows_it"),
                ("report", "names_of_rows_stay_in_one_piece_and_the_longest_are_broken"),
            )
        ),
        "needs playwright and chromium (and axe-core)",
    ),
    "tests/exchange/test_label_studio.py::"
    "test_its_own_validator_accepts_the_tasks_and_the_setup_and_no_other_class": "needs the package label-studio-sdk",
    "tests/test_embed.py::test_a_linear_probe_on_500_real_images_is_far_above_chance": "needs real data (SELC_DATA)",
    **dict.fromkeys(
        (
            f"tests/nets/test_published.py::test_{name}"
            for name in (
                "outputs_equal_those_of_the_published_network",
                "torchvision_is_asked_for_weights_in_its_own_words",
                "timm_is_asked_for_weights_in_its_own_words",
            )
        ),
        "needs torchvision and timm",
    ),
    **dict.fromkeys(
        (
            f"tests/data/test_real_data.py::test_{name}"
            for name in (
                "cifar10_has_its_published_sizes_classes_mean_and_deviation",
                "images_and_labels_of_cifar10_belong_together",
                "labels_beside_the_clean_ones_are_as_wrong_as_published",
                "features_and_labels_of_cifar10_belong_together",
                "mnist_and_fashion_mnist_have_their_published_counts_mean_and_deviation",
                "original_pixels_of_cifar10_are_close_to_the_lossy_ones_in_the_same_order",
            )
        ),
        "needs real data (SELC_DATA)",
    ),
}

_unexpected: list[str] = []
PATIENCE = 1800  # seconds: what is long by design takes minutes on two quiet cores, and the machine may be busy


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return  # it only deals out the tests, and needs nothing of this
    gc.disable()  # until all is imported, as next to nothing of that is garbage
    import torch
    import typer.main

    # Two workers on two cores: more threads would only wait for each other. `make test-arithmetic` also tries two.
    torch.set_num_threads(int(os.environ.get("SELC_TEST_THREADS", "1")))
    with suppress(ImportError):  # the environment of the adapters has none
        from hypothesis import HealthCheck, settings

        # How long it takes to draw an example hangs on what else the machine does.
        settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("busy machine")
    # Typer would make all commands anew whenever a test calls one, which takes longer than most calls.
    typer.main.get_command = cache(typer.main.get_command)


def pytest_collection(session: pytest.Session) -> None:
    """In a fresh checkout two workers would compile each file twice, both at once: the second begins at the end."""
    if os.environ.get("PYTEST_XDIST_WORKER") != "gw1" or session.config.args != session.config.getini("testpaths"):
        return
    for path in sorted(ROOT.glob("tests/**/test_*.py"), reverse=True):
        with suppress(Exception, pytest.skip.Exception):  # what is wrong is told when the file is collected
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("exhaustive") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE))


@pytest.fixture(scope="session", autouse=True)
def _not_waiting_for_the_disk() -> Iterator[None]:
    """No test outlasts a loss of power; what must is shown in `tests/crashes`, in processes of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the words of a report: its figures, which take most of its time, are not drawn."""
    from selc.report.drawings import DRAWINGS, Picture

    monkeypatch.setattr("selc.report.page.draw", lambda shot: {name: Picture(remark="Not drawn.") for name in DRAWINGS})


def pytest_collection_finish() -> None:
    """What is imported and collected stays: it need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    name = report.nodeid.split("[")[0]
    if report.skipped and not hasattr(report, "wasxfail") and name not in MAY_SKIP:
        _unexpected.append(f"{report.nodeid}: {report.longrepr}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _unexpected:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _unexpected:
        terminalreporter.write_line(f"SKIPPED BUT NOT ON THE LIST in tests/conftest.py: {line}", red=True)
