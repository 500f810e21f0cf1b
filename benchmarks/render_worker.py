"""The part of `docs/benchmarks.md` about workers, from the rows of the worker benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "worker.json"
LAST_RELEASE = "perago 0.6.1"
HEAD = (
    "| case | round trip | subject | attempts a second | CPU of an attempt | first completion"
    " | memory of all, parent, executor | requests to lakeFS | idle CPU |"
)


def worker_section() -> list[str]:
    """Lines of Markdown; none before the first run."""
    if not RESULT.exists():
        return []
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    rows, taken = report["rows"], report["taken"]
    lines = [
        "## Workers",
        "",
        "Rendered by `make bench-worker`. `perago start -j 2` beside the last public release, on",
        "one real Conductor, in one run. Requests are those of one attempt, CPU is that of all",
        "processes of the worker. Workspace attempts start from one commit, each on its own",
        "branch; from the second on, Perago takes the files from its cache. The servers keep their",
        f"files in memory and share the {taken['cpus']} CPUs with whatever else runs: the load was",
        f"{taken['load']} in the last 15 minutes of the run, which took {taken['seconds']} s.",
        "",
        HEAD,
        "|---|---|---|---|---|---|---|---|---|",
        *map(_line, rows),
        "",
    ]
    for row in rows:
        if row["growth"]:
            lines += [f"{row['case']}: {_grown(row['growth'])}.", ""]
    ratios = _ratios(rows)
    return [*lines, *ratios, ""] if ratios else lines


def _line(row: Mapping[str, Any]) -> str:
    idle = row["idle_cpu_percent"]
    cells = [
        row["case"],
        f"{row['rtt_ms']} ms",
        row["subject"],
        f"{row['attempts_per_second']:.3g}",
        f"{row['cpu_ms_per_attempt']:.2f} ms",
        f"{row['first_completion_s']:.2f} s",
        f"{row['rss_mb']:.0f}, {row['parent_rss_mb']:.0f}, {row['executor_rss_mb']:.0f} MB",
        "" if row["requests"] is None else f"{row['requests']:,}",
        "" if idle is None else f"{idle:.1f} %",
    ]
    return f"| {' | '.join(cells)} |"


def _grown(growth: Mapping[str, float]) -> str:
    return (
        f"{growth['first_tenth_per_second']:.0f} attempts a second in the first tenth of the queue,"
        f" {growth['last_tenth_per_second']:.0f} in the last; the parent took"
        f" {growth['early_parent_rss_mb']:.0f} MB after the first and"
        f" {growth['late_parent_rss_mb']:.0f} MB at the end"
    )


def _ratios(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ours over theirs, for each case that both ran."""
    theirs = {(row["case"], row["rtt_ms"]): row for row in rows if row["subject"] == LAST_RELEASE}
    told: list[str] = []
    for row in rows:
        other = theirs.get((row["case"], row["rtt_ms"]))
        if other is None or row is other:
            continue
        rate = row["attempts_per_second"] / other["attempts_per_second"]
        cpu = row["cpu_ms_per_attempt"] / other["cpu_ms_per_attempt"]
        first = row["first_completion_s"] / other["first_completion_s"]
        told.append(
            f"- {row['case']}, {row['rtt_ms']} ms: {rate:.2f} times the attempts a second of"
            f" {LAST_RELEASE}, {cpu:.2f} of its CPU, {first:.2f} of its time to the first."
        )
    return told
