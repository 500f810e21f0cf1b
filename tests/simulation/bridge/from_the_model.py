"""Counterexamples of the model check, as transcripts: what ours does where they lead.

Each is a shortest trace that the model checker found for a policy of the documents, named by its
scenario and property. Where ours excludes what the trace ends in, the transcript ends in something
else; where the policy does not promise better, it ends in the same, and on real servers too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.simulation.bridge.by_hand import (
    BODY,
    FIRST_LOOK,
    FORK,
    HEAD_PARENT,
    LINEAGE,
    MERGE,
    RELOCATE,
    SETTLED,
    STAGE,
    at,
    before,
    others,
)
from tests.simulation.bridge.scripts import IDLE, Part, Script
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mix import Foreign, Mix
from tests.simulation.moves import LANDS, POLL, REQUEUES, STANDS_STILL

# What a trace ends in is told by its end here; the same traces would break invariants.
WHATEVER = frozenset(INVARIANTS)
HEAD_PARENT_ALONE = replace(HEAD_PARENT, without=WHATEVER)
LINEAGE_FENCED = replace(LINEAGE, without=WHATEVER, attempts_max=2)
POLICIES: Mapping[str, Mix] = {
    "head-parent": HEAD_PARENT_ALONE,
    "head-parent with the fence": replace(HEAD_PARENT_ALONE, fenced=True, attempts_max=2),
    "lineage": replace(LINEAGE_FENCED, fenced=False),
    "lineage with the fence": LINEAGE_FENCED,
    "settled": SETTLED,
}

ONE = "COMPLETED, 1 above the input, the head was accepted"
TWO = "COMPLETED, 2 above the input, the head was accepted"
BESIDE_A_NO_OP = "COMPLETED, 1 above the input, the input was accepted"
LOST = "COMPLETED, 1 above the input, the accepted commit is lost"
REFUSED = "FAILED, 1 above the input"
REFUSED_AND_RETRIED = "RUNNING, 1 above the input"

LATE_BESIDE_A_NO_OP: Sequence[Part] = (
    at(MERGE, "lands late"),
    at(FIRST_LOOK, "crash before"),
    at(BODY, "writes nothing", "w2"),
    (IDLE, LANDS),
)
LATE_AFTER_ANOTHER: Sequence[Part] = (at(MERGE, "lands late"), at(FIRST_LOOK, "crash before"))
LATE_RELOCATION: Sequence[Part] = (
    at(MERGE, "crash after"),
    at(RELOCATE, "lands late", "w2"),
    at(FIRST_LOOK, "crash before", "w2"),
)
ZOMBIE_BESIDE_A_NO_OP: Sequence[Part] = (
    before(MERGE, STANDS_STILL),
    at(BODY, "writes nothing", "w2"),
)
ZOMBIE_BEFORE_THE_HEAD: Sequence[Part] = (before(STAGE, STANDS_STILL),)
COMMIT_BEFORE_THE_HEAD: Sequence[Part] = (before(STAGE, others(Foreign.OUTSIDE)),)
COMMIT_BEFORE_THE_MERGE: Sequence[Part] = (before(MERGE, others(Foreign.OUTSIDE)),)
MERGE_BEFORE_THE_MERGE: Sequence[Part] = (before(MERGE, others(Foreign.MERGE)),)
TWICE: Sequence[Part] = (before(MERGE, REQUEUES), before(MERGE, POLL))
DIED: Sequence[Part] = (at(MERGE, "crash after"),)

# The trace, its parts, and what it comes to by policy.
TRACES: Sequence[tuple[str, Sequence[Part], Mapping[str, str]]] = (
    (
        "late, P3h: a merge lands after a retry kept the input",
        LATE_BESIDE_A_NO_OP,
        dict.fromkeys(list(POLICIES)[:4], BESIDE_A_NO_OP),
    ),
    (
        "late, P3a: a merge lands after a retry published",
        LATE_AFTER_ANOTHER,
        dict.fromkeys(POLICIES, ONE),
    ),
    (
        "late, P1: a relocation lands after a retry was accepted",
        LATE_RELOCATION,
        {"head-parent": LOST},
    ),
    (
        "zombie2, P3h: a stale attempt merges after a retry kept the input",
        ZOMBIE_BESIDE_A_NO_OP,
        dict.fromkeys(list(POLICIES)[:4], BESIDE_A_NO_OP),
    ),
    (
        "zombie2, P1: a stale attempt reads the head after a retry published",
        ZOMBIE_BEFORE_THE_HEAD,
        {name: ONE for name in POLICIES if "lineage" not in name},
    ),
    (
        "foreign, P2: others commit before the head is read",
        COMMIT_BEFORE_THE_HEAD,
        {
            "head-parent": ONE,
            "head-parent with the fence": ONE,
            "lineage": REFUSED_AND_RETRIED,
            "lineage with the fence": REFUSED_AND_RETRIED,
            "settled": REFUSED,
        },
    ),
    (
        "foreign, P3h: others commit after the head was read",
        COMMIT_BEFORE_THE_MERGE,
        {
            "head-parent": TWO,
            "lineage": TWO,
            "lineage with the fence": REFUSED_AND_RETRIED,
            "settled": REFUSED,
        },
    ),
    (
        "fmerge, P3h: others merge after the head was read",
        MERGE_BEFORE_THE_MERGE,
        {
            "head-parent": TWO,
            "lineage": TWO,
            "lineage with the fence": REFUSED_AND_RETRIED,
            "settled": REFUSED,
        },
    ),
    ("twice, P3a: an attempt is handed out twice", TWICE, dict.fromkeys(POLICIES, ONE)),
    ("crash, P6: a retry meets what the first has published", DIED, {"lineage": TWO}),
)

FROM_THE_MODEL: Sequence[Script] = (
    *(
        Script(f"{trace} ({policy})", POLICIES[policy], parts, end)
        for trace, parts, ends in TRACES
        for policy, end in ends.items()
    ),
    Script(
        "fork, P1: two tasks side by side (head-parent)",
        replace(FORK, policy=HEAD_PARENT.policy, fenced=False),
        [],
        "FAILED, 0 above the input",
    ),
)
