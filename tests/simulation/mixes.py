"""The table of mixes: what may happen in a schedule, and how often.

One row is one question. A row leaves out invariants that its policy does not promise. While a
known defect is being mended, its row leaves out the invariant that shows it, with a comment, and
takes it back with the fix. None is left out for that now.
"""

from collections.abc import Mapping

from tests.simulation.mix import (
    ALL_FOREIGN,
    ALL_VERBS,
    CAUTIOUS_VERBS,
    OF_RUNS,
    PLAIN_FOREIGN,
    Foreign,
    Kind,
    Mix,
    Shape,
    Verb,
)

from perago.domain.policy import PolicySetting
from perago.domain.run import History, OnMoved

# A request of before a reset may put its decision again. Its chain has ended, so no retry needs it.
_A_DECISION_LANDS_AFTER_ITS_RESET = frozenset({14})

# What the table of guarantees does not promise at that level.
# 16 and 22: an unanswered merge is sent again, word for word and without another look at the
# attempt.
_LINEAGE_DOES_NOT_PROMISE = frozenset({3, 4, 15, 16, 22})
_HEAD_PARENT_DOES_NOT_PROMISE = frozenset({3, 4, 12, 15})

# 0.6.1 merges without naming a head, however stale; what its own attempts publish late is visible.
# It resets an unprotected branch over whatever single commit stands on its input.
_BESIDE_MERGES = frozenset({3, 4})
_BESIDE_RESETS = frozenset({1, 3, 4})

_EVERYTHING = (Kind.VERB, Kind.GC, Kind.WEEK, Kind.FOREIGN, Kind.ANEW, Kind.REQUEUE)
_CORE = {Kind.FAULT: 3, Kind.STAND: 2, Kind.EXPIRE: 2}

