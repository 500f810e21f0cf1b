"""The part of `docs/benchmarks.md` about Spark, from the rows of the Spark benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "spark.json"
LOCAL, DEFAULT, OURS = "local disk", "default (FileOutputCommitter v1)", "perago"
MEMORY = "driver memory, "
PIPELINE = "pipeline, "
PIPELINES = ("local pipeline", "spark pipeline")
PIPELINE_COLUMNS = (
    "round trip",
    "step",
    "local, s",
    "Spark, s",
    "times local",
    "requests for one object, local",
    "Spark",
    "rounds",
)

EXPLAINED = """\
## Spark

Rendered by `make bench-spark`. What is compared, on one real lakeFS, in one Spark session a part:

- **Writing partitions**: one write of a data frame, to local disk, through S3A with the committers
  that Hadoop has, and in a Perago task. Seconds are the median of as many rounds as the row says.
- **Pipeline**: the steps of an attempt on a large workspace, once in the worker itself and once as
  Spark jobs. `times local` above 1 says what Spark costs where one machine is enough.
- **Driver**: what a driver keeps in memory for a workspace of so many objects.

Where it is fair: every subject writes the same rows to the same server, in turns, and requests are
counted by the server. Where it is not: Spark has no second machine here, and the {cpus} CPUs
({machine}) are shared with the server, so these figures say what a way costs and not how it grows
with a cluster. Local disk has no branch, no commit and no other writer to be kept apart from. The
whole run took {all_seconds} s.
"""


def spark_section() -> list[str]:
    """Lines of Markdown; none before the first run."""
    if not RESULT.exists():
        return []
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    rows, taken = report["rows"], report["taken"]
    lines = [
        *EXPLAINED.format(
            **taken, all_seconds=taken["seconds"] + taken.get("pipeline_seconds", 0)
        ).splitlines(),
        "",
    ]
    memory = [row for row in rows if row["case"].startswith(MEMORY)]
    piped = [row for row in rows if row["case"].startswith(PIPELINE)]
    timed = [row for row in rows if row not in memory and row not in piped]
    for case, step in dict.fromkeys((row["case"], row["step"]) for row in timed):
        found = [row for row in rows if (row["case"], row["step"]) == (case, step)]
        lines += [f"### {case}, {step}", "", *_table(found), ""]
        lines += _targets(found)
    return lines + _pipeline(piped) + _memory(memory)


def _pipeline(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The pipeline as Spark jobs beside the local one, by round trip and step."""
    if not rows:
        return []
    lines = [f"### {rows[0]['case']}", "", *_head(*PIPELINE_COLUMNS)]
    for rtt, step in dict.fromkeys((row["rtt_ms"], row["step"]) for row in rows):
        found = [row for row in rows if (row["rtt_ms"], row["step"]) == (rtt, step)]
        local, spark = (next(row for row in found if row["subject"] == one) for one in PIPELINES)
        lines.append(
            f"| {rtt} ms | {step} | {local['seconds']:,.2f} | {spark['seconds']:,.2f}"
            f" | {spark['seconds'] / local['seconds']:,.1f}"
            f" | {local['requests']:,} | {spark['requests']:,} | {_rounds(spark)} |"
        )
    return [*lines, ""]


def _memory(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the driver of the Spark pipeline kept, by the number of objects."""
    if not rows:
        return []
    lines = ["### driver of the Spark pipeline, one round", "", *_head("objects", "part", "MB")]
    for row in rows:
        objects = row["case"].removeprefix(MEMORY).removesuffix(" objects")
        lines.append(f"| {objects} | {row['step']} | {row['bytes'] / 1e6:,.0f} |")
    return [*lines, ""]


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = _head("round trip", "subject", "seconds", "requests", "rounds")
    for row in rows:
        requests = "" if row["requests"] is None else f"{row['requests']:,}"
        cells = f"{row['rtt_ms']} ms", row["subject"], f"{row['seconds']:,.2f}", requests
        lines.append(f"| {' | '.join(cells)} | {_rounds(row)} |")
    return lines


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _rounds(row: Mapping[str, Any]) -> int:
    rounds: int = row["rounds"]
    return rounds


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
