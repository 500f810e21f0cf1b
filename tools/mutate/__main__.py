"""`python -m tools.mutate [MODULE...]`: mutants of the domain against their modules' own tests.

One process, one mutant after another: each is a fork that imports the changed module instead of
the file and runs that module's tests. Prints what survived and the score.
"""

import importlib
import importlib.abc
import importlib.machinery
import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tools.mutate.changes import TEXT
from tools.mutate.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
DOMAIN = ROOT / "src" / "perago" / "domain"
TESTS = ROOT / "tests" / "unit" / "domain"
# Imported before the first fork, so that no child pays for them.
PAID_ONCE = ("asyncio", "hypothesis.strategies", "pytest_asyncio", "pytest_timeout", "xdist.plugin")
SECONDS_AT_LEAST = 5.0
TIMES_SLOWER = 10
SURVIVED, KILLED, TIMED_OUT = 0, 1, 2
OPTIONS = (
    *("-x", "-q", "--no-header", "--tb=no", "--assert=plain", "--hypothesis-seed=0"),
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"),
    f"--confcutdir={TESTS}",
)


@dataclass
class Score:
    """What became of the mutants of one module."""

    module: str
    killed: int = 0
    timed_out: int = 0
    decisions: list[Mutant] = field(default_factory=list[Mutant])
    texts: list[Mutant] = field(default_factory=list[Mutant])

    @property
    def noticed(self) -> int:
        """How many mutants a test noticed."""
        return self.killed + self.timed_out

    @property
    def total(self) -> int:
        """How many mutants there were."""
        return self.noticed + len(self.decisions) + len(self.texts)


class _Instead(importlib.machinery.SourceFileLoader):
    """Loads the mutant where the module is asked for."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        assert fullname == self.name
        return self.code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname != self.name:
            return None
        loader = _Instead(self.name, str(self.path), self.code)
        return importlib.machinery.ModuleSpec(fullname, loader, origin=str(self.path))


def run_tests(module: Path, code: CodeType, seconds: float) -> int:
    """Fork, put the code in the module's place, run its tests; how it ended."""
    child = os.fork()
    if child == 0:
        ended = KILLED
        try:
            ended = _in_the_child(module, code)
        finally:
            os._exit(ended)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return SURVIVED if os.waitstatus_to_exitcode(status) == SURVIVED else KILLED
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TIMED_OUT


def _in_the_child(module: Path, code: CodeType) -> int:
    sys.meta_path.insert(0, _Finder(f"perago.domain.{module.stem}", module, code))
    test = TESTS / f"test_{module.stem}.py"
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        ended = pytest.main([*OPTIONS, str(test)])
    return SURVIVED if ended is pytest.ExitCode.OK else KILLED


def mutate(module: Path) -> Score:
    """Try every mutant of one module."""
    source = module.read_text(encoding="utf-8")
    started = time.monotonic()
    if run_tests(module, compile(source, str(module), "exec"), 60.0) != SURVIVED:
        raise SystemExit(f"the tests of {module.stem} fail without any change")
    seconds = max(SECONDS_AT_LEAST, TIMES_SLOWER * (time.monotonic() - started))
    score = Score(module.stem)
    for mutant in mutants_of(source):
        match run_tests(module, compile(mutant.tree, str(module), "exec"), seconds):
            case 0:
                (score.texts if mutant.kind == TEXT else score.decisions).append(mutant)
            case 1:
                score.killed += 1
            case _:
                score.timed_out += 1
    return score


def tell(score: Score) -> None:
    """Print the survivors and the score of one module."""
    for kind, mutants in (("survived", score.decisions), ("text survived", score.texts)):
        for mutant in mutants:
            place = f"{score.module}.py:{mutant.line}"
            print(f"  {kind} {place} ({mutant.kind}): {mutant.before}  ->  {mutant.after}")
    print(f"{score.module:24} {score.noticed:4}/{score.total:<4} noticed", flush=True)


def main(names: Sequence[str]) -> int:
    """Mutate the named modules, or all that have tests."""
    for plugin in PAID_ONCE:
        importlib.import_module(plugin)
    modules = [DOMAIN / f"{name}.py" for name in names] or [
        module
        for module in sorted(DOMAIN.glob("[!_]*.py"))
        if (TESTS / f"test_{module.name}").exists()
    ]
    scores: list[Score] = []
    for module in modules:
        scores.append(mutate(module))
        tell(scores[-1])
    noticed, total = sum(one.noticed for one in scores), sum(one.total for one in scores)
    decisions = sum(len(one.decisions) for one in scores)
    print(f"{noticed} of {total} mutants noticed ({noticed / total:.1%}), {decisions} survivors")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
