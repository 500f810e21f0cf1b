"""One call of a task function: what is left of its attempt once it has ended."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.contract.task_bodies import call_of

from perago.app.authoring.current_attempt import CurrentAttempt, current_attempt
from perago.app.authoring.task_declaration import task, task_of
from perago.app.worker.run_body import BodySurroundings, run_body
from perago.domain.errors import ChangesRefusedError
from perago.ports.task_body import BodyReturned, Changes, Checkpoints, CheckpointTerms


class Nothing(BaseModel):
    """No params, and no result."""


async def _unasked() -> Changes | None:
    raise AssertionError("`ask` stands before it")


async def _not_uploaded() -> None:
    """Uploads are not looked at."""


def test_a_thread_that_the_function_left_behind_gets_nothing_more(tmp_path: Path) -> None:
    left: list[CurrentAttempt] = []

    @task(name="leave", owner_email="team@example.com")
    def leave(params: Nothing) -> Nothing:
        left.append(current_attempt())
        return params

    (tmp_path / "state").write_text("half")
    terms = CheckpointTerms(str(tmp_path / "out"), bytes_max=1000)
    call = replace(
        call_of("anything"),
        params={},
        changes=_unasked,
        checkpoints=Checkpoints(terms, _not_uploaded),
    )
    around = BodySurroundings(ask=lambda _: None)
    assert run_body(task_of(leave), call, around) == BodyReturned({})
    with pytest.raises(ChangesRefusedError, match="the task function has ended"):
        left[0].changes()
    assert not left[0].checkpoint(tmp_path / "state")
    assert not (tmp_path / "out").exists()
