"""The transcripts that are written by hand: the cases of the protocol's tables, one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.simulation.bridge.scripts import IDLE, Script
from tests.simulation.mix import ALL_FOREIGN, ALL_VERBS, OF_RUNS, Foreign, Kind, Mix, Shape, Verb
from tests.simulation.mixes import MIXES
from tests.simulation.moves import (
    ABANDON,
    COMMITS,
    EXPIRES,
    GC,
    LANDS,
    OPERATOR,
    POLL,
    REQUEUES,
    RESET,
    STANDS_STILL,
)

from perago.domain.policy import PolicySetting
from perago.domain.run import History, OnMoved

ANY = 9
ANYTHING: Mapping[Kind, int] = {kind: ANY for kind in Kind if kind not in {Kind.ANEW, Kind.BEAT}}
SETTLED = Mix(
    "by-hand",
    "anything, once it is asked for",
    ANYTHING,
    verbs=ALL_VERBS,
    foreign=(*ALL_FOREIGN, *OF_RUNS),
)
NOW = replace(SETTLED, gc_age_zero=True)
PROTECTED = replace(SETTLED, protected=True)
CHAIN = replace(SETTLED, shape=Shape.CHAIN)
LOOK = replace(SETTLED, shape=Shape.LOOK)
FORK = replace(SETTLED, shape=Shape.FORK)
RUN = replace(SETTLED, shape=Shape.RUN, attempts_max=9)
SQUASHED = replace(RUN, history=History.SQUASH)
REBASED = replace(RUN, on_moved=OnMoved.REBASE)
LINEAGE = replace(SETTLED, policy=PolicySetting.LINEAGE, without=MIXES["lineage"].without)
HEAD_PARENT = replace(
    SETTLED,
    policy=PolicySetting.HEAD_PARENT,
    fenced=False,
    without=MIXES["head-parent"].without,
)

MERGE = "branches.merge"
RELOCATE = "branches.relocate"
TAG = "tags.create"
CREATE = "branches.create"
STAGE = "commits.commit"
END = "queue.complete"
BODY = "its function"
FIRST_LOOK = "commits.first_parents"  # that settles an unanswered merge


def at(call: str, fate: str, who: str = "w1") -> tuple[str, str]:
    return f"{who} at {call}", fate


def before(call: str, move: str, who: str = "w1") -> tuple[str, str]:
    return f"{who} before {call}", move


def others(kind: Foreign) -> str:
    return f"{COMMITS}{kind.value}"


def operator(verb: Verb) -> str:
    return f"{OPERATOR}{verb.value}"


TERMINATE, RETRY = operator(Verb.TERMINATE), operator(Verb.RETRY)
RERUN, RESTART = operator(Verb.RERUN), operator(Verb.RESTART)

BY_HAND: Sequence[Script] = (
    # Unanswered requests, each settled by looking.
    Script("nothing goes wrong", SETTLED, []),
    Script("the request of the merge is lost", SETTLED, [at(MERGE, "request lost")]),
    Script("the answer of the merge is lost", SETTLED, [at(MERGE, "answer lost")]),
    Script("the merge is refused once", SETTLED, [at(MERGE, "refused")]),
    Script(
        "the merge lands before it is sent again",
        SETTLED,
        [at(MERGE, "lands late"), before(MERGE, LANDS)],
    ),
    Script(
        "the merge lands after it was sent again",
        SETTLED,
        [at(MERGE, "lands late"), before(END, LANDS)],
    ),
    Script("the answer of the decision is lost", SETTLED, [at(TAG, "answer lost")]),
    Script("the request of the decision is lost", SETTLED, [at(TAG, "request lost")]),
    Script("the answer of the end is lost", SETTLED, [at(END, "answer lost")]),
    Script("the request of the end is lost", SETTLED, [at(END, "request lost")]),
    Script("the answer of the staged commit is lost", SETTLED, [at(STAGE, "answer lost")]),
    # Deaths, each followed by a retry.
    Script("dies in its function", SETTLED, [at(BODY, "crash before")]),
    Script("dies before it decides", SETTLED, [at(TAG, "crash before")]),
    Script("dies after it decided", SETTLED, [at(TAG, "crash after")]),
    Script("dies before the merge", SETTLED, [at(MERGE, "crash before")]),
    Script("dies after the merge", SETTLED, [at(MERGE, "crash after")]),
    Script("dies after the merge on a protected branch", PROTECTED, [at(MERGE, "crash after")]),
    Script(
        "two die after the merge",
        SETTLED,
        [at(MERGE, "crash after"), at(END, "crash before", "w2")],
    ),
    Script("dies after it sent its end", SETTLED, [at(END, "crash after")]),
    Script(
        "dies while its merge is under way",
        SETTLED,
        [at(MERGE, "lands late"), at(FIRST_LOOK, "crash before"), (IDLE, LANDS)],
    ),
    # A process that stands still while its successor works.
    Script("stands still before the merge", SETTLED, [before(MERGE, STANDS_STILL)]),
    Script("stands still before it decides", SETTLED, [before(TAG, STANDS_STILL)]),
    Script("stands still before it stages", SETTLED, [before(STAGE, STANDS_STILL)]),
    Script("stands still before its end", SETTLED, [before(END, STANDS_STILL)]),
    Script(
        "loses its lease before the merge",
        SETTLED,
        [before(MERGE, f"{EXPIRES}w1"), before(MERGE, POLL)],
    ),
    Script(
        "the row is handed out twice",
        SETTLED,
        [before(MERGE, REQUEUES), before(MERGE, POLL)],
    ),
    # Operators.
    Script("terminated before the merge", SETTLED, [before(MERGE, TERMINATE)]),
    Script(
        "terminated before the merge, then retried",
        SETTLED,
        [before(MERGE, TERMINATE), (IDLE, RETRY)],
    ),
    Script(
        "terminated before the merge, then run again",
        SETTLED,
        [before(MERGE, TERMINATE), (IDLE, RERUN)],
    ),
    Script(
        "terminated before the merge, then restarted",
        SETTLED,
        [before(MERGE, TERMINATE), (IDLE, RESTART)],
    ),
    Script("paused before its end", SETTLED, [before(END, operator(Verb.PAUSE))]),
    Script(
        "decided, terminated, reset and run again",
        NOW,
        [before(MERGE, TERMINATE), (IDLE, RESET), (IDLE, RERUN)],
    ),
    Script("gc with no ages beside a decision", NOW, [before(MERGE, GC)]),
    Script(
        "gc with no ages after a terminated decision",
        NOW,
        [before(MERGE, TERMINATE), (IDLE, GC)],
    ),
    # Other tools on the branch.
    Script(
        "others commit inside the prefix before the merge",
        SETTLED,
        [before(MERGE, others(Foreign.INSIDE))],
    ),
    Script(
        "others commit outside the prefix before the merge",
        SETTLED,
        [before(MERGE, others(Foreign.OUTSIDE))],
    ),
    Script(
        "others make an empty commit before the decision",
        SETTLED,
        [before(TAG, others(Foreign.EMPTY))],
    ),
    Script("others merge before the merge", SETTLED, [before(MERGE, others(Foreign.MERGE))]),
    Script(
        "others merge the staging branch by hand",
        SETTLED,
        [before(MERGE, others(Foreign.HAND_MERGE))],
    ),
    Script(
        "others merge the staging branch by hand, past the old fence",
        replace(SETTLED, fence_version=1),
        [before(MERGE, others(Foreign.HAND_MERGE))],
    ),
    Script(
        "others revert the publication before the retry",
        SETTLED,
        [at(MERGE, "crash after"), (IDLE, others(Foreign.REVERT))],
    ),
    Script(
        "others pick the publication before the retry",
        SETTLED,
        [at(MERGE, "crash after"), (IDLE, others(Foreign.CHERRY_PICK))],
    ),
    Script(
        "others pick what the next task starts from",
        replace(CHAIN, attempts_max=2),
        [before("branches.delete", others(Foreign.CHERRY_PICK))],
    ),
    # Nothing changed, and functions that fail.
    Script("writes nothing", SETTLED, [at(BODY, "writes nothing")]),
    Script(
        "writes nothing, decides and dies",
        SETTLED,
        [at(BODY, "writes nothing"), at(TAG, "crash after")],
    ),
    Script(
        "writes nothing while others commit",
        SETTLED,
        [at(BODY, "writes nothing"), before(TAG, others(Foreign.INSIDE))],
    ),
    Script("its function fails once", SETTLED, [at(BODY, "raises")]),
    Script("its function fails for good", SETTLED, [at(BODY, "raises terminally")]),
    # Other shapes.
    Script("two tasks, one after the other", CHAIN, []),
    Script(
        "two tasks, the first dies after its end",
        CHAIN,
        [at(END, "crash after")],
    ),
    Script("reads only, then writes", LOOK, []),
    Script("two prefixes side by side", FORK, []),
    Script("two prefixes, one publishes while the other merges", FORK, [before(MERGE, POLL)]),
    # The documents' policies.
    Script("lineage: nothing goes wrong", LINEAGE, []),
    Script("lineage: dies after the merge", LINEAGE, [at(MERGE, "crash after")]),
    Script(
        "lineage: dies after the merge, the retry writes nothing",
        LINEAGE,
        [at(MERGE, "crash after"), at(BODY, "writes nothing", "w2")],
    ),
    Script("lineage: the answer of the merge is lost", LINEAGE, [at(MERGE, "answer lost")]),
    Script("head-parent: nothing goes wrong", HEAD_PARENT, []),
    Script("head-parent: dies after the merge", HEAD_PARENT, [at(MERGE, "crash after")]),
    Script(
        "head-parent: dies after the merge, the retry writes nothing",
        HEAD_PARENT,
        [at(MERGE, "crash after"), at(BODY, "writes nothing", "w2")],
    ),
    Script(
        "head-parent: the answer of the relocation is lost",
        HEAD_PARENT,
        [at(MERGE, "crash after"), at(RELOCATE, "answer lost", "w2")],
    ),
    # Runs: the attempts of the quiet run are begin, two tasks, finish.
    Script("a run: nothing goes wrong", RUN, []),
    Script("a run: one commit of it", SQUASHED, []),
    Script(
        "a run: no task changes anything",
        RUN,
        [at(BODY, "writes nothing", f"w{n}") for n in (2, 3)],
    ),
    Script("a run: begin dies before its base", RUN, [at(TAG, "crash before")]),
    Script("a run: begin dies after its base", RUN, [at(TAG, "crash after")]),
    Script("a run: begin dies after its branch", RUN, [at(CREATE, "crash after")]),
    Script(
        "a run: begin dies after its base, and the target moves",
        RUN,
        [at(TAG, "crash after"), (IDLE, others(Foreign.OUTSIDE))],
    ),
    Script("a run: begin stands still before its branch", RUN, [before(CREATE, STANDS_STILL)]),
    Script("a run: the answer of the base is lost", RUN, [at(TAG, "answer lost")]),
    Script("a run: a task dies after its publication", RUN, [at(MERGE, "crash after", "w2")]),
    Script("a run: finish dies before it decides", RUN, [at(TAG, "crash before", "w4")]),
    Script("a run: finish dies after it decided", RUN, [at(TAG, "crash after", "w4")]),
    Script("a run: finish dies after the merge", RUN, [at(MERGE, "crash after", "w4")]),
    Script("a run: finish dies after its end", RUN, [at(END, "crash after", "w4")]),
    Script("a run: the merge is lost", RUN, [at(MERGE, "request lost", "w4")]),
    Script("a run: the answer of the merge is lost", SQUASHED, [at(MERGE, "answer lost", "w4")]),
    Script(
        "a run: the merge lands after it was sent again",
        RUN,
        [at(MERGE, "lands late", "w4"), before(END, LANDS, "w4")],
    ),
    Script("a run: finish stands still before the merge", RUN, [before(MERGE, STANDS_STILL, "w4")]),
    Script(
        "a run: others move the target before finish decides",
        RUN,
        [before(TAG, others(Foreign.OUTSIDE), "w4")],
    ),
    Script(
        "a run: others move the target before the merge",
        RUN,
        [before(MERGE, others(Foreign.OUTSIDE), "w4")],
    ),
    Script(
        "a run: others move the target before the merge, rebase",
        REBASED,
        [before(MERGE, others(Foreign.OUTSIDE), "w4")],
    ),
    Script(
        "a run: a rebase dies after its merge",
        REBASED,
        [before(BODY, others(Foreign.INSIDE), "w2"), at(END, "crash before", "w4")],
    ),
    Script(
        "a run: others change a file of the run, rebase",
        REBASED,
        [before(BODY, others(Foreign.SAME_FILE), "w2")],
    ),
    Script(
        "a run: others merge the run branch by hand",
        RUN,
        [before(TAG, others(Foreign.HAND_MERGE_OF_RUN), "w4")],
    ),
    Script(
        "a run: others commit on the run branch",
        RUN,
        [before("queue.poll", others(Foreign.ON_RUN), "w4")],
    ),
    Script(
        "a run: terminated, removed by gc, and retried",
        replace(RUN, gc_age_zero=True),
        [before(BODY, TERMINATE, "w3"), (IDLE, GC), (IDLE, RETRY)],
    ),
    Script(
        "a run: terminated and abandoned",
        RUN,
        [before(BODY, TERMINATE, "w3"), (IDLE, ABANDON)],
    ),
    Script(
        "a run: terminated, abandoned while it is retried",
        RUN,
        [
            before(BODY, TERMINATE, "w3"),
            (IDLE, ABANDON),
            before("branches.delete", RETRY, "abandon1"),
        ],
    ),
    Script(
        "a run: its second task is run again, and begin had died once",
        replace(RUN, rerun_from="u"),
        [at(END, "crash before"), before(BODY, TERMINATE, "w4"), (IDLE, RERUN)],
    ),
    Script("a run: two tasks side by side, joined", replace(RUN, shape=Shape.RUN_FORK), []),
    Script("two runs: both onto one target", replace(REBASED, shape=Shape.RUNS), []),
)
