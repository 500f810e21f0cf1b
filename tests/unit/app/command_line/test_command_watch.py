"""`perago watch`: the document, the usage, and that no key is in what it prints."""

import json
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run
from tests.unit.app.command_line.test_command_attempts import WORKFLOW, published

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.domain.lakefs import CommitId

__all__ = ["published"]  # a fixture is found by its name
KEY = "the-secret-key-of-lakefs"


def test_the_document_has_a_versioned_schema_and_the_model_of_the_page(
    run: Run, published: CommitId
) -> None:
    ran = run("watch", WORKFLOW, "--repo", "repo", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = ran.document
    assert document["schema"] == "perago.watch/1"
    assert document["live"] is True, "without Conductor nobody knows that it has ended"
    (scene,) = document["scenes"]
    first, second = scene["attempts"]
    assert (first["task"], first["came_to"], first["status"]) == ("clean", "decided", "not known")
    assert {step["name"]: step["ref"] for step in second["steps"]}["published"] == published
    assert scene["missing"][0].startswith("No Conductor is configured")
    (main, staged) = scene["repositories"][0]["branches"]
    assert (main["is_target"], staged["is_target"]) == (True, False)


def test_a_key_in_a_message_is_masked(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_LAKEFS", f"memory:{project}")
    monkeypatch.delenv("PERAGO_CONDUCTOR", raising=False)
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "AKIA-who")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", KEY)
    builder = RepositoryBuilder(shared_memory(f"memory:{project}"), "repo")
    builder.commit({"human": b"2"}, message=f"with {KEY} in it")
    ran = run("watch", WORKFLOW, "--repo", "repo", "--json")
    assert KEY not in ran.out
    assert "with *** in it" in json.dumps(ran.document)


def test_an_unknown_workflow_says_how_to_name_a_repository(run: Run, published: CommitId) -> None:
    assert published
    ran = run("watch", WORKFLOW)
    assert ran.code == 2
    assert ran.err.startswith(f"error: nothing says to which repository workflow {WORKFLOW}")
    assert "PRG-X006" in ran.err
    assert "--repo REPO" in ran.err


def test_what_does_not_fit_together_is_refused(run: Run, published: CommitId) -> None:
    assert published
    assert run("watch").code == 2
    assert run("watch", WORKFLOW, "--port", "70000").code == 2
    ran = run("watch", WORKFLOW, "--branch", "main")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: --branch needs --repo REPO")
    assert run("watch", WORKFLOW, "--repo", "nowhere", "--json").code == 6
