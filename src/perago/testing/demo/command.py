"""`perago demo`: plays every scene and exits 0 only if each invariant held.

With `--policy all` the same accidents under every policy; those without the guarantee may lose,
and the exit code counts only what was promised.
"""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from perago.app.command_line.reporting import JsonOption, reports_errors, say, say_json
from perago.testing.demo.narration import closing, narrate, opening
from perago.testing.demo.scenes import SCENES, Played, play
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
    open_page: Annotated[bool, typer.Option("--open", help="Show it on a page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow through a crash, a zombie and a foreign commit, and tell the story."""
    chosen = [policy.value]
    if policy is PolicyChoice.ALL:
        chosen = [choice.value for choice in PolicyChoice if choice is not PolicyChoice.ALL]
    told: list[Played] = []
    for name in chosen:
        played = asyncio.run(_play_all(name))
        told += played
        if not as_json:
            _print(name, played)
    if as_json:
        say_json("demo/1", {"scenes": [_document(played) for played in told]})
    if open_page:
        scenes = [_document(played) for played in told]
        serve_until_interrupted(
            Shown({"title": "perago demo", "scenes": scenes}), 0, open_page=True
        )
    if not all(played.as_expected for played in told if played.is_promised):
        raise typer.Exit(code=1)


async def _play_all(policy: str) -> list[Played]:
    return [await play(scene, policy) for scene in SCENES]


def _print(policy: str, played: list[Played]) -> None:
    for line in opening(policy):
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
