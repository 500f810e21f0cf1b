"""Planted bugs of begin, finish, rebase, abandon, and of what keeps a run out of others' hands."""

from collections.abc import Sequence

from tests.simulation.plant import Plant

ATTEMPT = "perago.app.attempt"
DOMAIN = "perago.domain"
RUNS = "perago.app.runs"
MEMORY = "perago.adapters.memory"

PLANTS_OF_RUNS: Sequence[Plant] = (
    Plant(
        "an attempt that a retry has made good is not ended",
        f"{ATTEMPT}.run_attempt:_require_no_retry",
        "if attempt.row.retried:",
        "if False:",
        ("run-finish-again", "run-verbs"),
    ),
    Plant(
        "an open decision for another branch is not in the way",
        f"{ATTEMPT}.resume:find_decision_on_other_input",
        "open_elsewhere |= published.branch != target.workspace.branch",
        "pass",
        ("run-verbs",),
    ),
    Plant(
        "the fence lets run branches be merged by hand",
        f"{MEMORY}.lakefs:_merge_event",
        "merge_source=request.source",
        'merge_source=request.source.removeprefix("perago-run-")',
        ("run-foreign",),
    ),
    Plant(
        "begin takes the base that it has read for the agreed one",
        f"{RUNS}.begin:begin",
        "base = await put_if_absent(ports, repository, base_tag(key), candidate.commit)",
        "await put_if_absent(ports, repository, base_tag(key), candidate.commit)\n"
        "        base = candidate.commit",
        ("run-foreign", "run-rebase"),
    ),
    Plant(
        "every attempt of begin begins a run of its own",
        f"{DOMAIN}.run:run_key",
        "short_hash(chain, repository, branch)",
        "short_hash(attempt.task_id, repository, branch)",
        ("run",),
    ),
    Plant(
        "begin creates the run branch without a look",
        f"{RUNS}.begin:_open_run_branch",
        "await check_attempt(attempt)",
        "pass",
        ("run",),
    ),
    Plant(
        "finish does not look for what an earlier finish has published",
        f"{DOMAIN}.run:find_publication_of_run",
        "walk.above if walk.reached else ()",
        "()",
        ("run", "run-finish-again"),
    ),
    Plant(
        "a cherry-pick of a run is taken for its publication",
        f"{DOMAIN}.run:find_publication_of_run",
        "if on_its_head and expected.items()",
        "if expected.items()",
        ("run-rebase",),
    ),
    Plant(
        "finish merges a run onto a target that moved without a rebase",
        f"{RUNS}.finish:_Finishing._prepare",
        "made = await rebase_run(self.attempt, self._merge(onto, head))",
        "made = head",
        ("run-rebase", "runs"),
    ),
    Plant(
        "a run loses its history",
        f"{RUNS}.merge:Merge.request",
        "squash=self.history is History.SQUASH,",
        "squash=True,",
        ("run",),
    ),
    Plant(
        "finish does not decide",
        f"{RUNS}.finish:_Finishing._agree",
        "if self.decided:",
        "if True:",
        ("run",),
    ),
    Plant(
        "finish publishes the head of the run branch, whoever moved it",
        f"{RUNS}.finish:_Finishing._prepare",
        "return self._merge(run.base, head)",
        "return self._merge(run.base, run.run_branch)",
        ("run-foreign",),
    ),
    Plant(
        "finish removes the run branch before its end is recorded",
        f"{RUNS}.finish:finish",
        "attempt.leftovers.staging_may_go = False",
        "attempt.leftovers.staging_may_go = True",
        ("run",),
    ),
    Plant(
        "finish ends with the base of its run",
        f"{RUNS}.finish:finish",
        "workspace_at(run.repository, run.branch, publication.ref)",
        "workspace_at(run.repository, run.branch, run.base)",
        ("run",),
    ),
    Plant(
        "finish merges without a look at its row",
        f"{RUNS}.finish:_Finishing._round",
        "await check_attempt(self.attempt)",
        "pass",
        ("run",),
    ),
    Plant(
        "gc removes the runs of workflows that run",
        f"{DOMAIN}.retention:judge_run",
        "if workflow is WorkflowStanding.LIVE:",
        "if False:",
        ("run-gc-age-zero",),
    ),
    Plant(
        "gc removes a run that its finish has decided to publish",
        "perago.app.gc.judging:_is_decided",
        "if tag.commit == head and tag.name not in so_far.gone:",
        "if False:",
        ("run-gc-age-zero", "run-gc"),
    ),
    Plant(
        "abandon removes the run of a workflow that runs",
        f"{RUNS}.held_runs:abandon_run",
        "if workflow is not None and not workflow.status.is_terminal:",
        "if False:",
        ("run-verbs",),
    ),
)
