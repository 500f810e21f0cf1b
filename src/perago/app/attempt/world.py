"""The world of an attempt: every port a step may ask, in one frozen value.

Wired by the container or by a test; a step takes what it needs from here and nothing else.
"""

from dataclasses import dataclass, field

from perago.app.attempt.known_places import KnownPlaces
from perago.app.attempt.stop_order import NoStopOrder, StopOrder
from perago.app.fence.trust import FenceTrust
from perago.domain.attempt_fence import FenceWidth
from perago.domain.publication_policy import PolicySetting
from perago.domain.secret_text import NO_SECRETS, Secrets
from perago.ports.attempt_directory import AttemptDirectories
from perago.ports.branches import Branches
from perago.ports.clock import Clock
from perago.ports.commits import Commits
from perago.ports.concurrency import Concurrency
from perago.ports.identities import Identities
from perago.ports.objects import Objects
from perago.ports.progress import Progress
from perago.ports.repositories import Repositories
from perago.ports.spark_workspace import SparkGateway
from perago.ports.tags import Tags
from perago.ports.task_body import TaskBody
from perago.ports.task_queue import TaskQueue
from perago.ports.workspace_pipeline import WorkspacePipeline


@dataclass(frozen=True, slots=True)
class LakeFS:
    """The ports of one lakeFS installation, and what is known of its fences."""

    branches: Branches
    commits: Commits
    tags: Tags
    objects: Objects
    repositories: Repositories
    pipeline: WorkspacePipeline
    trust: FenceTrust
    places: KnownPlaces


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside the process, and this process's own directories and loops.

    Without a gateway Spark works on local files. `warned` holds the warnings that a worker gives
    once in its life and not for every attempt that they hold for.
    """

    lakefs: LakeFS
    queue: TaskQueue
    body: TaskBody
    directories: AttemptDirectories
    clock: Clock
    identities: Identities
    concurrency: Concurrency
    progress: Progress
    stop_order: StopOrder = field(default_factory=NoStopOrder)
    spark_gateway: SparkGateway | None = None
    warned: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """What an operator decided for every attempt of a worker."""

    worker_id: str
    publication: PolicySetting = PolicySetting.AUTO
    fence_width: FenceWidth = FenceWidth.WIDE
    require_ownership: bool = False
    strict_input: bool = False
    failure_reason_max_length: int = 500
    body_seconds: float = 0.0
    secrets: Secrets = NO_SECRETS
    reads_before_end: bool = True
    """False for the callbacks of 0.6.1: they send no end, and are asked only when 0.6.1 asked."""
