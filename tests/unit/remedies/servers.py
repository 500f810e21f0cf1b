"""The servers of a scene as a person reaches them: `lakectl`, `curl`, and Perago's own commands.

`lakectl` and `curl` know the calls that remedies name, and print what a person reads in their
answers. Anything else they are given is a mistake of the remedy, and raises.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import final

import pytest
from tests.people import discard_uncommitted
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.command_line.command_run import Ran
from tests.unit.remedies.shell import Shell

from perago.adapters.memory import installations
from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.domain.lakefs import BranchName, TagName
from perago.ports.installations import ConductorInstallation, LakeFSInstallation

CONDUCTOR = "http://127.0.0.1:8080/api"
WORKFLOW_OF = f"{CONDUCTOR}/workflow/"


def serve(shell: Shell, harness: AttemptHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands of a shell meet the servers of a harness."""
    lakefs = lakefs_installation(harness.lakefs, WorkerHandle())

    # Here an address of memory: becomes a server.
    def shared_lakefs(_: str) -> LakeFSInstallation:
        return lakefs

    def shared_conductor(_: str) -> ConductorInstallation:
        return harness.operator

    monkeypatch.setattr(installations, "shared_lakefs", shared_lakefs)
    monkeypatch.setattr(installations, "shared_conductor", shared_conductor)
    shell("export PERAGO_LAKEFS=memory:scene PERAGO_CONDUCTOR=memory:scene")
    shell.servers = {"lakectl": Lakectl(harness.repository), "curl": _curl(harness)}


@final
class Lakectl:
    """The verbs of lakectl that remedies name, on one repository."""

    def __init__(self, repository: RepositoryBuilder) -> None:
        self._repository = repository
        self._branches_of_lakefs = lakefs_installation(repository.lakefs, WorkerHandle()).branches
        self._rules: list[str] = []
        self._verbs: dict[str, Callable[..., Iterable[str]]] = {
            "repo list": lambda: [repository.id],
            "branch list": self._branches,
            "tag list": self._tags,
            "tag show": self._show_tag,
            "branch show": self._show,
            "branch delete": self._delete,
            "branch reset": self._reset,
            "branch-protect list": self._protected,
            "branch-protect add": self._protect,
            "branch-protect delete": self._unprotect,
            "log": self._log,
            "commit": self._commit,
            "fs ls": self._ls,
            "diff": self._diff,
        }

    def __call__(self, words: list[str]) -> Ran:
        """Run one of them."""
        verb = next(verb for verb in self._verbs if words[: len(verb.split())] == verb.split())
        lines = self._verbs[verb](*words[len(verb.split()) :])
        return Ran(0, "".join(f"{line}\n" for line in lines), "")

    def _parts(self, address: str) -> list[str]:
        name, *rest = address.removeprefix("lakefs://").split("/", 2)
        assert name == self._repository.id
        return rest

    def _branches(self, address: str) -> list[str]:
        assert self._parts(address) == []
        return sorted(self._repository.branch_names())

    def _tags(self, address: str) -> list[str]:
        assert self._parts(address) == []
        return sorted(self._repository.tags())

    def _show(self, address: str) -> list[str]:
        (branch,) = self._parts(address)
        return [f"Branch: {branch}", f"Commit ID: {self._repository.head(branch).commit}"]

    def _show_tag(self, address: str) -> list[str]:
        (tag,) = self._parts(address)
        return [f"ID: {tag}", f"Commit ID: {self._repository.tags()[TagName(tag)]}"]

    def _delete(self, address: str) -> list[str]:
        self._repository.delete_branch(*self._parts(address))
        return []

    def _log(self, address: str) -> list[str]:
        (branch,) = self._parts(address)
        return [f"{each.commit} {each.message}" for each in self._repository.history(branch)]

    def _reset(self, address: str) -> list[str]:
        discard_uncommitted(self._repository, *self._parts(address))
        return []

    def _protected(self, address: str) -> list[str]:
        assert self._parts(address) == []
        return self._rules

    def _protect(self, address: str, rule: str) -> list[str]:
        assert self._parts(address) == []
        asyncio.run(self._branches_of_lakefs.protect(self._repository.id, rule))
        self._rules.append(rule)
        return []

    def _unprotect(self, address: str, rule: str) -> list[str]:
        assert self._parts(address) == []
        asyncio.run(self._branches_of_lakefs.unprotect(self._repository.id, rule))
        self._rules.remove(rule)
        return []

    def _commit(self, address: str, option: str, message: str) -> list[str]:
        assert option == "-m"
        return [self._repository.commit({}, *self._parts(address), message=message)]

    def _diff(self, *words: str) -> list[str]:
        """What a branch has not committed; or the paths at which two commits differ.

        Without `--two-way` lakectl shows of two commits what the right one has changed.
        """
        if len(words) == 1:
            return self._uncommitted(*words)
        option, *refs = words
        assert option == "--two-way"
        old, new = (self._repository.files(*self._parts(each)) for each in refs)
        return [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]

    def _uncommitted(self, address: str) -> list[str]:
        (branch,) = self._parts(address)
        commits = lakefs_installation(self._repository.lakefs, WorkerHandle()).commits
        page = asyncio.run(commits.uncommitted_page(self._repository.id, BranchName(branch)))
        return [change.path for change in page.items]

    def _ls(self, *words: str) -> list[str]:
        ref, prefix = self._parts(words[-1])
        assert words[:-1] in {(), ("--recursive",)}
        return [path for path in self._repository.files(ref) if path.startswith(prefix)]


