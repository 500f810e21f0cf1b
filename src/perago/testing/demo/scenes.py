"""Plays the demonstration: four short scenes on an environment each, with what they must show.

A scene is data and a judgement; how it is narrated is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.domain.publication_policy import PolicySetting
from perago.testing.definitions import sequence
from perago.testing.demo.pipeline import RAW_EVENTS, aggregate, aggregate_on_spark, clean, report
from perago.testing.environment import PeragoEnvironment
from perago.testing.faults import Fault, crash, foreign_commit, zombie
from perago.testing.invariants import broken_invariants
from perago.testing.story import Story

EXPECTED_REPORT = '{"north": 22, "south": 12}'
FOREIGN = {"sales/NOTES.md": b"do not lose me\n"}


@dataclass(frozen=True, slots=True)
class Scene:
    """One accident, and how the workflow has to end under a policy."""

    title: str
    faults: tuple[Fault, ...]
    expected: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Played:
    """A scene with its story; `broken` names every invariant that did not hold."""

    scene: Scene
    policy: str
    story: Story
    status: str
    report: str
    broken: tuple[str, ...]
    bodies: int
    seconds: float

    @property
    def is_promised(self) -> bool:
        """Only `settled` promises that nothing is ever lost; docs/guarantees.md has the table."""
        return self.policy == PolicySetting.SETTLED

    @property
    def as_expected(self) -> bool:
        """Whether it ended as it must: a report is right, or nothing was published over others."""
        ended = self.status == self.scene.expected.get(self.policy, "COMPLETED")
        right = self.status != "COMPLETED" or self.report == EXPECTED_REPORT
        return ended and right and not self.broken


SCENES = (
    Scene("nothing goes wrong", (), {}),
    Scene(
        "`clean` publishes, and its process dies before it can say so",
        (crash(after="merge", task="demo.clean"),),
        {},
    ),
    Scene(
        "`aggregate` stalls before it publishes, is given up, and wakes up as a zombie",
        (zombie(task="demo.aggregate", until="accepted"),),
        {},
    ),
    Scene(
        "somebody else commits to main while `report` is about to publish",
        (foreign_commit(after="stage", task="demo.report", files=FOREIGN),),
        {PolicySetting.SETTLED: "FAILED", PolicySetting.LINEAGE: "FAILED"},
    ),
)


async def play(scene: Scene, policy: str, *, on_spark: bool = False) -> Played:
    """Run the pipeline through one accident; Spark takes the session of this process."""
    tasks = (clean, aggregate_on_spark if on_spark else aggregate, report)
    with PeragoEnvironment(policy=policy) as env:
        repository = await env.repository("sales-data", {"sales/raw/events.csv": RAW_EVENTS})
        await env.register(*tasks)
        env.plan(*scene.faults)
        given: dict[str, object] = {"demo_clean": {}, "demo_aggregate": {}, "demo_report": {}}
        run = await env.start(
            sequence("sales", *tasks),
            {"workspace": await repository.workspace(), "params": given},
        )
        await env.until_idle()
        files = await repository.files()
        story = await env.story()
        others = {repository.id: repository.commits_of_others}
        broken = list(broken_invariants(story, others, settled=policy == PolicySetting.SETTLED))
        if env.pending_faults:
            broken.append("the accident did not happen")
        return Played(
            scene=scene,
            policy=policy,
            story=story,
            status=str(await run.status()),
            report=files.get("sales/report.json", b"").decode(),
            broken=tuple(broken),
            bodies=sum("body-ended" in attempt.phases() for attempt in env.attempts),
            seconds=env.seconds,
        )
