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

EXPLAINED = """\
# Benchmarks

The tables below are rendered by `make bench-transfer`, `make bench-worker` and `make
bench-spark`; do not edit them. The table of publications is in [protocol](protocol.md).

## Transfers

What is compared: the time from the first request to the last byte on disk, or in lakeFS, for each
client in turn, on the same real lakeFS, in one run. The machine had {cpus} CPUs ({machine}) and
Python {python}; the run took {seconds} s.

- **Round trip**: 0 ms is the server itself, 20 ms is the same server behind a proxy that holds
  every packet back. A round trip is what a request costs beside its bytes, so small objects show
  it.
- **TLS**: lakeFS speaks TLS itself, with a certificate of its own that the clients trust.
- **Cold start**: every object of a workspace is fetched into an empty directory.
- **Warm start**: the same after a change of 1 %, with the cache of the cold start; `cp -r` of the
  same files is the least that it can cost.
- **Staging**: the task function has changed 1 % of the files. They are found, uploaded to a new
  branch, checked and committed.
- **Many repositories**: each holds 10 files of 64 KiB and gets one whole attempt: download, a
  task function that changes one file, stage, publish. Perago works under `settled`. The first
  attempt proves the fence of the server; the last one shows what an attempt costs after that.
- **On s3**: the same objects by addresses that the block store has signed (`presigned`), and
  through lakeFS (`api`).
- **CPU** is processor time of the client: of the step for Perago, 0.6.1 and obstore, of the whole
  process for the programs. **Requests** are counted by lakeFS's API; requests to its S3 gateway
  are not among them.
- A figure marked ~ was extrapolated: its client was stopped after {peer_seconds_max} s.

Where it is fair: all read the same objects from the same server and write to the same file
system, one after the other. With four CPUs or more, the server has one half of them and the
client the other. Clients that leave it to their user get 16 requests side by side at 0 ms and 48
at 20 ms.

Where it is not:

- Perago compares the MD5 of every object that arrives, and so does `obstore, MD5`. lakectl, s5cmd
  and 0.6.1 compare nothing, rclone compares the gateway's ETag. `s5cmd, md5sum` is s5cmd and then
  the MD5 of every file, two at once.
- Perago, lakectl and 0.6.1 use lakeFS's API; s5cmd, rclone and obstore read through its S3
  gateway, which lists and serves objects by other code of the server.
- s5cmd does not check the certificate, because it can be given no authority.
- lakectl, s5cmd and rclone are started anew, which costs each some hundredths of a second.
  Perago, 0.6.1 and obstore are measured without their imports, and Perago has frozen what it
  imported: its worker does that once, too.
- lakectl, s5cmd and rclone only download, so they are missing where something is staged.
- With fewer than four CPUs, client and server share them: a client that needs little CPU then has
  a faster server. Local files lie in memory where the machine has such a place, so that the disk,
  which would be everybody's limit, is in no figure.
- Each figure is one round, so small differences are noise.
"""


def render(result: Path) -> None:
    """Write the page and the plot."""
    report = json.loads(result.read_text(encoding="utf-8"))
    rows = report["rows"]
    (DOCS / PLOT).write_text(_plot(rows), encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(_page(report["taken"], rows), encoding="utf-8")


def _page(taken: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        *EXPLAINED.format(**taken).splitlines(),
        "",
        *(["These are the short cases of `make bench-transfer QUICK=1`.", ""] * taken["quick"]),
        *(f"Measured again afterwards: {name}.\n" for name in taken.get("again", ())),
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
    "attempts": "one attempt in each",
    "attempts: the first": "the first attempt",
    "attempts: the last": "the last attempt",
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
