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

EXPLAINED = """\
## Workers

Rendered by `make bench-worker`. What is compared: `perago start -j 2` and the last public release
0.6.1, each on a queue that was full before it started, on one real Conductor, in turns. Attempts a
second count from the first completion to the last. CPU is that of all processes of the worker,
requests are those of one attempt. In the row with TLS, Conductor itself speaks TLS with a
certificate of its own, which both trust by `SSL_CERT_FILE`.

Where it is fair: both have the same queue, the same Conductor, and the same versions of the
libraries that both use. Empty tasks are the median of three rounds (of one with `QUICK=1`).

Where it is not:

- An empty task does nothing, so its row shows what Perago itself costs. A task function that
  calculates for a second hides all of it.
- Conductor works on the same {cpus} CPUs and needs more of them than either worker. Attempts a
  second are mostly Conductor's, and differ from round to round; CPU is the steadier figure.
- 0.6.1 ends one attempt and takes the next in one request (`update-v2`). Perago asks for attempts
  separately, because a worker that drains must not be handed another one.
- Workspace attempts start from one commit, each on its own branch. From the second on, Perago takes
  the files from its cache; 0.6.1 has none and downloads them again. For inputs that are new each
  time, the cold starts above are the better comparison.
  0.6.1 runs fewer of them (12 and 6 instead of 100 and 60), because each takes it seconds.
- The servers keep their files in memory. The load of the machine was {load} in the last 15
  minutes of the run, which took {seconds} s.
"""


def worker_section() -> list[str]:
    """Lines of Markdown; none before the first run."""
    if not RESULT.exists():
        return []
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    rows, taken = report["rows"], report["taken"]
    lines = [
        *EXPLAINED.format(**taken).splitlines(),
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
        _way(row),
        row["subject"],
        f"{row['attempts_per_second']:.3g}",
        f"{row['cpu_ms_per_attempt']:.2f} ms",
        f"{row['first_completion_s']:.2f} s",
        f"{row['rss_mb']:.0f}, {row['parent_rss_mb']:.0f}, {row['executor_rss_mb']:.0f} MB",
        "" if row["requests"] is None else f"{row['requests']:,}",
        "" if idle is None else f"{idle:.1f} %",
    ]
    return f"| {' | '.join(cells)} |"


def _way(row: Mapping[str, Any]) -> str:
    return f"{row['rtt_ms']} ms" + (", TLS to Conductor" if row["tls"] else "")


def _grown(growth: Mapping[str, float]) -> str:
    return (
        f"{growth['first_tenth_per_second']:.0f} attempts a second in the first tenth of the queue,"
        f" {growth['last_tenth_per_second']:.0f} in the last; the parent took"
        f" {growth['early_parent_rss_mb']:.0f} MB after the first and"
        f" {growth['late_parent_rss_mb']:.0f} MB at the end"
    )


def _ratios(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ours over theirs, for each case that both ran."""
    theirs = {(row["case"], _way(row)): row for row in rows if row["subject"] == LAST_RELEASE}
    told: list[str] = []
    for row in rows:
        other = theirs.get((row["case"], _way(row)))
        if other is None or row is other:
            continue
        rate = row["attempts_per_second"] / other["attempts_per_second"]
        cpu = row["cpu_ms_per_attempt"] / other["cpu_ms_per_attempt"]
        first = row["first_completion_s"] / other["first_completion_s"]
        told.append(
            f"- {row['case']}, {_way(row)}: {rate:.2f} times the attempts a second of"
            f" {LAST_RELEASE}, {cpu:.2f} of its CPU, {first:.2f} of its time to the first."
        )
    return told
