"""Remedies of codes that no table of scenes has room for: each needs something of its own."""

import asyncio
import re
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.attempt.test_codes_by_mistake import MISTAKES, Told
from tests.unit.remedies.servers import anew, retried, serve
from tests.unit.remedies.shell import DONE, Shell, printed_for
from tests.unit.remedies.test_functions import FINE, declared, module

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.settings.settings import load_settings
from perago.domain.errors import CheckpointRefusedError, SparkSessionError
from perago.domain.outcome import Merged
from perago.domain.policy import PolicySetting
from perago.ports.errors import NothingToCommitError, ServiceError
from perago.testing.faults import Fault, answer, crash

GIB = 1024**3


def test_the_address_that_an_adapter_was_given_is_shown(shell: Shell) -> None:
    shell("export PERAGO_LAKEFS=region:eu")
    ran = shell.follow("PRG-L001", printed_for(ServiceError("region eu: no such bucket")))
    assert "PERAGO_LAKEFS=region:eu  (environment)" in ran.out


def test_a_workflow_that_conductor_does_not_know_is_registered(shell: Shell) -> None:
    address = f"memory:{shell.project}"
    RepositoryBuilder(shared_memory(address), "songs").commit({"data/a": b"1"})
    shell(f"export PERAGO_LAKEFS={address} PERAGO_CONDUCTOR={address}")
    shell.write(module())
    assert shell(f"perago register {shell.module}").code == 0
    submit = "perago submit songs.flow --repo songs --branch main"
    printed = shell(submit)
    names = {"MODULE": shell.module, "WORKFLOW": "songs.flow"}
    assert shell.follow("PRG-L012", printed, **names).code == 0
    assert shell(submit).code == 0


def test_a_workflow_starts_again_with_a_value_that_is_the_name_of_a_folder(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    serve(shell, harness, monkeypatch)
    shell.write(module(spec="prefix='data/{params.song}'"))
    harness.task = declared(shell)
    shell(f"perago register {shell.module}")
    shell(f"perago workflow new {shell.module} --name songs --register")
    params = shell.project / "params.json"
    params.write_text('{"edit": {"song": "a/b"}}')
    assert shell("perago submit songs --repo repo --branch main --params @params.json").code == 0
    assert "PRG-I013" in reason_of(asyncio.run(_waiting_row(harness)))
    params.write_text('{"edit": {"song": "a"}}')
    names = {"WORKFLOW": "songs", "REPO": "repo", "BRANCH": "main"}
    assert shell.follow_reason("PRG-I013", **names).code == 0
    assert asyncio.run(_waiting_row(harness)).error is None


async def _waiting_row(harness: AttemptHarness) -> AttemptReport:
    return await harness.report()


def test_a_rule_for_every_branch_becomes_one_for_the_target_which_settled_publishes_to(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = asyncio.run(
        AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    )
    serve(shell, harness, monkeypatch)
    shell("lakectl branch-protect add lakefs://repo '*'")
    printed = shell("perago fence install repo main")
    listed = shell.follow("PRG-L005", printed, REPO="repo", BRANCH="main", RULE="*")
    assert listed.out == "*\n"
    assert shell("lakectl branch-protect list lakefs://repo").out == "main\n"
    harness.policy = PolicySetting.SETTLED
    asyncio.run(anew(harness, DONE))


def test_a_branch_that_nothing_waits_on_shows_no_difference(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    serve(shell, harness, monkeypatch)
    printed = printed_for(NothingToCommitError("repo main: nothing to commit"))
    assert shell.follow("PRG-L006", printed, REPO="repo", BRANCH="main").out == ""
    harness.repository.write("data/draft.txt", b"draft")
    assert shell.follow("PRG-L006", printed, REPO="repo", BRANCH="main").out == "data/draft.txt\n"


def test_a_task_runs_on_a_repository_that_takes_no_publication(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, reason = asyncio.run(_read_only(tmp_path))
    assert "PRG-L011" in reason
    serve(shell, harness, monkeypatch)
    shell.write(module())
    shell.typed += [shell.module, f"repo {harness.input}"]
    names = {"MODULE": shell.module, "REPO": "repo", "REF": harness.input}
    assert "+ out.txt" in shell.follow_reason("PRG-L011", **names).out


async def _read_only(root: Path) -> Told:
    return await MISTAKES["PRG-L011"](root)


def test_a_result_that_fits_no_more_is_reset_and_computed_again(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = asyncio.run(_met_by_a_later_release(shell, tmp_path))
    assert "PRG-R003" in reason_of(harness.reports[-1])
    harness.conductor.terminate(harness.workflow, "the operator looks at it")
    serve(shell, harness, monkeypatch)
    shell.typed.append(f"{harness.workflow} {TASK}")
    assert shell.follow_reason("PRG-R003", WORKFLOW=harness.workflow, REFERENCE=TASK).code == 0
    asyncio.run(retried(harness, DONE))


async def _met_by_a_later_release(shell: Shell, root: Path) -> AttemptHarness:
    """The decision of a release meets the result model of the next."""
    harness = await AttemptHarness(root, PolicySetting.SETTLED).started()
    await harness.attempt(harness.worker([crash(after="tags.create")]))
    shell.write(module())
    harness.task = declared(shell)
    await harness.lose_lease()
    await harness.report()
    return harness


def test_larger_checkpoints_are_allowed_where_the_worker_starts(shell: Shell) -> None:
    before = load_settings().checkpoint_size
    refused = CheckpointRefusedError(f"the checkpoint has more than {before} bytes")
    shell.follow("PRG-B006", printed_for(refused))
    assert (before, load_settings().checkpoint_size) == (10 * GIB, 50 * GIB)


def test_spark_runs_beside_the_worker_where_its_master_did_not_answer(shell: Shell) -> None:
    shell("export PERAGO_SPARK_MASTER=spark://nowhere:7077")
    refused = SparkSessionError("spark://nowhere:7077", "no answer")
    shell.follow("PRG-K002", printed_for(refused))
    assert load_settings().spark_master == "local[2]"


def test_what_was_published_is_compared_with_what_was_staged(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=spec)
    harness.repository.branch("wrong")
    wrong = harness.repository.commit({"data/theirs.txt": b"theirs"}, "wrong")
    reason = reason_of(asyncio.run(_published(harness, answer("merge", Merged(wrong)))))
    assert "PRG-F024" in reason
    serve(shell, harness, monkeypatch)
    published, staged = re.findall(r"[0-9a-f]{64}", reason)[:2]
    shell.typed += [reason, "repo"]
    names = {"REPO": "repo", "STAGED": staged, "PUBLISHED": published}
    paths = shell.follow_reason("PRG-F024", **names).out.splitlines()
    assert {"data/out.txt", "data/theirs.txt"} <= set(paths)


async def _published(harness: AttemptHarness, fault: Fault) -> AttemptReport:
    await harness.start()
    return await harness.report(fault)


def test_checkpoints_are_taken_once_the_fence_is_installed(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    keeps = 'current_attempt().checkpoint(workspace / "kept.txt"); '
    shell.write(module(keeps + FINE))
    harness.task = declared(shell)
    asyncio.run(harness.start())
    report = asyncio.run(harness.report())
    assert "PRG-B005" in reason_of(report)
    serve(shell, harness, monkeypatch)
    shell.typed.append("repo main")
    assert shell.follow_reason("PRG-B005", REPO="repo", BRANCH="main").code == 0
    harness.policy = PolicySetting.SETTLED
    asyncio.run(anew(harness, DONE))
