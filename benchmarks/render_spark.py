"""The part of `docs/benchmarks.md` about Spark, from the rows of the Spark benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "spark.json"
LOCAL, DEFAULT, OURS = "local disk", "default (FileOutputCommitter v1)", "perago"
MEMORY = "driver memory, "


def spark_section() -> list[str]:
    """Lines of Markdown; none before the first run."""
    if not RESULT.exists():
        return []
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    rows, taken = report["rows"], report["taken"]
    lines = [
        "## Spark",
        "",
        "Rendered by `make bench-spark`. One session and one real lakeFS, every subject in turn,",
        f"the median of {taken['rounds']} rounds. {taken['cpus']} CPUs ({taken['machine']}) shared",
        f"with the server; the run took {taken['seconds']} s.",
        "",
    ]
    memory = [row for row in rows if row["case"].startswith(MEMORY)]
    timed = [row for row in rows if row not in memory]
    for case, step in dict.fromkeys((row["case"], row["step"]) for row in timed):
        found = [row for row in rows if (row["case"], row["step"]) == (case, step)]
        lines += [f"### {case}, {step}", "", *_table(found), ""]
        lines += _targets(found)
    return lines + _memory(memory)


def _memory(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the driver of the Spark pipeline kept, by the number of objects."""
    if not rows:
        return []
    lines = ["### driver of the Spark pipeline", "", "| objects | part | MB |", "|---|---|---|"]
    for row in rows:
        objects = row["case"].removeprefix(MEMORY).removesuffix(" objects")
        lines.append(f"| {objects} | {row['step']} | {row['bytes'] / 1e6:,.0f} |")
    return [*lines, ""]


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| round trip | subject | seconds | requests |", "|---|---|---|---|"]
    for row in rows:
        requests = "" if row["requests"] is None else f"{row['requests']:,}"
        cells = (f"{row['rtt_ms']} ms", row["subject"], f"{row['seconds']:,.2f}", requests)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _targets(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ours beside local disk and the default committer; nothing for cases without them."""
    told: list[str] = []
    for rtt in dict.fromkeys(row["rtt_ms"] for row in rows):
        seconds = {row["subject"]: row["seconds"] for row in rows if row["rtt_ms"] == rtt}
        if not {LOCAL, DEFAULT, OURS} <= seconds.keys():
            continue
        ours = seconds[OURS]
        told.append(
            f"- {rtt} ms: {ours / seconds[LOCAL]:.1f} times the write to local disk,"
            f" {ours / seconds[DEFAULT]:.2f} of the default committer."
        )
    return [*told, ""] if told else []
