"""How long `perago --version`, `--help` and `check` take, as multiples of bare `python -c pass`.

All commands take turns in one run, so that a busy machine slows them alike. The last public
release without these limits, 0.6.1, runs in its own environment beside ours: `check` of the same
module must take at most a third of its time.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from perago_servers.cache import private_environment

ROUNDS = 15
PEER_ROUNDS = 3  # seconds each
TARGET_RATIO = 12.0
CHECK_RATIO = 1 / 3  # of the time that 0.6.1 takes
OURS_CHECK, PEERS_CHECK = "perago check", "perago==0.6.1 check"
MODULE = """
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, require_file, task
class Params(BaseModel):
    rows: int = 1
class Result(BaseModel):
    written: int
@task(name="measured", owner_email="o@example.org", workspace=WorkspaceSpec(prefix="data"))
def build(workspace: Path, params: Params) -> Result:
    return Result(written=params.rows)
"""
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
    folder: Path | None = None
    seconds: list[float] = field(default_factory=list[float])

    def run(self) -> None:
        """Run once, from process start to exit."""
        started = time.perf_counter()
        environment = ENVIRONMENT
        if self.folder is not None:
            environment = ENVIRONMENT | {
                "PYTHONPATH": str(self.folder),
                "PERAGO_WORKSPACE_ROOT": str(self.folder / "workspaces"),
                "PERAGO_LOG_ROOT": str(self.folder / "logs"),
            }
        subprocess.run(
            self.line, env=environment, cwd=self.folder, stdout=subprocess.DEVNULL, check=True
        )
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


def checks(folder: Path) -> list[Command]:
    """Return the check of one module, by us and by the peer."""
    (folder / "measured.py").write_text(MODULE, encoding="utf-8")
    programs = {
        OURS_CHECK: Path(sys.prefix) / "bin",
        PEERS_CHECK: private_environment(PEER) / "bin",
    }
    return [
        Command(name, [str(place / "perago"), "check", "measured"], PEER_ROUNDS, folder)
        for name, place in programs.items()
    ]


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
    with tempfile.TemporaryDirectory() as folder:
        compared = [*ours(), peer(), *checks(Path(folder))]
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
        "check": {"of the peer": round(found[OURS_CHECK] / found[PEERS_CHECK], 3)},
        "milliseconds": milliseconds,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if slow := above_target(found):
        print(f"above {TARGET_RATIO:g} x: {', '.join(slow)}")
    share = found[OURS_CHECK] / found[PEERS_CHECK]
    print(f"check takes {share:.2f} of the time of {PEER}")
    return 1 if slow or share > CHECK_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
