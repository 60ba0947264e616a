"""A plot of ratios as an SVG file: one bar for each row, with a line for its range and a mark at 1."""

from __future__ import annotations

from html import escape
from pathlib import Path

Row = tuple[str, float, float, float]  # name, median, low, high
_LEFT, _WIDTH, _STEP, _TOP = 190, 420, 24, 40


def write_bars(path: Path, title: str, rows: list[Row]) -> None:
    """Writes the plot; the widest range fills it."""
    most = max([high for _, _, _, high in rows] + [1.0])
    height = _TOP + _STEP * len(rows) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 90}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="20" font-weight="bold">{escape(title)}</text>',
        *(_bar(row, _TOP + _STEP * number, most) for number, row in enumerate(rows)),
        f'<line x1="{_at(1, most)}" x2="{_at(1, most)}" y1="{_TOP - 6}" y2="{height - 12}" stroke="black"/>',
        "</svg>",
    ]
    path.write_text("\n".join(parts) + "\n")


def _at(value: float, most: float) -> float:
    return round(_LEFT + _WIDTH * value / most, 1)


def _bar(row: Row, y: int, most: float) -> str:
    name, median, low, high = row
    colour = "#2b7bba" if median >= 1 else "#c23b22"
    return (
        f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{_LEFT}" y="{y}" width="{_at(median, most) - _LEFT:.1f}" height="16" fill="{colour}"/>'
        f'<line x1="{_at(low, most)}" x2="{_at(high, most)}" y1="{y + 8}" y2="{y + 8}" stroke="#333" stroke-width="2"/>'
        f'<text x="{_at(high, most) + 6}" y="{y + 12}">{median:.2f}x</text>'
    )
