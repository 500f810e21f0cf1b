"""Small wrong changes of the protocol, applied in memory by name: does the search find them?

A change replaces a piece of one function's text and swaps the function's code, so every place that
imported the function runs the wrong one. A change whose text is no longer there fails loudly: it
has to follow the code.
"""

import inspect
import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True)
class Plant:
    """One wrong change: where, what, and the mixes in which to look for it."""

    name: str
    function: str
    old: str
    new: str
    mixes: Sequence[str] = ("core",)


ATTEMPT = "perago.app.attempt"
DOMAIN = "perago.domain"
GC = "perago.app.gc.remote_pass:RemotePass"
MEMORY = "perago.adapters.memory"
ANY_MIX = ("core", "verbs", "foreign")

PLANTS: Sequence[Plant] = (
    Plant(
        "the fence before the effect is dropped",
        f"{ATTEMPT}.publish:_round",
        "await check_attempt(world, scope.dispatch)\n            return await _act",
        "return await _act",
        ("core", "verbs"),
    ),
    Plant(
        "the head is read after the fence",
        f"{ATTEMPT}.publish:_round",
        "await check_attempt(world, scope.dispatch)\n            return await _act",
        "await check_attempt(world, scope.dispatch)\n"
        "            facts = await read_facts(world, scope, staged)\n"
        "            level = scope.ground.level\n"
        "            plan = build_workspace_publication_plan(level, facts, scope.identity)\n"
        "            return await _act",
        ("core", "verbs"),
    ),
    Plant(
        "staging is cleaned before the decision is settled",
        f"{ATTEMPT}.clean_up:clean_up",
        "traces.staging is not None and traces.staging_may_go",
        "traces.staging is not None",
    ),
    Plant(
        "the decision tag is not put if absent",
        f"{MEMORY}.naming:create_tag",
        "if tag in state.tags:",
        "if False:",
    ),
    Plant(
        "a decision that was there is taken for one's own",
        f"{ATTEMPT}.decide:_agree",
        "except TagExistsError:\n            pass",
        "except TagExistsError:\n            return proposal",
    ),
    Plant(
        "an unanswered decision is taken for made",
        f"{ATTEMPT}.decide:_agree",
        "seen = str(error)\n        except WorldError",
        "return proposal\n        except WorldError",
    ),
    Plant(
        "the winner's branch is deleted instead of one's own",
        f"{ATTEMPT}.decide:decide",
        "scope.traces.staging = (decision.staged.repository, decision.staged.branch)",
        "await delete_staging(world, decision.staged.repository, decision.staged.branch)",
    ),
    Plant(
        "the server does not run the fence",
        f"{MEMORY}.lakefs:MemoryLakeFS.run_hooks",
        "if not self.actions_enabled:",
        "if True:",
        ("foreign", "core"),
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
        "if mine and here and record.parents == (record.metadata.get(EXPECTED_HEAD),):",
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
        "chain = retry_chain(mine, rows)",
        "chain = (mine,)",
    ),
    Plant(
        "marks do not begin a new epoch",
        f"{DOMAIN}.logical_execution:find_epoch",
        "mark.scheduled_time < row.scheduled_time",
        "False",
        ("reruns",),
    ),
    Plant(
        "the decision of an earlier attempt is not looked for",
        f"{ATTEMPT}.run_attempt:_produce_output",
        "if finished is None and footing.decided is not None:",
        "if False:",
    ),
    Plant(
        "a resumed decision ends with the published input",
        f"{ATTEMPT}.resume:finish_decision",
        "Finished(publication.ref,",
        "Finished(scope.ground.workspace.ref,",
    ),
    Plant(
        "an unchanged workspace makes no decision",
        f"{ATTEMPT}.run_attempt:_produce_publication",
        "if ground.level is Level.SETTLED:",
        "if ground.level is Level.SETTLED and changed:",
    ),
    Plant(
        "the wide fence does not compare poll counts and scheduled times",
        f"{DOMAIN}.attempt_fence:compare_row",
        "[*_narrow_facts(polled, fresh), *_wide_facts(polled, fresh)]",
        "[*_narrow_facts(polled, fresh)]",
        ("core", "verbs"),
    ),
    Plant(
        "the wide fence looks at its own row and not at the newest",
        f"{DOMAIN}.attempt_fence:compare_wide",
        "max(rows, key=lambda row: row.seq)",
        "next((row for row in rows if row.task_id == polled.task_id), None)",
        ("racy", "core"),
    ),
    Plant(
        "the wide fence does not ask whether the workflow runs",
        f"{DOMAIN}.attempt_fence:compare_wide",
        "if fresh.status not in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}:",
        "if False:",
        ("racy-verbs",),
    ),
    Plant(
        "an end is sent without a look",
        f"{ATTEMPT}.complete:_may_end",
        "if not dispatch.settings.reads_before_end:",
        "if True:",
        ("core", "verbs"),
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
        "lineage merges over an abandoned publication instead of taking the exact tree",
        f"{DOMAIN}.lineage:decide",
        "return MergeExactTree(tree, facts.staged, expected_head=facts.walk.head.commit)",
        "return MergeStaged(facts.staged, expected_head=facts.walk.head.commit)",
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
        f"{DOMAIN}.retention:judge_attempt_mark",
        "if isinstance(verdict, Remove) and decisions_left:",
        "if False:",
        ("gc-age-zero",),
    ),
    Plant(
        "reset-task runs while the workflow runs",
        "perago.app.fence.forget:forget",
        "if workflow is not None and not workflow.status.is_terminal:",
        "if False:",
        ("reset-task",),
    ),
)


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
    made = inspect.unwrap(made) if callable(made) else made
    assert isinstance(made, FunctionType), plant.name
    return made.__code__
