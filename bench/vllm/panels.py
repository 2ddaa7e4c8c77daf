"""Parts of a picture as SVG: panels with axes, lines and bars; no library needed."""

from __future__ import annotations

from collections.abc import Iterable

WIDTH, HEIGHT = 320, 250
_LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 62, 8, 34, 46, 14
COLOURS = {"native": "#b45309", "sharded": "#d9a066", "croupier": "#1d4ed8", "rows": "#0f766e"}
NAMES = {
    "native": "vLLM",
    "sharded": "vLLM, batch-sharded",
    "croupier": "Croupier",
    "rows": "Croupier, whole rows",
}
Point = tuple[float, float]


def colour_of(side: str) -> str:
    return COLOURS.get(side, "#64748b")


def round_up(value: float) -> float:
    """To four steps of a length that reads well."""
    for step in (s * 10.0**power for power in range(-2, 6) for s in (1, 1.5, 2, 2.5, 5)):
        if 4 * step >= value:
            return 4 * step
    return value


class Panel:
    """Axes from zero to about `most`, with four steps each; a `most` of 0 leaves the axis without numbers."""

    def __init__(self, place: int, title: str, across: str, along: str, most: Point, wide: int = 1) -> None:
        left = place * (WIDTH + _GAP)
        self._wide = wide
        self._x0, self._x1 = left + _LEFT, left + wide * (WIDTH + _GAP) - _GAP - _RIGHT
        self._y0, self._y1 = HEIGHT - _BOTTOM, _TOP
        self._most = round_up(most[0]) if most[0] else 1.0, round_up(most[1])
        middle = (self._y0 + self._y1) / 2
        turned = f'transform="rotate(-90 {left + 13} {middle:.0f})"'
        self._parts = [
            self._text((self._x0 + self._x1) / 2, _TOP - 14, title),
            self._text((self._x0 + self._x1) / 2, HEIGHT - 12, across),
            f'<text x="{left + 13}" y="{middle:.0f}" text-anchor="middle" {turned}>{along}</text>',
        ]
        for tick in range(5):
            value = self._most[1] * tick / 4
            y = self.y(value)
            self._parts.append(f'<path d="M{self._x0} {y:.1f}H{self._x1}" stroke="#ddd"/>')
            self._parts.append(self._text(self._x0 - 6, y + 4, f"{value:,g}", "end"))
            if most[0]:
                value = self._most[0] * tick / 4
                self._parts.append(self._text(self.x(value), self._y0 + 15, f"{value:,g}"))
        self._parts.append(
            f'<path d="M{self._x0} {self._y1}V{self._y0}H{self._x1}" fill="none" stroke="black"/>'
        )

    @staticmethod
    def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "black") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'

    def x(self, value: float) -> float:
        return self._x0 + (self._x1 - self._x0) * min(value / self._most[0], 1.0)

    def y(self, value: float) -> float:
        return self._y0 + (self._y1 - self._y0) * min(value / self._most[1], 1.0)

    def line(self, points: Iterable[Point], side: str) -> None:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour_of(side)}" stroke-width="1.6"/>'
        )

    def dot(self, point: Point, side: str) -> None:
        x, y = self.x(point[0]), self.y(point[1])
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour_of(side)}"/>')

    def note(self, row: int, text: str, side: str = "") -> None:
        """At the right, above the lower axis."""
        y = self._y0 - 8 - 14 * row
        self._parts.append(self._text(self._x1 - 4, y, text, "end", colour_of(side) if side else "#334155"))

    def group(self, place: int, count: int, name: str, bars: list[tuple[str, float, str]]) -> None:
        """Bars of one name: side, value and what stands above it."""
        wide = (self._x1 - self._x0) / count
        left = self._x0 + place * wide
        each = wide * 0.84 / max(len(bars), 1)
        for at, (side, value, label) in enumerate(bars):
            x, y = left + wide * 0.08 + at * each, self.y(value)
            self._parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{each * 0.9:.1f}" height="{self._y0 - y:.1f}" '
                f'fill="{colour_of(side)}"/>'
            )
            self._parts.append(self._text(x + each * 0.45, y - 4, label))
        self._parts.append(self._text(left + wide / 2, self._y0 + 15, name))

    @property
    def wide(self) -> int:
        return self._wide

    def svg(self) -> str:
        return "".join(self._parts)


def picture_of(panels: list[Panel], sides: Iterable[str], notes: str = "") -> str:
    width, height = sum(panel.wide for panel in panels) * (WIDTH + _GAP), HEIGHT + 24
    parts, left, middle = [panel.svg() for panel in panels], _LEFT, HEIGHT + 8
    for side in sides:
        name = NAMES.get(side, side)
        parts.append(f'<path d="M{left} {middle}h18" stroke="{colour_of(side)}" stroke-width="3"/>')
        parts.append(f'<text x="{left + 24}" y="{middle + 4}">{name}</text>')
        left += 46 + 7 * len(name)
    parts.append(f'<text x="{left}" y="{middle + 4}" fill="#334155">{notes}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width}" height="{height}" fill="white"/>{"".join(parts)}</svg>\n'
    )
