"""Nothing skips unseen: a test may skip only if it is on the list below, and the session fails otherwise."""

from __future__ import annotations

import pytest
import torch

# Test (as `file::name`) -> why it may skip.
MAY_SKIP = {
    "tests/test_gpu.py::test_a_gpu_trains_to_the_same_accuracy_as_the_cpu": "needs a GPU",
    "tests/test_gpu.py::test_mixed_precision_on_a_gpu_records_finite_losses": "needs a GPU",
}

torch.set_num_threads(1)  # two workers on two cores: threads would only wait for each other
_unexpected: list[str] = []


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
