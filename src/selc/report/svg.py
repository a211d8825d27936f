"""A small chart as SVG inside a page: lines, bars, a band, on two axes; in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 44
COLOURS = ("blue", "vermillion", "green", "purple", "orange", "ink")  # classes of the page's style
FEW = 20  # points; so few are also marked by dots, since a single one makes no line
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A curve: a gap where a value is not finite. Each has a colour and, for who sees none, a dash of its own."""

    name: str
    points: Sequence[Point]
    style: int = 0


@dataclass(frozen=True)
class Bars:
    """Columns from ``bottom`` to ``top``, as wide as the distance of their left edges."""

    name: str
    left: Sequence[float]
    bottom: Sequence[float]
    top: Sequence[float]
    width: float
    style: int = 0


@dataclass(frozen=True)
class Chart:
    """What is drawn on two axes. ``upright`` are places on the x axis, ``best`` a point that is marked."""

    x: str
    y: str
    lines: Sequence[Line] = ()
    bars: Sequence[Bars] = ()
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high
    upright: Sequence[float] = ()
    best: Point | None = None
    y_range: tuple[float, float] | None = None
    x_range: tuple[float, float] | None = None
    whole: bool = True  # the x axis counts, as epochs do
    size: tuple[int, int] = (WIDTH, HEIGHT)

    def svg(self, label: str) -> str:
        """The drawing; ``label`` says in words what it shows."""
        points = [p for line in self.lines for p in line.points if math.isfinite(p[1])]
        points += [(x, y) for x, *ys in self.band for y in ys]
        points += [(b.left[0], 0.0) for b in self.bars] + [(b.left[-1] + b.width, max(b.top)) for b in self.bars]
        points = points or [(0.0, 0.0), (1.0, 1.0)]
        xs = self.x_range or (min(p[0] for p in points), max(max(p[0] for p in points), *self.upright, -math.inf))
        ys = self.y_range or (min(p[1] for p in points), max(p[1] for p in points))
        return self._draw(_widened(xs), _widened(ys), label)

    def _draw(self, xs: Point, ys: Point, label: str) -> str:
        width, height = self.size
        right, low = width - RIGHT, height - BOTTOM

        def px(x: float) -> float:
            return round(LEFT + (x - xs[0]) / (xs[1] - xs[0]) * (right - LEFT), 1)

        def py(y: float) -> float:
            return round(low - (min(max(y, ys[0]), ys[1]) - ys[0]) / (ys[1] - ys[0]) * (low - TOP), 1)

        parts = []
        for y in ticks(*ys):
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{py(y)}" y2="{py(y)}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{py(y) + 4}" text-anchor="end">{y:g}</text>')
        parts += [
            f'<text x="{px(x)}" y="{low + 17}" text-anchor="middle">{x:g}</text>'
            for x in ticks(*xs, whole=self.whole, most=6)
        ]
        for box in self.bars:
            for left, bottom, top in zip(box.left, box.bottom, box.top, strict=True):
                if top > bottom:
                    wide, tall = px(left + box.width) - px(left), py(bottom) - py(top)
                    parts.append(
                        f'<rect class="{COLOURS[box.style]} fill" x="{px(left)}" y="{py(top)}" '
                        f'width="{wide:.1f}" height="{tall:.1f}"/>'
                    )
        if self.band:
            edge = [f"{px(x)},{py(high)}" for x, _, high in self.band]
            edge += [f"{px(x)},{py(bottom)}" for x, bottom, _ in reversed(self.band)]
            parts.append(f'<polygon class="blue band" points="{" ".join(edge)}"/>')
        parts += [f'<line class="upright" x1="{px(x)}" x2="{px(x)}" y1="{TOP}" y2="{low}"/>' for x in self.upright]
        for line in self.lines:
            parts += _curve(line, px, py)
        if self.best is not None:
            parts.append(f'<circle class="vermillion fill" cx="{px(self.best[0])}" cy="{py(self.best[1])}" r="5"/>')
        parts.append(f'<text x="{(LEFT + right) / 2:g}" y="{height - 8}" text-anchor="middle">{escape(self.x)}</text>')
        middle = (TOP + low) / 2
        parts.append(
            f'<text transform="translate(13 {middle:g}) rotate(-90)" text-anchor="middle">{escape(self.y)}</text>'
        )
        head = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        return head + "".join(parts) + "</svg>"

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """Name, class of the colour, and whether it is a line or a bar."""
        entries = [(b.name, COLOURS[b.style], "fill") for b in self.bars]
        return entries + [(line.name, COLOURS[line.style], "line") for line in self.lines]


def _curve(line: Line, px: Callable[[float], float], py: Callable[[float], float]) -> list[str]:
    known = [(px(x), py(y)) if math.isfinite(y) else None for x, y in line.points]
    path, pen = [], "M"
    for point in known:
        if point is not None:
            path.append(f"{pen}{point[0]} {point[1]}")
        pen = "M" if point is None else "L"
    parts = [f'<path class="{COLOURS[line.style]} stroke" d="{"".join(path)}"/>'] if path else []
    if len(known) <= FEW:
        dots = [f'<circle class="{COLOURS[line.style]} fill" cx="{p[0]}" cy="{p[1]}" r="2.5"/>' for p in known if p]
        parts += dots
    return parts


def _widened(ends: Point) -> Point:
    """An axis has a length, also where all values are one."""
    low, high = ends
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def ticks(low: float, high: float, *, whole: bool = False, most: int = 5) -> list[float]:
    """Round numbers in a range, at most about ``most`` of them.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(1, 10, whole=True)
    [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    if whole:
        step = max(1.0, step)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]


def heat(shares: Sequence[Sequence[float]], names: Sequence[str], rows: str, columns: str, label: str) -> str:
    """A matrix of shares from 0 to 1 as squares; the names of the classes appear where the pointer rests."""
    C = len(shares)
    side = max(4, min(26, 560 // max(C, 1)))
    left = top = 24
    parts = []
    for i, line in enumerate(shares):
        for j, share in enumerate(line):
            if share > 0:
                title = escape(f"{names[i]} to {names[j]}: {share:.1%}")
                parts.append(
                    f'<rect class="blue fill" fill-opacity="{share:.2f}" x="{left + j * side}" y="{top + i * side}" '
                    f'width="{side}" height="{side}"><title>{title}</title></rect>'
                )
    size = C * side
    parts.append(f'<rect class="grid frame" x="{left}" y="{top}" width="{size}" height="{size}"/>')
    parts.append(f'<text x="{left + size / 2:g}" y="15" text-anchor="middle">{escape(columns)}</text>')
    parts.append(
        f'<text transform="translate(15 {top + size / 2:g}) rotate(-90)" text-anchor="middle">{escape(rows)}</text>'
    )
    whole = left + size + 6
    head = f'<svg class="chart heat" viewBox="0 0 {whole} {whole}" role="img" aria-label="{escape(label)}">'
    return head + "".join(parts) + "</svg>"
