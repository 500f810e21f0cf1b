"""How long `perago --version` and `--help` take, as multiples of bare `python -c pass`.

All commands take turns in one run, so that a busy machine slows them alike. The last public
release without these limits, 0.6.1, runs in its own environment beside ours.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools.servers.python_wheel import private_environment

ROUNDS = 15
PEER_ROUNDS = 3  # seconds each
TARGET_RATIO = 12.0
# Byte code is written as on a user's machine, also where the environment forbids it.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
PEER = "perago==0.6.1"
RESULT = Path(__file__).parent / "results" / "start_up.json"


@dataclass(slots=True)
class Command:
    """One command and the seconds of its runs."""

    name: str
    line: list[str]
    rounds: int = ROUNDS
    seconds: list[float] = field(default_factory=list[float])

    def run(self) -> None:
        """Run once, from process start to exit."""
        started = time.perf_counter()
        subprocess.run(self.line, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        self.seconds.append(time.perf_counter() - started)

    @property
    def median(self) -> float:
        """Return the run in the middle."""
        return statistics.median(self.seconds)


def commands(ours: Path, peer: Path) -> list[Command]:
    """Return what is compared; the first one is the unit of the ratios."""
    return [
        Command("python -c pass", [str(ours / "python"), "-c", "pass"]),
        Command("import typer", [str(ours / "python"), "-c", "import typer"]),
        Command("perago --version", [str(ours / "perago"), "--version"]),
        Command("perago --help", [str(ours / "perago"), "--help"]),
        Command(f"{PEER} --help", [str(peer / "perago"), "--help"], rounds=PEER_ROUNDS),
    ]


def main() -> int:
    """Measure, print, write; fail when ours is above the target."""
    compared = commands(Path(sys.prefix) / "bin", private_environment(PEER) / "bin")
    for command in compared:
        command.run()  # the first run fills caches and writes byte code
        command.seconds.clear()
    for turn in range(ROUNDS):
        for command in compared:
            if turn < command.rounds:
                command.run()
    unit = compared[0].median
    ratios = {command.name: round(command.median / unit, 1) for command in compared}
    for command in compared:
        print(f"{command.name:24} {command.median * 1000:8.1f} ms {ratios[command.name]:7.1f} x")
    RESULT.parent.mkdir(exist_ok=True)
    figures = {
        "unit": "median of one command over median of `python -c pass`, same run",
        "python": platform.python_version(),
        "rounds": ROUNDS,
        "target": TARGET_RATIO,
        "ratios": ratios,
        "milliseconds": {item.name: round(item.median * 1000, 1) for item in compared},
    }
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    slow = [name for name in ("perago --version", "perago --help") if ratios[name] > TARGET_RATIO]
    if slow:
        print(f"above {TARGET_RATIO:g} x: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
