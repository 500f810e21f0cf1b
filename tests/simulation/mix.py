"""What a mix is made of: the shape of its workflow, what may happen in it, and how often."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from perago.domain.fence import FENCE_VERSION
from perago.domain.policy import PolicySetting
from perago.domain.run import History, OnMoved


class Shape(Enum):
    """What the workflow looks like."""

    ONE = "one task"
    CHAIN = "two tasks, the second takes what the first published"
    LOOK = "a read-only task, then one that writes"
    FORK = "two tasks side by side on two prefixes of one branch"
    RUN = "a run: begin, two tasks, finish"
    RUN_FORK = "a run whose two tasks work side by side and are joined"
    RUNS = "two runs of one task each, side by side, with one target"

    @property
    def has_runs(self) -> bool:
        """Whether tasks publish on a branch of their own until finish."""
        return self in {Shape.RUN, Shape.RUN_FORK, Shape.RUNS}


class Kind(Enum):
    """What can be chosen; the numbers of a mix say how often each may happen."""

    FAULT = "a call of a process fails in some way"
    STAND = "an attempt stands still until nothing else can happen"
    EXPIRE = "a living attempt's beats do not arrive and its lease expires"
    BEAT = "Conductor reads a row for a beat, and writes it later"
    REQUEUE = "an operator hands out every open row again"
    VERB = "an operator ends, brings back, pauses or resumes the workflow"
    FOREIGN = "something that is not Perago commits to the target branch"
    ANEW = "the inputs of later attempts resolve to something else"
    GC = "a pass of gc begins"
    RESET = "an operator runs `perago reset-task`"
    ABANDON = "an operator runs `perago abandon` for a run"
    WEEK = "eight days pass"
    DISK = "a file that a dead worker left on its disk is changed"


class Verb(Enum):
    """What an operator does to the workflow."""

    TERMINATE = "terminate"
    RETRY = "retry"
    RERUN = "rerun"
    RERUN_OTHER = "rerun with another input"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"


class Foreign(Enum):
    """What something that is not Perago does to the target branch."""

    OUTSIDE = "a commit outside the prefix"
    INSIDE = "a commit inside the prefix"
    EMPTY = "an empty commit"
    MERGE = "a merge of a branch of its own"
    REVERT = "a revert of the head"
    CHERRY_PICK = "a cherry-pick of a publication"
    HAND_MERGE = "a merge of a staging branch by hand"
    SAME_FILE = "a commit of a file that tasks write"
    HAND_MERGE_OF_RUN = "a merge of a run branch by hand"
    ON_RUN = "a commit on a run branch"


CAUTIOUS_VERBS = (Verb.TERMINATE, Verb.RETRY, Verb.PAUSE, Verb.RESUME)
ALL_VERBS = tuple(Verb)
OF_RUNS = (Foreign.SAME_FILE, Foreign.HAND_MERGE_OF_RUN, Foreign.ON_RUN)
ALL_FOREIGN = tuple(each for each in Foreign if each not in OF_RUNS)
PLAIN_FOREIGN = (Foreign.OUTSIDE, Foreign.INSIDE, Foreign.EMPTY, Foreign.MERGE)


@dataclass(frozen=True, slots=True)
class Mix:
    """One row: the workflow, the policy, and what may go wrong."""

    name: str
    question: str
    often: Mapping[Kind, int]
    policy: PolicySetting = PolicySetting.SETTLED
    shape: Shape = Shape.ONE
    verbs: tuple[Verb, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    gc_age_zero: bool = False
    gc_keeps_no_run: bool = False
    """The age of runs is zero, and those of everything else are the default."""
    fenced: bool = True
    fence_version: int = FENCE_VERSION
    protected: bool = False
    racy: bool = False
    attempts_max: int = 5
    other_policy: PolicySetting | None = None
    """Every second worker has this setting: a deploy in between."""
    old_workers: bool = False
    """Every second worker is of release 0.6.1: the same, while not all are replaced."""
    same_host: bool = False
    """All workers have one disk: what a worker left there when it died, the next one finds."""
    checkpoints: bool = False
    """Every function takes one checkpoint before it ends."""
    on_moved: OnMoved = OnMoved.REFUSE
    history: History = History.MERGE
    rerun_from: str = "t"
    """The task from whose newest row an operator runs the workflow again."""
    canary: bool = False
    """Every process proves the fence itself, as a fresh worker does."""
    without_fates: frozenset[str] = field(default_factory=frozenset[str])
    completes: bool = False
    """Nothing in this mix can keep the workflow from completing, but a terminal error of the
    team's own function."""
    without: frozenset[int] = field(default_factory=frozenset[int])
    """Numbers of invariants that this policy does not promise, or that are open (say why)."""
