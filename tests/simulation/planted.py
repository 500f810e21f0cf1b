"""Small wrong changes of the protocol, applied in memory by name: does the search find them?

A change replaces a piece of one function's text and swaps the function's code, so every place that
imported the function runs the wrong one. A change whose text is no longer there fails loudly: it
has to follow the code.
"""

import inspect
import sys
import textwrap
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType

from tests.simulation.explore import explore
from tests.simulation.mixes import MIXES
from tests.simulation.plant import Plant
from tests.simulation.plants_of_runs import PLANTS_OF_RUNS

BATCH = 100


ATTEMPT = "perago.app.attempt"
DOMAIN = "perago.domain"
GC = "perago.app.gc.remote_pass:RemotePass"
MEMORY = "perago.adapters.memory"
ANY_MIX = ("core", "verbs", "foreign")
LOOKED = "if patience.waits != waits:\n                return WAITED\n            "
FENCE_THEN_EFFECT = f"await check_attempt(target.attempt)\n            {LOOKED}return await _act"

PLANTS: Sequence[Plant] = (
    Plant(
        "the fence before the effect is dropped",
        f"{ATTEMPT}.publish:_Publishing._round",
        FENCE_THEN_EFFECT,
        "return await _act",
        ("core", "verbs"),
    ),
    Plant(
        "the head is read after the fence",
        f"{ATTEMPT}.publish:_Publishing._round",
        FENCE_THEN_EFFECT,
        "await check_attempt(target.attempt)\n"
        "            facts = await self._read_facts(None)\n"
        "            level = target.level\n"
        "            mine = target.identity\n"
        "            plan = build_workspace_publication_plan(level, facts, mine)\n"
        "            effect = PlannedEffect(target, plan)\n"
        "            return await _act",
        ("core", "verbs"),
    ),
    Plant(
        "staging is cleaned before the decision is settled",
        f"{ATTEMPT}.complete:clean_up",
        "leftovers.staging is not None and leftovers.staging_may_go",
        "leftovers.staging is not None",
    ),
    Plant(
        "the decision tag is not put if absent",
        f"{MEMORY}.lakefs:MemoryLakeFS.create_tag",
        "if tag in state.tags:",
        "if False:",
    ),
    Plant(
        "a decision that was there is taken for one's own",
        f"{ATTEMPT}.agree:_put_decision",
        "return found\n        except OutcomeUnknownError",
        "return proposal\n        except OutcomeUnknownError",
    ),
    Plant(
        "an unanswered decision is taken for made",
        f"{ATTEMPT}.agree:_put_decision",
        "sent = True\n            raise",
        "return proposal",
    ),
    Plant(
        "the winner's branch is deleted instead of one's own",
        f"{ATTEMPT}.agree:agree",
        "attempt.leftovers.staging = (decision.staged.repository, decision.staged.branch)",
        "await delete_staging(ports, decision.staged.repository, decision.staged.branch)",
    ),
    Plant(
        "the server does not run the fence",
        f"{MEMORY}.lakefs:MemoryLakeFS.run_hooks",
        "if not self.actions_enabled:",
        "if True:",
        ("foreign", "core"),
    ),
    Plant(
        "the fence is not told how the source of a merge was named",
        f"{MEMORY}.lakefs:_merge_event",
        "merge_source=request.source",
        "merge_source=source.id",
        ("everything",),
    ),
    Plant(
        "a publication is made on any head that stands above the input",
        f"{DOMAIN}.settled:decide",
        "if facts.at_input:",
        "if facts.walk.reached:",
        ("foreign",),
    ),
    Plant(
        "a merge does not name the head it expects",
        f"{DOMAIN}.commit_metadata:confirm_metadata",
        "EXPECTED_HEAD: expected_head,",
        "",
        ("foreign", "core"),
    ),
    Plant(
        "a cherry-pick is taken for a publication",
        f"{DOMAIN}.settled:find_publication",
        "if mine and here and record.parents == (record.metadata.get(metadata.EXPECTED_HEAD),):",
        "if mine and here:",
        ("fork",),
    ),
    Plant(
        "the head is adopted instead of the publication below it",
        f"{DOMAIN}.settled:decide",
        "return Adopt(found)",
        "return Adopt(facts.walk.head)",
        ("foreign",),
    ),
    Plant(
        "an earlier publication is not looked for",
        f"{DOMAIN}.settled:find_publication",
        "above = facts.walk.above",
        "above = ()",
        ("core", "chain"),
    ),
    Plant(
        "every attempt is an execution of its own",
        f"{DOMAIN}.logical_execution:find_epoch",
        "return first",
        "return chain[0]",
    ),
    Plant(
        "marks do not begin a new epoch",
        f"{DOMAIN}.logical_execution:find_epoch",
        "if sealed != continues:",
        "if False:",
        ("reruns",),
    ),
    Plant(
        "an older mark of a row does not tell that it was rerun",
        f"{DOMAIN}.logical_execution:_rerun",
        "mark.scheduled_time < mine.scheduled_time",
        "False",
        ("reruns",),
    ),
    Plant(
        "the key does not know the params",
        f"{DOMAIN}.logical_execution:ExecutionInput.hash",
        "workspace.ref, params",
        "workspace.ref",
        (
            "anew",
            "reruns",
        ),
    ),
    Plant(
        "decisions on other inputs are not looked for",
        f"{ATTEMPT}.resume:find_decision_on_other_input",
        "if not target.level.shape.decides_by_tag:",
        "if True:",
        ("anew",),
    ),
    Plant(
        "the decision of an earlier attempt is not looked for",
        f"{ATTEMPT}.run_attempt:_produce_output",
        "if finished is None and target.decided is not None:",
        "if False:",
    ),
    Plant(
        "a resumed decision ends with the published input",
        f"{ATTEMPT}.publish:finish_decision",
        "Finished(publication.ref,",
        "Finished(target.workspace.ref,",
    ),
    Plant(
        "the decision that nothing changed is merged",
        f"{ATTEMPT}.publish:finish_decision",
        "None if decision.noop else decision.staged",
        "decision.staged",
    ),
    Plant(
        "the wide fence does not compare poll counts and scheduled times",
        f"{DOMAIN}.attempt:compare_row",
        "NARROW_FACTS + WIDE_FACTS",
        "NARROW_FACTS",
        ("core", "verbs"),
    ),
    Plant(
        "the wide fence looks at its own row and not at the newest",
        f"{DOMAIN}.attempt:compare_wide",
        "max(rows, key=lambda row: row.seq)",
        "next((row for row in rows if row.task_id == polled.task_id), None)",
        ("racy", "core"),
    ),
    Plant(
        "the wide fence does not ask whether the workflow runs",
        f"{DOMAIN}.attempt:compare_wide",
        "if fresh.status not in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}:",
        "if False:",
        ("racy-verbs",),
    ),
    Plant(
        "an end is sent without a look",
        f"{ATTEMPT}.complete:_may_end",
        "if not attempt.settings.reads_before_end:",
        "if True:",
        ("core", "verbs"),
    ),
    Plant(
        "a hand back is sent without a look",
        f"{ATTEMPT}.complete:complete",
        "is_short = age < _unread_seconds(attempt) and isinstance(update, TerminalUpdate)",
        "is_short = age < _unread_seconds(attempt) or isinstance(update, HandBack)",
    ),
    Plant(
        "a merge is sent again after a wait without a look",
        f"{ATTEMPT}.publish:_act",
        "plan, after = effect.plan, await effect.perform(prepared)",
        "plan, after = effect.plan, await effect.perform(prepared)\n"
        "    if isinstance(after, LookAgain):\n"
        "        await _pause_after(effect.ports, 0)\n"
        "        after = await effect.perform(prepared)",
    ),
    Plant(
        "checkpoints are kept on the staging branch",
        f"{ATTEMPT}.local_workspace:_checkpoints_of",
        "branch = checkpoint_branch(key, attempt.execution_id)",
        "branch = attempt.staging_branch",
        ("checkpoints",),
    ),
    Plant(
        "a kept outcome is used although its directory was changed",
        "tests.simulation.workspace:SimulatedPipeline.reopen",
        "if self._disk.describe(directory) != described:",
        "if False:",
        ("same-host",),
    ),
    Plant(
        "a stale verdict does not withhold the end",
        f"{ATTEMPT}.complete:_may_end",
        "if isinstance(verdict, Stale) and not sent:",
        "if True:\n        return True\n    if False:",
        ("core", "verbs"),
    ),
    Plant(
        "lineage supersedes commits of others",
        f"{DOMAIN}.lineage:decide",
        "if owner != facts.logical_task_key:",
        "if False:",
        ("lineage",),
    ),
    Plant(
        "gc removes decisions of workflows that run",
        f"{DOMAIN}.retention:judge_decision",
        "if workflow is WorkflowStanding.LIVE:",
        "if False:",
        ("gc-age-zero",),
    ),
    Plant(
        "gc removes the branches of attempts that run",
        f"{DOMAIN}.retention:judge_staging_branch",
        'return Keep("its attempt is in progress")',
        'return Remove("its attempt is in progress")',
        ("gc-age-zero",),
    ),
    Plant(
        "gc removes marks before decisions",
        f"{GC}._has_decisions",
        "if mine and not (self.dry_run and tag.name in self.gone):",
        "if False:",
        ("gc-age-zero",),
    ),
    Plant(
        "gc removes the reset of a workflow that ended long ago",
        f"{GC}._age",
        "min((self.since(owner.workflow.ended_at / 1000), *ages))",
        "self.since(owner.workflow.ended_at / 1000)",
        ("reset-later",),
    ),
    Plant(
        "gc does not look for the decision of a branch",
        f"{GC}._is_decided",
        "if key is not None:",
        "if key is not None:\n        return False\n    if False:",
        (
            "gc-default-ages",
            "gc-age-zero",
        ),
    ),
    Plant(
        "gc does not put back what an attempt decides while it is removed",
        f"{GC}._put_back",
        "if not owner.segment or branch != names.staging_of(branch):",
        "if True:",
        (
            "gc-age-zero",
            "gc-default-ages",
        ),
    ),
    Plant(
        "a decision does not make sure of its branch",
        f"{ATTEMPT}.complete:_keep_staging",
        "await ports.lakefs.branches.create(repository, branch, decision, hidden=True)",
        "pass",
        (
            "gc-age-zero",
            "gc-default-ages",
        ),
    ),
    Plant(
        "reset-task runs while the workflow runs",
        "perago.app.attempt.reset_task:_read_ended",
        "if workflow is not None and not workflow.status.is_terminal:",
        "if False:",
        ("reset-task",),
    ),
    *PLANTS_OF_RUNS,
)


