"""The page of the suite: ranks and tests against SciPy and a published example, and what is made of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from selc.bench.rank_picture import rank_picture
from selc.bench.ranks import alike, critical_difference, friedman, ranks_of, studentized_range
from selc.bench.suite_page import write_suite
from selc.bench.table import load


def test_ranks_are_those_of_scipy_and_equals_share_them() -> None:
    scores = np.random.default_rng(0).integers(0, 4, (30, 6)).astype(float)
    assert np.array_equal(ranks_of(scores.tolist()), stats.rankdata(-scores, axis=1))


def test_friedman_is_that_of_scipy() -> None:
    scores = np.random.default_rng(1).normal(size=(12, 5)) + np.arange(5)
    expected = stats.friedmanchisquare(*scores.T)
    assert friedman(ranks_of(scores.tolist())) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-6)


def test_nemenyi_is_that_of_demsar() -> None:
    """Demšar 2006, section 3.2.4: four methods on 14 data sets, critical values 2.569 (5 %) and 2.291 (10 %)."""
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert studentized_range(4, 0.05) / 2**0.5 == pytest.approx(2.569, abs=0.0006)
    assert studentized_range(4, 0.10) / 2**0.5 == pytest.approx(2.291, abs=0.0006)
    assert studentized_range(40, 0.05) == pytest.approx(stats.studentized_range.ppf(0.95, 40, np.inf), rel=1e-4)


def test_bars_join_the_longest_runs_that_cannot_be_told_apart() -> None:
    assert alike([1.0, 1.5, 2.4, 4.0], 1.0) == [(0, 1), (1, 2)]
    assert alike([1.0, 3.0], 1.0) == []
    picture = rank_picture(["a", "<b>", "c"], [1.0, 1.5, 3.0], 1.0, "what it shows")
    assert picture.count('stroke-width="4"') == 1
    assert "&lt;b&gt; 1.50" in picture


def test_the_page_has_ranks_pictures_and_sensitivity(tmp_path: Path) -> None:
    """Two rows of which one is always better, and a constant that costs two points."""
    suite = load("suite")
    lines: dict[str, dict[str, Any]] = {}
    for cell in suite.cells("cpu"):
        accuracy = {"Cross Entropy": 0.7, "SELC (automatic)": 0.8, "SELC (automatic) with alpha 0.9": 0.78}.get(
            cell.row
        )
        if accuracy is not None and cell.seed == 0:
            lines[cell.key()] = {
                "seed": 0,
                "last_accuracy": {"test": {"top1": accuracy}},
                "right_after": accuracy + 0.1,
                "seconds": 10 * accuracy,
                "commit": "abc",
                "found": {"ap": accuracy / 2},
            }
    page, *pictures = write_suite(suite, "cpu", lines, tmp_path)
    text = page.read_text()
    assert "| SELC (automatic) | 1.00 | 80.0 | 90.0 | 0.400 | 1.1 |" in text
    assert "| Cross Entropy | 2.00 | 70.0 | 80.0 | 0.350 | 1.0 |" in text
    assert "| SELC (automatic) | alpha 0.9 | -2.0 | -2.0 | 4 |" in text
    assert all(f"]({picture.name})" in text for picture in pictures)
    assert {"suite-cpu-seen.svg", "suite-cpu-unseen.svg", "suite-cpu-all.svg"} <= {picture.name for picture in pictures}
    assert text.index("Columns that choices could see") < text.index("Columns that nothing was chosen by")


def test_large_data_have_a_table_of_their_own_and_the_screen_has_one_seed(tmp_path: Path) -> None:
    """Cross entropy loses where all methods run; a second seed of it would win, and on large data it does."""
    suite = load("suite")
    lines: dict[str, dict[str, Any]] = {}
    for cell in suite.cells("cpu"):
        if cell.row in ("Cross Entropy", "SELC (automatic)"):
            plain = cell.row == "Cross Entropy"
            large = cell.column.startswith(("50000", "pixels"))
            better = plain == (large or cell.seed > 0)
            lines[cell.key()] = {
                "seed": cell.seed,
                "last_accuracy": {"test": {"top1": 0.9 if better else 0.8}},
                "seconds": 1.0,
            }
    page, *pictures = write_suite(suite, "cpu", lines, tmp_path)
    sections = {part.split("\n")[0]: part for part in page.read_text().split("\n## ")[1:]}
    assert "2 methods, 20 columns" in sections["All columns"]
    assert "50000 rows" not in sections["All columns"]
    assert "2 methods, 4 columns: 50000 rows human, 50000 rows SEAL 20%, pixels" in sections["Larger data"]
    assert "| Cross Entropy | 1.00 | 90.0 |" in sections["Larger data"]
    assert "| SELC (automatic) | 1.00 | 90.0 |" in sections["All columns: every method"]
    assert "| SELC (automatic) | 1.00 | 90.0 |" not in sections["All columns"]  # the mean over the seeds decides there
    assert "suite-cpu-large.svg" in {picture.name for picture in pictures}


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    (page,) = write_suite(load("suite"), "cpu", {}, tmp_path)
    assert "Nothing to compare yet" in page.read_text()
