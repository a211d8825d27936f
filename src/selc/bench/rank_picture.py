"""The critical-difference picture: methods on a line of mean ranks; a bar joins those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from selc.bench.ranks import alike

WIDTH, LEFT, LINE = 900, 240, 18


def rank_picture(names: Sequence[str], ranks: Sequence[float], difference: float, label: str) -> str:
    """As SVG; ``names`` and ``ranks`` are sorted, the best first. ``label`` says in words what it shows."""
    k = len(names)
    groups = alike(ranks, difference)
    half = (k + 1) // 2
    axis, below = 50, 62 + 7 * len(groups)
    height = below + LINE * half + 20
    low, high = 1.0, max(float(k), 2.0)

    def at(rank: float) -> float:
        return LEFT + (rank - low) / (high - low) * (WIDTH - 2 * LEFT)

    parts = [_line(at(low), axis, at(high), axis)]
    for tick in range(1, k + 1):
        parts += [_line(at(tick), axis - 5, at(tick), axis), _text(at(tick), axis - 9, str(tick), "middle")]
    parts += [_line(at(low), 16, at(low + min(difference, high - low)), 16, 3)]
    parts += [_text(at(low), 11, f"critical difference {difference:.2f}", "start")]
    for number, (first, last) in enumerate(groups):
        y = axis + 10 + 7 * number
        parts.append(_line(at(ranks[first]) - 3, y, at(ranks[last]) + 3, y, 4))
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = place < half
        row = place if left else k - 1 - place
        y, x = below + LINE * row, LEFT - 10 if left else WIDTH - LEFT + 10
        parts += [_line(at(rank), axis, at(rank), y), _line(at(rank), y, x, y)]
        parts.append(_text(x - 4 if left else x + 4, y + 4, f"{name} {rank:.2f}", "end" if left else "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(label, quote=True)}" font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _line(x1: float, y1: float, x2: float, y2: float, width: int = 1) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="black" stroke-width="{width}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
