"""Judges a recorded history: `python -m tests.histories.check FILE`.

Reads the file and nothing else.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.histories.branches import judge_registers, registers_of
from tests.histories.exchange import END, Exchange, read_history
from tests.histories.rows import judge_rows


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was looked at, and what is wrong with it."""

    exchanges: int
    unsettled: int
    faults: int
    registers: int
    operations: int
    publications: int
    completed: int
    terminal: int
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.exchanges:,} requests ({self.unsettled:,} of unknown outcome, {self.faults:,} "
            f"with a fault of the network), {self.registers:,} branches and tags with "
            f"{self.operations:,} operations, {self.publications:,} publications, "
            f"{self.completed:,} rows completed and {self.terminal:,} failed for good, "
            f"{len(self.wrong)} violations"
        )


def check_history(history: Sequence[Exchange]) -> Verdict:
    """Everything that can be wrong with a history."""
    wrong = [
        f"line {number} is answered before it is asked"
        for number, each in enumerate(history, start=1)
        if each.answered is not None and each.answered < each.asked
    ]
    registers, rows = registers_of(history), judge_rows(history)
    wrong += [*judge_registers(registers), *dict.fromkeys(rows.wrong)]
    asked = [each for each in history if each.server != END]
    return Verdict(
        exchanges=len(asked),
        unsettled=sum(not each.settled for each in asked),
        faults=sum(bool(each.fault) for each in asked),
        registers=len(registers.operations),
        operations=sum(len(each) for each in registers.operations.values()),
        publications=sum(len(each) for each in rows.keys.values()),
        completed=rows.completed,
        terminal=rows.terminal,
        wrong=tuple(wrong),
    )


def main() -> int:
    """Say what is wrong; 1 when anything is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    verdict = check_history(list(read_history(parser.parse_args().file)))
    sys.stdout.write("\n".join((str(verdict), *verdict.wrong, "")))
    return int(bool(verdict.wrong))


if __name__ == "__main__":
    sys.exit(main())
