"""Renders `docs/benchmarks.md` and its plot from the rows of the transfer benchmark."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.render_spark import spark_section
from benchmarks.render_worker import worker_section

DOCS = Path(__file__).parents[1] / "docs"
PLOT = "benchmarks.svg"
_WIDTH, _BAR, _LABEL = 860, 16, 330
_COLOURS = {"perago": "#1f6f54", "perago 0.6.1": "#b5523b"}
_GREY = "#8a94a0"


def render(result: Path) -> None:
    """Write the page and the plot."""
    report = json.loads(result.read_text(encoding="utf-8"))
    rows = report["rows"]
    (DOCS / PLOT).write_text(_plot(rows), encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(_page(report["taken"], rows), encoding="utf-8")


def _page(taken: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Rendered by `make bench-transfer`; do not edit. All subjects ran on the same real lakeFS",
        "in one run, one after the other; local files lie in memory where the machine has such a",
        "place. Perago's rows run as its worker does, which freezes what it has imported.",
        f"{taken['cpus']} CPUs ({taken['machine']}), shared with the servers; Python",
        f"{taken['python']}; the run took {taken['seconds']} s. A figure marked ~ was",
        f"extrapolated: its subject was stopped after {taken['peer_seconds_max']} s.",
        "",
        "Perago compares the MD5 of every object that arrives; so does `obstore, MD5`. lakectl and",
        "s5cmd do not, rclone takes the gateway's ETag for one; `s5cmd, md5sum` is s5cmd and then",
        "the MD5 of every file, two at once. CPU is processor time of the client: of the step for",
        "Perago and obstore, of the whole process for the programs.",
        *(["", "These are the short cases of `make bench-transfer QUICK=1`."] * taken["quick"]),
        *(f"Measured again afterwards: {name}." for name in taken.get("again", ())),
        "",
        f"![Seconds of every row]({PLOT})",
        "",
    ]
    places = dict.fromkeys((row["case"], row["step"]) for row in rows)
    for case, step in places:
        lines += [f"## {case}, {_STEPS[step]}", "", *_table(rows, case, step), ""]
    return "\n".join([*lines, *worker_section(), *spark_section()])


_STEPS = {
    "cold": "cold start",
    "warm": "warm start after a change of 1 %",
    "stage": "staging a change of 1 %",
}


def _way(row: dict[str, Any]) -> str:
    return f"{row['rtt_ms']} ms, {'TLS' if row['tls'] else 'plain'}"


def _table(rows: Sequence[dict[str, Any]], case: str, step: str) -> list[str]:
    found = [row for row in rows if (row["case"], row["step"]) == (case, step)]
    ours = {_way(row): row["seconds"] for row in found if row["subject"] == "perago"}
    lines = [
        "| round trip | subject | seconds | times Perago | CPU s | requests |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        mark = "~" if row["part"] < 1 else ""
        base = ours.get(_way(row))
        ratio = f"{row['seconds'] / base:.1f}" if base else ""
        cpu = "" if row["cpu"] is None else f"{row['cpu']:,.2f}"
        requests = "" if row["requests"] is None else f"{row['requests']:,}"
        lines.append(
            f"| {_way(row)} | {row['subject']} | {mark}{row['seconds']:,.2f}"
            f" | {ratio} | {cpu} | {requests} |"
        )
    return lines


def _plot(rows: Sequence[dict[str, Any]]) -> str:
    height = (len(rows) + 2) * (_BAR + 4)
    least = min(row["seconds"] for row in rows)
    span = math.log10(max(row["seconds"] for row in rows) / least * 1.3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">',
        "<style>text{font:11px sans-serif}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LABEL}" y="14">seconds, logarithmic</text>',
    ]
    for number, row in enumerate(rows, start=1):
        top = number * (_BAR + 4)
        length = max(2, (_WIDTH - _LABEL - 70) * (math.log10(row["seconds"] / least * 1.3) / span))
        colour = _COLOURS.get(row["subject"], _GREY)
        label = f"{row['case']}, {row['step']}, {_way(row)}: {row['subject']}"
        mark = "~" if row["part"] < 1 else ""
        figure = f"{mark}{row['seconds']:,.2f}"
        end, middle = _LABEL + length, top + 12
        parts += [
            f'<text x="{_LABEL - 6}" y="{middle}" text-anchor="end">{label}</text>',
            f'<rect x="{_LABEL}" y="{top}" width="{length:.0f}" height="{_BAR}" fill="{colour}"/>',
            f'<text x="{end + 4:.0f}" y="{middle}">{figure}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
