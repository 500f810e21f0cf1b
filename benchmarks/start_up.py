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


def ours() -> list[Command]:
    """Return our commands; the first one is the unit of the ratios."""
    programs = Path(sys.prefix) / "bin"
    return [
        Command("python -c pass", [str(programs / "python"), "-c", "pass"]),
        Command("import typer", [str(programs / "python"), "-c", "import typer"]),
        Command("perago --version", [str(programs / "perago"), "--version"]),
        Command("perago --help", [str(programs / "perago"), "--help"]),
    ]


def peer() -> Command:
    """Return the same question to the peer, in the environment it has for itself."""
    program = private_environment(PEER) / "bin" / "perago"
    return Command(f"{PEER} --help", [str(program), "--help"], rounds=PEER_ROUNDS)


def ratios(compared: list[Command], rounds: int = ROUNDS) -> dict[str, float]:
    """Run the commands in turns; return each as a multiple of the first."""
    for command in compared:
        command.run()  # the first run fills caches and writes byte code
        command.seconds.clear()
    for turn in range(rounds):
        for command in compared:
            if turn < command.rounds:
                command.run()
    return {item.name: round(item.median / compared[0].median, 1) for item in compared}


def above_target(found: dict[str, float]) -> list[str]:
    """Return those of our commands that take too long."""
    return [name for name in ("perago --version", "perago --help") if found[name] > TARGET_RATIO]


def main() -> int:
    """Measure, print, write; fail when ours is above the target."""
    compared = [*ours(), peer()]
    found = ratios(compared)
    milliseconds = {item.name: round(item.median * 1000, 1) for item in compared}
    for name, ratio in found.items():
        print(f"{name:24} {milliseconds[name]:8.1f} ms {ratio:7.1f} x")
    figures = {
        "unit": "median of one command over median of `python -c pass`, same run",
        "python": platform.python_version(),
        "rounds": ROUNDS,
        "target": TARGET_RATIO,
        "ratios": found,
        "milliseconds": milliseconds,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if slow := above_target(found):
        print(f"above {TARGET_RATIO:g} x: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
