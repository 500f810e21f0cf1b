"""`perago attempts`: the table, the graph and the document, and what it says of what is missing."""

from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.adapters.system import SystemIdentities
from perago.app.command_line.attempts import HEADINGS, SHOWN_MAX
from perago.domain.attempt import AttemptSnapshot, AttemptStatus
from perago.domain.commit_metadata import (
    CODE_VERSION,
    EXECUTION_ID,
    LOGICAL_EXECUTION_KEY,
    LOGICAL_TASK_KEY,
    PHASE,
    RETRY_COUNT,
    STAGING_BRANCH,
    STAGING_COMMIT,
    TASK_ID,
)
from perago.domain.lakefs import CommitId
from perago.domain.names import staging_branch_name

WORKFLOW = "2e1c9f7a-6f3d-4b7e-9a55-6b1d1d1f0a01"
TASKS = [f"2e1c9f7a-6f3d-4b7e-9a55-00000000000{number}" for number in (1, 2)]
KEY = f"{WORKFLOW}-{'a' * 32}-{'b' * 32}"


@pytest.fixture
def published(project: Path, monkeypatch: pytest.MonkeyPatch) -> CommitId:
    """A first attempt that decided and died, a second one that published, and a person."""
    monkeypatch.setenv("PERAGO_LAKEFS", f"memory:{project}")
    monkeypatch.delenv("PERAGO_CONDUCTOR", raising=False)
    builder = RepositoryBuilder(shared_memory(f"memory:{project}"), "repo")
    builder.commit({"data/a": b"1"}, message="the first files")
    rows = [
        AttemptSnapshot(WORKFLOW, task, "clean", "clean", AttemptStatus.FAILED, retry_count=number)
        for number, task in enumerate(TASKS)
    ]
    executions = [SystemIdentities().new_execution_id() for _ in rows]
    staging = staging_branch_name(rows[0], executions[0])
    builder.branch(staging)
    said = {LOGICAL_TASK_KEY: rows[0].logical_task_key, LOGICAL_EXECUTION_KEY: KEY}
    staged = builder.commit(
        {"data/a": b"2"},
        branch=staging,
        metadata={**said, PHASE: "try", TASK_ID: TASKS[0], STAGING_BRANCH: staging},
    )
    builder.tag(f"perago-settled-{KEY}", staged)
    builder.commit({"human": b"1"}, message="by hand")
    commit = {
        CODE_VERSION: "0a1b",
        PHASE: "confirm",
        TASK_ID: TASKS[1],
        RETRY_COUNT: "1",
        EXECUTION_ID: executions[1],
    }
    return builder.commit(
        {"data/a": b"2"},
        metadata={**said, **commit, STAGING_BRANCH: staging, STAGING_COMMIT: staged},
    )


def test_the_table_shows_attempts_leftovers_and_foreign_commits(
    run: Run, published: CommitId
) -> None:
    ran = run("attempts", WORKFLOW, "--repo", "repo")
    assert ran.code == 0
    text = ran.out.splitlines()
    assert text[0] == f"workflow {WORKFLOW} not known to Conductor"
    assert text[1].split() == " ".join(HEADINGS).split()
    first, second = text[2].split(), text[3].split()
    assert (first[:2], first[-3], first[-1]) == (["clean", "1"], "decided", "-")
    assert (second[:2], second[-3:]) == (["clean", "2"], ["published", "-", published[:8]])
    assert text[4].startswith(f"  left: branch repo/perago-staging-{WORKFLOW}-clean-seq-0")
    assert text[5].startswith(f"  left: decision repo/perago-settled-{KEY} on {first[-2]}")
    assert text[6].endswith(": by hand")
    assert ran.err.startswith("missing: No Conductor is configured")


