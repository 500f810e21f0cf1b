"""`perago demo`: plays every scene and exits 0 only if each invariant held.

With `--policy all` the same accidents under every policy; those without the guarantee may lose,
and the exit code counts only what was promised.
"""

import asyncio
from contextlib import nullcontext
from enum import StrEnum
from typing import Annotated

import typer

from perago.app.command_line.reporting import JsonOption, reports_errors, say, say_json
from perago.testing.demo.narration import closing, narrate, opening
from perago.testing.demo.scenes import SCENES, Played, play
from perago.testing.demo.spark_session import demo_session, why_no_spark
from perago.testing.dev.page_server import Shown
from perago.testing.dev.serving import serve_until_interrupted
from perago.testing.story_document import story_document


class PolicyChoice(StrEnum):
    """Under which rules the demonstration publishes."""

    SETTLED = "settled"
    HEAD_PARENT = "head-parent"
    LINEAGE = "lineage"
    ALL = "all"


@reports_errors
def demo(
    *,
    policy: Annotated[
        PolicyChoice, typer.Option(help="Show what this policy does with the same accidents.")
    ] = PolicyChoice.SETTLED,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark", help="Aggregate on Spark; unset: where pyspark and Java are."
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Show it on a page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow through a crash, a zombie and a foreign commit, and tell the story."""
    chosen = [policy.value]
    if policy is PolicyChoice.ALL:
        chosen = [choice.value for choice in PolicyChoice if choice is not PolicyChoice.ALL]
    no_spark = _without_spark(spark)
    told: list[Played] = []
    with demo_session() if no_spark is None else nullcontext():
        for name in chosen:
            played = asyncio.run(_play_all(name, on_spark=no_spark is None))
            told += played
            if not as_json:
                _print(name, played, no_spark)
    if as_json:
        say_json("demo/1", {"scenes": [_document(played) for played in told]})
    if open_page:
        scenes = [_document(played) for played in told]
        serve_until_interrupted(
            Shown({"title": "perago demo", "scenes": scenes}), 0, open_page=True
        )
    if not all(played.as_expected for played in told if played.is_promised):
        raise typer.Exit(code=1)


def _without_spark(wanted: bool | None) -> str | None:  # noqa: FBT001 - a switch of three states
    """Why the aggregate is not on Spark; what is wanted and cannot be is an error."""
    if wanted is False:
        return "--no-spark"
    problem = why_no_spark()
    if problem is not None and wanted:
        raise problem
    return None if problem is None else str(problem)


async def _play_all(policy: str, *, on_spark: bool) -> list[Played]:
    return [await play(scene, policy, on_spark=on_spark) for scene in SCENES]


def _print(policy: str, played: list[Played], no_spark: str | None) -> None:
    for line in opening(policy, no_spark):
        say(line)
    for number, scene in enumerate(played, start=1):
        for line in narrate(number, scene):
            say(line)
    for line in closing(played):
        say(line)


def _document(played: Played) -> dict[str, object]:
    return {
        "title": played.scene.title,
        "policy": played.policy,
        "status": played.status,
        "report": played.report,
        "broken": list(played.broken),
        "as_expected": played.as_expected,
        "bodies": played.bodies,
        "story": story_document(played.story),
    }
