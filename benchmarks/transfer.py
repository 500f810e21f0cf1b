"""`make bench-transfer`: workspaces down and up, Perago beside its neighbours, in one run.

Writes `benchmarks/results/transfer.json` and renders `docs/benchmarks.md` from it.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.servers.go_programs import lakefs_programs
from tools.servers.python_wheel import private_environment

from benchmarks.listed_checksums import check
from benchmarks.render_transfer import render
from benchmarks.transfer_ground import Ground, Seeded, ground, requests_of, seed
from benchmarks.transfer_rows import CHECKED, FULL, QUICK, Case, Row

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "transfer.json"
RTTS_MS = (0, 20)
PEER_SECONDS_MAX = 60
PEER_SECONDS_MAX_QUICK = 10
PEER = "perago==0.6.1"
LAKEFS_SPEC = "lakefs-spec==0.15.1"
COPY = "cp -r"
LANES = {0: "16", 20: "48"}


def measure(
    stage: Ground, seeded: Seeded, rtt: int, subject: str, *, seconds_max: int
) -> Iterator[Row]:
    """Let one subject do its steps and read what it tells."""
    case = seeded.case
    directory = stage.place / "work"
    for step_argument, steps in _commands(case, subject):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        variables = {
            "BENCH_ENDPOINT": stage.endpoints[case.store, rtt],
            "BENCH_KEY": seeded.server.access_key_id,
            "BENCH_SECRET": seeded.server.secret_access_key,
            "BENCH_REPOSITORY": seeded.repository,
            "BENCH_COMMIT": seeded.commit,
            "BENCH_NEXT_COMMIT": seeded.next_commit,
            "BENCH_DIRECTORY": str(directory),
            "BENCH_FILES": str(case.files),
            "BENCH_SECONDS_MAX": str(seconds_max),
            "BENCH_BRANCH": f"stage-{os.urandom(4).hex()}",
            "BENCH_LANES": LANES[rtt],
            "BENCH_SERVER": seeded.server.endpoint,
        }
        if subject == "perago 0.6.1" and step_argument == "stage":
            variables["BENCH_DIRECTORY"] = str(seeded.tree)
        if subject in {"presigned", "api"}:
            variables |= {"BENCH_ROUTE": subject, "BENCH_NO_CACHE": "1"}
        if subject == COPY:
            variables["BENCH_TREE"] = str(seeded.tree)
        if subject == "unchecked loop":
            variables["BENCH_UNCHECKED"] = "1"
        before = requests_of(seeded.server)
        told = _told(subject, [step_argument, *steps], variables)
        all_requests = requests_of(seeded.server) - before
        for step, seconds, part, requests in told:
            yield Row(
                case.name,
                step,
                rtt,
                subject,
                round(seconds / part, 4),
                requests or (all_requests if len(told) == 1 and part == 1 else None),
                case.bytes // (1 if step == "cold" else 100),
                round(part, 4),
            )
    shutil.rmtree(directory, ignore_errors=True)


def _line_of(row: Row) -> str:
    """A row for people who wait."""
    return f"{row.case:18} {row.rtt_ms:3} ms {row.subject:13} {row.step:6} {row.seconds:9.2f} s"


def _commands(case: Case, subject: str) -> list[tuple[str, tuple[str, ...]]]:
    if subject == "perago":
        return [("cold", case.steps[1:])]
    if subject == "perago 0.6.1":
        return [(step, ()) for step in case.steps]
    return [("warm" if subject == COPY else "cold", ())]


def _told(
    subject: str, steps: list[str], variables: dict[str, str]
) -> list[tuple[str, float, float, int | None]]:
    if subject == "lakectl":
        return [(*_lakectl(variables), None)]
    if subject == CHECKED:
        step, seconds, part = _lakectl(variables)
        return [(step, seconds + check(variables), part, None)]
    if subject == COPY:
        return [("warm", _copied(variables), 1.0, 0)]
    line = [*_program(subject), *steps]
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{subject} failed:\n{done.stdout}\n{done.stderr}")
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [
        (answer["step"], answer["seconds"], answer["part"], answer["requests"])
        for answer in answers
    ]


def _program(subject: str) -> list[str]:
    folder = ROOT / "benchmarks" / "subjects"
    match subject:
        case "perago" | "presigned" | "api":
            return [sys.executable, "-m", "benchmarks.subjects.ours"]
        case "bare loop" | "unchecked loop":
            return [sys.executable, str(folder / "bare.py")]
        case "perago 0.6.1":
            python = private_environment(PEER) / "bin" / "python"
            return [str(python), str(folder / "release_061.py")]
        case "lakefs-spec":
            python = private_environment(LAKEFS_SPEC) / "bin" / "python"
            return [str(python), str(folder / "lakefs_spec_subject.py")]
        case _:
            raise ValueError(subject)


def _copied(variables: dict[str, str]) -> float:
    """What the same files cost without lakeFS, checks or Python: the floor of a warm start."""
    line = ["cp", "-r", "--reflink=auto", variables["BENCH_TREE"], variables["BENCH_DIRECTORY"]]
    started = time.perf_counter()
    subprocess.run(line, check=True)
    return time.perf_counter() - started


def _lakectl(variables: dict[str, str]) -> tuple[str, float, float]:
    environment = {
        **os.environ,
        "LAKECTL_SERVER_ENDPOINT_URL": variables["BENCH_ENDPOINT"],
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": variables["BENCH_KEY"],
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": variables["BENCH_SECRET"],
    }
    source = f"lakefs://{variables['BENCH_REPOSITORY']}/{variables['BENCH_COMMIT']}/ws/"
    line = [str(lakefs_programs() / "lakectl"), "fs", "download", "--recursive", "--no-progress"]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*line, source, variables["BENCH_DIRECTORY"]],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _, errors = process.communicate(timeout=int(variables["BENCH_SECONDS_MAX"]))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        done = sum(len(files) for _, _, files in os.walk(variables["BENCH_DIRECTORY"]))
        part = max(done, 1) / int(variables["BENCH_FILES"])
        return "cold", time.perf_counter() - started, part
    if process.returncode:
        raise SystemExit(f"lakectl failed: {errors.decode()}")
    return "cold", time.perf_counter() - started, 1.0


def _taken(
    cases: Sequence[Case], seconds: float, *, is_part: bool, is_quick: bool
) -> dict[str, Any]:
    """Where and how the figures were taken; a part of a run keeps what is said of the whole."""
    if is_part and RESULT.exists():
        before: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))["taken"]
        again = {*before.get("again", ()), *(case.name for case in cases)}
        return {**before, "again": sorted(again)}
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "quick": is_quick,
        "seconds": round(seconds),
        "peer_seconds_max": PEER_SECONDS_MAX_QUICK if is_quick else PEER_SECONDS_MAX,
    }


def _with_others(rows: list[dict[str, object]], keeps: bool) -> list[dict[str, object]]:  # noqa: FBT001
    """The rows in the order of the cases, those of a run before in their places."""
    if keeps and RESULT.exists():
        measured = {row["case"] for row in rows}
        before = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
        rows = rows + [row for row in before if row["case"] not in measured]
    order = [case.name for case in (*FULL, *QUICK)]
    return sorted(rows, key=lambda row: order.index(str(row["case"])))


def main() -> None:
    """Run the cases and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases, under three minutes")
    parser.add_argument("--case", help="measure only cases of this name, keep the other rows")
    arguments = parser.parse_args()
    cases = [
        case
        for case in (QUICK if arguments.quick else FULL)
        if arguments.case is None or arguments.case in case.name
    ]
    seconds_max = PEER_SECONDS_MAX_QUICK if arguments.quick else PEER_SECONDS_MAX
    rows: list[Row] = []
    started = time.perf_counter()
    with ground(RTTS_MS, {case.store for case in cases}) as stage:
        for case in cases:
            seeded = seed(stage.servers[case.store], case, stage.place)
            for rtt in RTTS_MS:
                for subject in case.subjects:
                    for row in measure(stage, seeded, rtt, subject, seconds_max=seconds_max):
                        rows.append(row)
                        print(_line_of(row), flush=True)
            shutil.rmtree(seeded.tree, ignore_errors=True)
    report = {
        "taken": _taken(
            cases,
            time.perf_counter() - started,
            is_part=arguments.case is not None,
            is_quick=arguments.quick,
        ),
        "rows": _with_others([row.as_json() for row in rows], arguments.case is not None),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    render(RESULT)


if __name__ == "__main__":
    main()