def _curl(harness: AttemptHarness) -> Callable[[list[str]], Ran]:
    def curl(words: list[str]) -> Ran:
        match words:
            case ["-fsS", "-X", "DELETE", address]:
                harness.conductor.terminate(_workflow_in(address), "by hand")
                return Ran(0, "", "")
            case ["-sS", address]:
                return Ran(7, "", f"curl: (7) Failed to connect to {address}")
            case ["-fsS", address]:
                found = asyncio.run(_read(harness, _workflow_in(address)))
                return Ran(0, json.dumps(found), "")
            case _:
                raise AssertionError(words)

    return curl


def _workflow_in(address: str) -> str:
    address = address.replace("$PERAGO_CONDUCTOR", CONDUCTOR)
    assert address.startswith(WORKFLOW_OF)
    return address.removeprefix(WORKFLOW_OF)


async def _read(harness: AttemptHarness, workflow: str) -> object:
    found = await harness.operator.workflows.read(workflow)
    assert found is not None
    return {
        "status": found.status,
        "tasks": [
            {"inputData": each.input_data, "status": each.snapshot.status}
            for each in found.attempts
        ],
    }


Cure = Callable[[AttemptHarness, Ran], Coroutine[None, None, None]]
"""What follows a remedy: how its first command ended is given."""


async def completes(harness: AttemptHarness, _: Ran) -> None:
    """The next attempt of the row completes."""
    await harness.lose_lease()
    report = await harness.report()
    assert report.error is None, report.error


def write_anew(workspace: Path, _: int) -> None:
    """What a task function does on any tree; that of the harness is for its first files."""
    (workspace / "anew.txt").write_text("anew")


async def anew(harness: AttemptHarness, _: Ran) -> None:
    """A new workflow from the head that the branch has now completes."""
    harness.conductor.terminate(harness.workflow, "a new one is started")
    harness.body = write_anew
    await harness.start(harness.workspace(ref=harness.repository.head().commit))
    report = await harness.report()
    assert report.error is None, report.error


async def anew_from_what_was_printed(harness: AttemptHarness, ran: Ran) -> None:
    """The command has printed the head from which that workflow is started."""
    assert f"{harness.repository.head().commit}\n" in ran.out
    await anew(harness, ran)


async def retried(harness: AttemptHarness, _: Ran) -> None:
    """A retry of the ended workflow completes."""
    await harness.operator.workflows.retry(harness.workflow)
    report = await harness.report()
    assert report.error is None, report.error


async def is_known(_harness: AttemptHarness, _: Ran) -> None:
    """The remedy has shown what is to be known, and there is nothing to do."""
