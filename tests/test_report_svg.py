"""The drawings of a report: sound SVG whose points lie where their values say, without matplotlib."""

from __future__ import annotations

import itertools
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from selc.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Bars, Chart, Line, heat, ticks


def drawn(chart: Chart, label: str = "a chart") -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg(label))


def test_points_lie_where_their_values_say() -> None:
    values = [(1.0, 0.0), (2.0, 0.25), (5.0, 1.0)]
    root = drawn(Chart("epoch", "share", [Line("a", values)], y_range=(0, 1)))
    dots = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle")]
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    expected = [(LEFT + (x - 1) / 4 * wide, TOP + (1 - y) * tall) for x, y in values]
    for dot, wanted in zip(dots, expected, strict=True):
        assert dot == pytest.approx(wanted, abs=0.06)


def test_a_gap_breaks_the_line_and_one_point_is_a_dot() -> None:
    gap = drawn(Chart("x", "y", [Line("a", [(0, 0.1), (1, 0.2), (2, float("nan")), (3, 0.2), (4, 0.3)])]))
    [path] = gap.iter("path")
    assert path.attrib["d"].count("M") == 2
    assert path.attrib["d"].count("L") == 2
    assert len(list(drawn(Chart("x", "y", [Line("a", [(3, 0.5)])])).iter("circle"))) == 1
    assert list(drawn(Chart("x", "y")).iter("text"))  # nothing to draw is an empty chart


def test_bars_are_as_tall_as_their_values_and_stack() -> None:
    low = Bars("a", [0, 0.5], [0, 0], [0.2, 0.4], 0.5)
    high = Bars("b", [0, 0.5], [0.2, 0.4], [0.4, 0.8], 0.5, style=1)
    root = drawn(Chart("x", "y", bars=[low, high], y_range=(0, 1)))
    heights = [float(r.attrib["height"]) for r in root.iter("rect")]
    tall = HEIGHT - TOP - BOTTOM
    assert heights == pytest.approx([0.2 * tall, 0.4 * tall, 0.2 * tall, 0.4 * tall], abs=0.11)
    below, above = (next(r for r in root.iter("rect") if r.attrib["class"].startswith(c)) for c in ("blue", "verm"))
    assert float(above.attrib["y"]) + float(above.attrib["height"]) == pytest.approx(float(below.attrib["y"]), abs=0.11)


def test_names_are_text_and_never_markup() -> None:
    evil = '"><script>alert(1)</script>&'
    root = drawn(Chart(evil, evil, [Line(evil, [(0, 1), (1, 2)])]), evil)
    assert root.attrib["aria-label"] == evil
    assert "script" not in {element.tag for element in root.iter()}
    matrix = ElementTree.fromstring(heat([[0.9, 0.1], [0.0, 1.0]], [evil, "b"], "given", "suggested", evil))
    assert [t.text for t in matrix.iter("title")] == [
        f"{evil} to {evil}: 90.0%",
        f"{evil} to b: 10.0%",
        "b to b: 100.0%",
    ]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 40), (0.483, 0.71), (0, 1e-6), (-3, 12_000), (1, 2)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    for whole in (False, True):
        found = ticks(low, high, whole=whole)
        assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
        assert len(found) <= 7
        if whole:
            assert all(tick == round(tick) for tick in found)
        steps = {round(b - a, 9) for a, b in itertools.pairwise(found)}
        assert len(steps) <= 1


@pytest.mark.exhaustive
def test_a_report_and_a_review_need_no_matplotlib() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import selc.report.page, selc.review"
    subprocess.run([sys.executable, "-c", code], check=True)
