"""The remedies of what Spark tasks may not do: `perago run` shows each until it is corrected."""

import pytest
from tests.unit.remedies.conftest import project, run, shell
from tests.unit.remedies.shell import Shell

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory

__all__ = ["project", "run", "shell"]
pytestmark = pytest.mark.spark

MODULE = """from pydantic import BaseModel
from perago import SparkWorkspace, WorkspaceSpec, task


class P(BaseModel):
    pass


class R(BaseModel):
    rows: int


@task(name="orders", owner_email="o@example.org", workspace=WorkspaceSpec(prefix="lake"{more}))
def orders(workspace: SparkWorkspace, params: P) -> R:
    rows = workspace.read.text("orders")
    {function}
    return R(rows=rows.count())
"""
RIGHT = MODULE.format(more="", function='workspace.write(rows, "daily")')
WRONG = {
    "PRG-K004": MODULE.format(more=", read_only=True", function='workspace.write(rows, "daily")'),
    "PRG-K005": MODULE.format(
        more="",
        function=(
            'workspace.spark.readStream.format("rate").load().writeStream.format("memory")'
            '.queryName("left").start()'
        ),
    ),
    "PRG-K006": MODULE.format(more="", function='workspace.write(rows, "../daily")'),
}


@pytest.mark.parametrize("code", WRONG)
def test_run_shows_what_a_spark_task_may_not_do(
    shell: Shell,
    spark_session: object,
    code: str,
) -> None:
    del spark_session  # it is the one that bodies find
    address = f"memory:{shell.project}"
    repository = RepositoryBuilder(shared_memory(address), "songs")
    ref = repository.commit({"lake/orders/a.txt": b"one\ntwo\n"})
    shell(f"export PERAGO_LAKEFS={address}")
    (shell.project / "params.json").write_text("{}")
    shell.typed += [shell.module, f"songs {ref}"]
    names = {"MODULE": shell.module, "REPO": "songs", "REF": ref}

    shell.write(WRONG[code])
    seen = shell.follow_reason(code, **names)
    assert (seen.code, code in seen.out) == (1, True), seen
    shell.write(RIGHT)
    ran = shell.follow_reason(code, **names)
    assert (ran.code, 'result: {"rows": 2}' in ran.out) == (0, True), ran
