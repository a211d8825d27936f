"""Which tests are marked `arithmetic`: they compare trainings, losses, gradients or accuracies, so that a processor's
rounding could decide them. `tests/run_arithmetic.py` runs them under other instruction sets. Of several processes two
are enough there: four add in the same way, and `make test-all` compares them under the plain setting."""

from __future__ import annotations

import re

import pytest

# Beginnings of the names of tests: a folder, a file, or one test.
NUMERICAL = (
    "tests/analysis/",
    "tests/contract/test_methods.py::test_belief_has",
    "tests/contract/test_methods.py::test_it_learns",
    "tests/contract/test_methods.py::test_loss_is_finite",
    "tests/contract/test_methods.py::test_probabilities",
    "tests/losses/test_selc_loss",
    "tests/losses/test_soft_cross_entropy.py",
    "tests/memory/test_store",
    "tests/methods/",
    "tests/nets/test_formulas.py",
    "tests/nets/test_networks.py::test_a_network_learns",
    "tests/parallel/test_same_results.py",
    "tests/test_cleanlab.py",
    "tests/test_demo.py",
    "tests/test_estimator.py::test_estimates",
    "tests/test_estimator.py::test_images",
    "tests/test_estimator.py::test_labels_may_be",
    "tests/test_estimator.py::test_wrong_labels",
    "tests/test_examples.py",
    "tests/test_fit.py",
    "tests/test_loop.py",
    "tests/test_recorder.py",
    "tests/test_tables.py",
    "tests/test_text_runs.py",
    "tests/turning/",
)


FOUR_PROCESSES = re.compile(r"tests/parallel/.*[\[-]4\]")


def is_numerical(test: str) -> bool:
    return test.startswith(NUMERICAL) and not FOUR_PROCESSES.fullmatch(test)


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_numerical(item.nodeid):
            item.add_marker(pytest.mark.arithmetic)
