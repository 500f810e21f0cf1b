"""Which HTTP client moves objects: the candidates in a loop on one real lakeFS, in turns.

Prints the table of `docs/adr`; each candidate runs in an environment of its own.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from tools.servers.python_wheel import private_environment

from benchmarks.transfer_ground import ground, seed
from benchmarks.transfer_rows import KIB, MIB, Case

ROOT = Path(__file__).parents[1]
ROUNDS = 3
CANDIDATES = {
    "http.client": None,
    "pyreqwest": "pyreqwest==0.15.1",
    "aiohttp": "aiohttp==3.14.5",
    "obstore": "obstore==0.12.1",
}
CASES = (
    Case("1,000 x 64 KiB", 1_000, 64 * KIB, ("cold",), ()),
    Case("8 x 32 MiB", 8, 32 * MIB, ("cold",), ()),
)
LANES = {0: 16, 20: 48}


def main() -> None:
    """Measure all candidates in turns and print medians."""
    print("| case | round trip | client | down s (CPU s) | up s (CPU s) |")
    print("|---|---|---|---|---|")
    with ground((0, 20), {"local"}) as stage:
        for case in CASES:
            seeded = seed(stage.servers["local"], case, stage.place)
            for rtt, lanes in LANES.items():
                seconds: dict[tuple[str, str], list[float]] = {}
                for name in [name for _ in range(ROUNDS) for name in CANDIDATES]:
                    directory = stage.place / "work"
                    shutil.rmtree(directory, ignore_errors=True)
                    directory.mkdir()
                    environment = {
                        **os.environ,
                        "BENCH_ENDPOINT": stage.endpoints["local", rtt],
                        "BENCH_KEY": seeded.server.access_key_id,
                        "BENCH_SECRET": seeded.server.secret_access_key,
                        "BENCH_REPOSITORY": seeded.repository,
                        "BENCH_COMMIT": seeded.commit,
                        "BENCH_DIRECTORY": str(directory),
                        "BENCH_FILES": str(case.files),
                        "BENCH_SECONDS_MAX": "60",
                        "BENCH_LANES": str(lanes),
                    }
                    for step, value in told(name, environment):
                        seconds.setdefault((name, step), []).append(value)
                show(case.name, rtt, seconds)


def show(case: str, rtt: int, seconds: dict[tuple[str, str], list[float]]) -> None:
    """One block of the table, as soon as it is measured."""
    for name in CANDIDATES:
        cells = [
            f"{statistics.median(seconds[name, step]):.2f}"
            f" ({statistics.median(seconds[name, f'{step} cpu']):.2f})"
            for step in ("down", "up")
        ]
        print(f"| {case} | {rtt} ms | {name} | {cells[0]} | {cells[1]} |", flush=True)


def told(name: str, environment: dict[str, str]) -> list[tuple[str, float]]:
    """What one candidate measured."""
    requirement = CANDIDATES[name]
    python = sys.executable
    if requirement is not None:
        python = str(private_environment(requirement) / "bin" / "python")
    program = str(ROOT / "benchmarks" / "subjects" / "client_loop.py")
    done = subprocess.run(
        [python, program, name], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [(answer["step"], answer["seconds"]) for answer in answers]


if __name__ == "__main__":
    main()