def test_the_graph_has_the_commits_of_the_branch(run: Run, published: CommitId) -> None:
    ran = run("attempts", WORKFLOW, "--repo", "repo", "--tree")
    text = ran.out.splitlines()
    assert text[0] == "repo main"
    assert text[1].startswith(f"*  {published[:8]}")
    assert " publication of clean attempt 2 from " in text[1]
    assert text[2].startswith("x ")
    assert text[2].endswith(" foreign: by hand")


def test_the_document_has_a_versioned_schema(run: Run, published: CommitId) -> None:
    document = run("attempts", WORKFLOW, "--repo", "repo", "--json").document
    assert document["schema"] == "perago.attempts/1"
    (task,) = document["tasks"]
    assert (task["reference"], task["decision"]) == ("clean", "there")
    first, second = task["attempts"]
    assert (first["came_to"], first["decided"], first["worker"]) == ("decided", True, None)
    assert (second["came_to"], second["publications"]) == ("published", [published])
    assert second["code_version"] == "0a1b"
    roles = [commit["role"] for commit in document["branches"][0]["commits"]]
    assert roles[:2] == ["publication", "foreign"]
    assert len(document["missing"]) == 1


def test_a_branch_is_asked_for_by_its_repository(run: Run, published: CommitId) -> None:
    ran = run("attempts", "--repo", "repo", "--branch", "main", "--since", "1h")
    assert ran.code == 0
    assert published[:8] in ran.out
    nothing = run("attempts", "--repo", "repo", "--since", "0s")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err == "no attempt is known\n"


def test_without_a_repository_the_error_says_how_to_name_one(run: Run, published: CommitId) -> None:
    assert published
    ran = run("attempts", WORKFLOW)
    assert ran.code == 2
    assert ran.err.startswith(f"error: nothing says to which repository workflow {WORKFLOW}")
    assert "perago attempts WORKFLOW --repo REPO" in ran.err
    assert run("attempts").code == 2
    assert run("attempts", "--repo", "nowhere").code == 6


def test_explain_says_in_three_sentences_what_happened_to_a_workflow(
    run: Run, published: CommitId
) -> None:
    ran = run("explain", WORKFLOW, "--repo", "repo")
    assert (ran.code, len(ran.out.splitlines())) == (0, 4)
    assert ran.out.startswith(f"Workflow {WORKFLOW} is not known to Conductor; lakeFS knows 2")
    assert f"has published {published[:12]}" in ran.out
    assert ran.out.splitlines()[-1] == f"  perago attempts {WORKFLOW} --repo repo --tree"
    document = run("explain", WORKFLOW, "--repo", "repo", "--json").document
    assert document["schema"] == "perago.explain-workflow/1"
    assert document["situation"] == "unknown"
    assert run("explain", WORKFLOW).code == 2


@pytest.mark.usefixtures("published", "silent_conductor")
@pytest.mark.parametrize("command", ["attempts", "explain"])
def test_an_answer_with_parts_missing_has_an_exit_code_of_its_own(run: Run, command: str) -> None:
    ran = run(command, WORKFLOW, "--repo", "repo")
    assert (ran.code, ran.err.count("missing: Conductor did not answer")) == (6, 1)
    assert "published" in ran.out, "what lakeFS knows is shown all the same"
    ran = run(command, WORKFLOW, "--repo", "repo", "--json")
    assert (ran.code, len(ran.document["missing"])) == (6, 1)


def test_what_is_left_of_many_attempts_is_cut_and_counted(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_LAKEFS", f"memory:{project}")
    builder = RepositoryBuilder(shared_memory(f"memory:{project}"), "repo")
    for number in range(SHOWN_MAX + 5):
        row = AttemptSnapshot(WORKFLOW, TASKS[0], "clean", "clean", AttemptStatus.FAILED, number)
        builder.branch(staging_branch_name(row, SystemIdentities().new_execution_id()))
    text = run("attempts", WORKFLOW, "--repo", "repo").out.splitlines()
    assert sum(line.startswith("  left: ") for line in text) == SHOWN_MAX
    assert text[-1] == "  ... and 5 more; --json has all"