@dataclass(frozen=True, slots=True)
class Hunted:
    """How long it took to find a planted bug, and which invariant it broke; None: not found."""

    plant: Plant
    seconds: float
    schedules: int
    invariant: int | None


def hunt(plant: Plant, *, seconds_max: float = 120.0) -> Hunted:
    """Search the mixes of a plant, some schedules of each in turn."""
    began, schedules = time.process_time(), 0
    with planted(plant):
        while time.process_time() - began < seconds_max:
            for name in plant.mixes:
                found = explore(MIXES[name], schedules, BATCH)
                for _, ran in found.broken:
                    took = time.process_time() - began
                    assert ran.broken is not None, "only broken schedules are kept"
                    return Hunted(plant, took, schedules + found.schedules, ran.broken.number)
            schedules += BATCH
    return Hunted(plant, time.process_time() - began, schedules, None)


@contextmanager
def planted(plant: Plant) -> Generator[None]:
    """Run with one wrong change."""
    function = _function(plant.function)
    right = function.__code__
    function.__code__ = _wrong_code(function, plant)
    try:
        yield
    finally:
        function.__code__ = right


def _function(name: str) -> FunctionType:
    module, _, path = name.partition(":")
    found: object = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    found = found.fget if isinstance(found, property) else found
    found = inspect.unwrap(found) if callable(found) else found
    assert isinstance(found, FunctionType), name
    return found


def _wrong_code(function: FunctionType, plant: Plant) -> CodeType:
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(plant.old) != 1:
        raise AssertionError(
            f"{plant.name}: expected {plant.old!r} once in {plant.function}; let it follow the code"
        )
    namespace: dict[str, object] = {}
    body = text.replace(plant.old, plant.new)
    # Annotations of the new function are never looked at; the names of its body are globals.
    compiled = compile(f"from __future__ import annotations\n{body}", plant.name, "exec")
    exec(compiled, {**function.__globals__}, namespace)  # noqa: S102 - the text is our own
    made = namespace[function.__name__]
    made = made.fget if isinstance(made, property) else made
    made = inspect.unwrap(made) if callable(made) else made
    assert isinstance(made, FunctionType), plant.name
    return made.__code__


def main() -> int:
    """Hunt every planted bug; 1 when one is not found."""
    lost = 0
    for plant in PLANTS:
        hunted = hunt(plant)
        lost += hunted.invariant is None
        found = f"breaks invariant {hunted.invariant}" if hunted.invariant else "NOT FOUND"
        told = f"{hunted.seconds:6.1f} s, {hunted.schedules:6} schedules: {plant.name}: {found}"
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