MIXES: Mapping[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix(
            "core",
            "crashes, lost and late requests, zombies, expired leases",
            {**_CORE, Kind.REQUEUE: 1},
            completes=True,
        ),
        Mix(
            "foreign",
            "the core beside commits of others, who can merge staging branches: the old fence",
            {**_CORE, Kind.FOREIGN: 2},
            foreign=ALL_FOREIGN,
            fence_version=1,
        ),
        Mix(
            "gc-default-ages",
            "do passes of gc ever take the branch of a decision, beside attempts and verbs",
            {**_CORE, Kind.GC: 2, Kind.VERB: 2, Kind.WEEK: 1},
            verbs=CAUTIOUS_VERBS,
        ),
        Mix(
            "gc-age-zero",
            "the same with every age set to zero",
            {**_CORE, Kind.GC: 2, Kind.VERB: 2},
            verbs=CAUTIOUS_VERBS,
            gc_age_zero=True,
        ),
        Mix(
            "verbs",
            "an operator ends and brings back the workflow while attempts run",
            {**_CORE, Kind.VERB: 3},
            verbs=ALL_VERBS,
        ),
        Mix(
            "reruns",
            "an operator runs tasks again that had been retried",
            {Kind.FAULT: 3, Kind.STAND: 1, Kind.VERB: 3},
            verbs=(Verb.TERMINATE, Verb.RERUN, Verb.RERUN_OTHER),
        ),
        Mix(
            "anew",
            "the inputs of retries resolve to the current head, or to other params",
            {**_CORE, Kind.ANEW: 2, Kind.FOREIGN: 1},
            foreign=PLAIN_FOREIGN,
        ),
        Mix(
            "reset-task",
            "an operator resets the task of an ended workflow and runs it again",
            {**_CORE, Kind.VERB: 3, Kind.RESET: 1, Kind.GC: 1},
            verbs=(Verb.TERMINATE, Verb.RETRY, Verb.RERUN),
            without=_A_DECISION_LANDS_AFTER_ITS_RESET,
        ),
        Mix(
            "reset-later",
            "the same of a workflow that ended long ago, beside gc",
            {Kind.FAULT: 2, Kind.VERB: 3, Kind.RESET: 1, Kind.GC: 2, Kind.WEEK: 1},
            verbs=(Verb.TERMINATE, Verb.RETRY, Verb.RERUN),
            without=_A_DECISION_LANDS_AFTER_ITS_RESET,
        ),
        Mix(
            "same-host",
            "a worker died after its function; the next one on its disk goes on with what it left",
            {**_CORE, Kind.REQUEUE: 1, Kind.DISK: 1},
            same_host=True,
            completes=True,
        ),
        Mix(
            "checkpoints",
            "every function takes a checkpoint, beside gc; a retry goes on from the newest",
            {**_CORE, Kind.REQUEUE: 1, Kind.GC: 1},
            checkpoints=True,
            completes=True,
        ),
        Mix(
            "chain",
            "two tasks, the second starts from what the first published",
            {**_CORE},
            shape=Shape.CHAIN,
            attempts_max=7,
            completes=True,
        ),
        Mix(
            "look",
            "a read-only task hands its input on",
            {**_CORE, Kind.VERB: 3},
            shape=Shape.LOOK,
            verbs=ALL_VERBS,
            attempts_max=7,
        ),
        Mix(
            "fork",
            "two prefixes of one branch are published side by side",
            {**_CORE, Kind.FOREIGN: 1},
            shape=Shape.FORK,
            foreign=(Foreign.OUTSIDE, Foreign.EMPTY, Foreign.CHERRY_PICK),
            attempts_max=7,
        ),
        Mix(
            "racy",
            "Conductor writes rows without comparing: late writes land over newer ones",
            {**_CORE, Kind.REQUEUE: 1, Kind.BEAT: 2},
            racy=True,
            completes=True,
        ),
        Mix(
            "racy-verbs",
            "the same beside an operator who ends the workflow and brings it back",
            {**_CORE, Kind.BEAT: 2, Kind.VERB: 2},
            verbs=CAUTIOUS_VERBS,
            racy=True,
        ),
        Mix(
            "protected",
            "the core on a protected branch",
            {**_CORE},
            protected=True,
            completes=True,
        ),
        Mix(
            "canary",
            "every process proves the fence itself, beside gc",
            {**_CORE, Kind.GC: 1},
            canary=True,
            gc_age_zero=True,
        ),
        Mix(
            "lineage",
            "policy lineage with the fence, beside commits of others",
            {**_CORE, Kind.FOREIGN: 1},
            policy=PolicySetting.LINEAGE,
            foreign=PLAIN_FOREIGN,
            without=_LINEAGE_DOES_NOT_PROMISE,
        ),
        Mix(
            "head-parent",
            "policy head-parent without a fence; nothing else writes, no request is late",
            {Kind.FAULT: 3},
            policy=PolicySetting.HEAD_PARENT,
            fenced=False,
            without_fates=frozenset({"lands late"}),
            without=_HEAD_PARENT_DOES_NOT_PROMISE,
        ),
        Mix(
            "deploy",
            "every second worker has policy lineage: a tag that is there wins",
            {**_CORE},
            other_policy=PolicySetting.LINEAGE,
            without=_LINEAGE_DOES_NOT_PROMISE,
        ),
        Mix(
            "upgrade",
            "every second worker is 0.6.1, no fence; nothing else writes, no request is late",
            {Kind.FAULT: 3},
            policy=PolicySetting.HEAD_PARENT,
            fenced=False,
            old_workers=True,
            without_fates=frozenset({"lands late"}),
            without=_HEAD_PARENT_DOES_NOT_PROMISE,
        ),
        Mix(
            "upgrade-protected",
            "0.6.1 workers that were not stopped, beside the fence, on a protected branch",
            {**_CORE},
            old_workers=True,
            protected=True,
            without=_BESIDE_MERGES,
        ),
        Mix(
            "upgrade-unprotected",
            "the same where the branch is not protected: 0.6.1 resets it",
            {**_CORE},
            old_workers=True,
            without=_BESIDE_RESETS,
        ),
        Mix(
            "chain-verbs",
            "two tasks, beside an operator and gc",
            {**_CORE, Kind.VERB: 3, Kind.GC: 1},
            shape=Shape.CHAIN,
            verbs=ALL_VERBS,
            attempts_max=8,
        ),
        Mix(
            "fork-anew",
            "two prefixes of one branch, and inputs that resolve anew",
            {**_CORE, Kind.ANEW: 2, Kind.FOREIGN: 1},
            shape=Shape.FORK,
            foreign=(Foreign.OUTSIDE, Foreign.EMPTY),
            attempts_max=8,
        ),
        Mix(
            "racy-gc",
            "a racy Conductor beside gc with ages of zero",
            {**_CORE, Kind.BEAT: 2, Kind.VERB: 1, Kind.GC: 2, Kind.REQUEUE: 1},
            verbs=CAUTIOUS_VERBS,
            racy=True,
            gc_age_zero=True,
        ),
        Mix(
            "lineage-verbs",
            "policy lineage beside an operator and gc",
            {**_CORE, Kind.VERB: 2, Kind.GC: 1},
            policy=PolicySetting.LINEAGE,
            verbs=ALL_VERBS,
            without=_LINEAGE_DOES_NOT_PROMISE,
        ),
        Mix(
            "run",
            "begin, two tasks and finish: a run, through everything of the core",
            {**_CORE, Kind.REQUEUE: 1},
            shape=Shape.RUN,
            attempts_max=9,
            completes=True,
        ),
        Mix(
            "run-foreign",
            "a run beside commits of others on the target and on the run branch, merges by hand",
            {**_CORE, Kind.FOREIGN: 2},
            shape=Shape.RUN,
            foreign=(*PLAIN_FOREIGN, Foreign.HAND_MERGE, *OF_RUNS),
            attempts_max=8,
        ),
        Mix(
            "run-rebase",
            "a run that finish brings onto a target which others moved, as one commit",
            {**_CORE, Kind.FOREIGN: 2, Kind.REQUEUE: 1},
            shape=Shape.RUN,
            foreign=(*ALL_FOREIGN, Foreign.SAME_FILE),
            on_moved=OnMoved.REBASE,
            history=History.SQUASH,
            attempts_max=8,
        ),
        Mix(
            "run-verbs",
            "an operator ends a run, brings it back, runs its tasks again, or abandons it",
            {**_CORE, Kind.VERB: 3, Kind.ABANDON: 1},
            shape=Shape.RUN,
            verbs=ALL_VERBS,
            attempts_max=9,
        ),
        Mix(
            "run-finish-again",
            "an operator runs the finish of a run again, beside commits of others",
            {**_CORE, Kind.VERB: 3, Kind.FOREIGN: 1, Kind.ANEW: 1},
            shape=Shape.RUN,
            verbs=(Verb.TERMINATE, Verb.RETRY, Verb.RERUN, Verb.RESTART),
            foreign=(*PLAIN_FOREIGN, Foreign.SAME_FILE),
            on_moved=OnMoved.REBASE,
            rerun_from="f",
            attempts_max=9,
        ),
        Mix(
            "run-begin-again",
            "an operator runs the begin of a run again, on a protected target",
            {**_CORE, Kind.VERB: 3, Kind.FOREIGN: 1},
            shape=Shape.RUN,
            verbs=(Verb.TERMINATE, Verb.RETRY, Verb.RERUN, Verb.RESTART),
            foreign=PLAIN_FOREIGN,
            protected=True,
            rerun_from="b",
            attempts_max=9,
        ),
        Mix(
            "run-gc",
            "passes of gc that keep no ended run, beside an operator, and abandon",
            {**_CORE, Kind.GC: 2, Kind.VERB: 2, Kind.WEEK: 1, Kind.ABANDON: 1},
            shape=Shape.RUN,
            verbs=CAUTIOUS_VERBS,
            gc_keeps_no_run=True,
            attempts_max=8,
        ),
        Mix(
            "run-gc-age-zero",
            "the same with every age set to zero, and a target that moves",
            {**_CORE, Kind.GC: 2, Kind.VERB: 2, Kind.FOREIGN: 1},
            shape=Shape.RUN,
            verbs=CAUTIOUS_VERBS,
            foreign=PLAIN_FOREIGN,
            on_moved=OnMoved.REBASE,
            gc_age_zero=True,
            attempts_max=8,
        ),
        Mix(
            "run-fork",
            "a run whose two tasks work side by side, joined by `perago.join`",
            {**_CORE, Kind.FOREIGN: 1},
            shape=Shape.RUN_FORK,
            foreign=(Foreign.OUTSIDE, Foreign.EMPTY),
            on_moved=OnMoved.REBASE,
            attempts_max=10,
        ),
        Mix(
            "runs",
            "two runs side by side, each brought onto what the other has published",
            {**_CORE, Kind.VERB: 1},
            shape=Shape.RUNS,
            verbs=CAUTIOUS_VERBS,
            on_moved=OnMoved.REBASE,
            attempts_max=11,
        ),
        Mix(
            "run-racy",
            "a run on a racy Conductor, beside an operator",
            {**_CORE, Kind.BEAT: 2, Kind.VERB: 1, Kind.REQUEUE: 1},
            shape=Shape.RUN,
            verbs=CAUTIOUS_VERBS,
            racy=True,
            attempts_max=8,
        ),
        Mix(
            "everything",
            "a little of everything at once",
            {**_CORE, **dict.fromkeys(_EVERYTHING, 1)},
            verbs=ALL_VERBS,
            foreign=ALL_FOREIGN,
            attempts_max=6,
        ),
    )
}
