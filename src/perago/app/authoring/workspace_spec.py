"""The workspace of a task: the object of its input and output, and what the task declares of it.

`WorkspaceRef` names repository, branch and commit. Both spellings of the reference type are read,
and written back as they came. `WorkspaceSpec` has the prefix, guardrails, checks and isolation.
Resolves nothing.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from perago.app.authoring.guardrails import WorkspaceGuardrail
from perago.app.authoring.staged_view import StagedView
from perago.domain.errors import TaskDefinitionError, TaskInputError
from perago.domain.lakefs import (
    IMPOSSIBLE_NAMES,
    BranchName,
    CommitId,
    RepositoryId,
    WorkspaceReference,
)
from perago.domain.paths import ROOT_PREFIX

CAMEL: Final = "refType"
SNAKE: Final = "ref_type"
StagedCheck = Callable[[StagedView], None]
PLACEHOLDER: Final = re.compile(r"\{params\.(?P<name>[^\W\d]\w*)\}")
"""What stands for a value of params in a prefix."""
# Other braces are part of a name, as in 0.6.1.
_LIKE_A_PLACEHOLDER = re.compile(r"\{\s*params?\b[^}]*\}?")
_Name = Annotated[str, Field(min_length=1)]
_PREFIX_CODE = "PRG-T015"
_CHECK_CODE = "PRG-T022"


class WorkspaceRef(BaseModel):
    """Repository, branch and commit; the values keep their spaces."""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    repository: _Name
    """Name of the repository."""
    branch: _Name
    """The target branch, to which the task publishes."""
    ref_type: Literal["commit"] = Field(alias=CAMEL)
    """What `ref` is; `refType` in JSON."""
    ref: _Name
    """Id of the commit to start from, all of it; of the first task the head of the branch."""
    _spelling: str = PrivateAttr(default=CAMEL)

    # Said again in each subclass: type checkers make up a constructor from the fields, which
    # would know one spelling only.
    def __init__(self, **values: object) -> None:
        super().__init__(**values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkspaceRef) or type(self) is not type(other):
            return NotImplemented
        return self.as_value() == other.as_value()

    def __hash__(self) -> int:
        return hash((type(self), self.as_value()))

    @property
    def refType(self) -> Literal["commit"]:  # noqa: N802  # the attribute of 0.6.1
        """The reference type under the name 0.6.1 gave it."""
        return self.ref_type

    def as_value(self) -> WorkspaceReference:
        """Return the plain value the core works with."""
        return WorkspaceReference(
            RepositoryId(self.repository), BranchName(self.branch), CommitId(self.ref)
        )

    @field_validator("repository", "branch", "ref")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise TaskInputError(
                "workspace repository, branch, and ref must not be blank", code="PRG-I002"
            )
        if value.strip() in IMPOSSIBLE_NAMES:
            raise TaskInputError(
                "workspace repository, branch, and ref must not be `.` or `..`; expected names as"
                " lakeFS shows them",
                code="PRG-I002",
            )
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _read_either_spelling(
        cls, values: object, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        if not isinstance(values, dict):
            return handler(values)
        given = cast("dict[str, object]", values)
        if CAMEL in given and SNAKE in given:
            if given[CAMEL] != given[SNAKE]:
                raise TaskInputError(
                    "workspace refType and ref_type must not differ", code="PRG-I008"
                )
            given = {name: value for name, value in given.items() if name != SNAKE}
        reference = handler(given)
        reference._spelling = CAMEL if CAMEL in given else SNAKE  # noqa: SLF001  # its own
        return reference

    @model_serializer(mode="wrap")
    def _write_as_it_came(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        written: dict[str, object] = handler(self)
        return {
            self._spelling if name in {CAMEL, SNAKE} else name: value
            for name, value in written.items()
        }


class WorkspaceOutput(WorkspaceRef):
    """The workspace a task hands to the next one: the input with only the commit changed."""

    def __init__(self, **values: object) -> None:
        super().__init__(**values)


class WorkspaceInput(WorkspaceRef):
    """The workspace a task starts from."""

    def __init__(self, **values: object) -> None:
        super().__init__(**values)

    def published_output(self, ref: str) -> WorkspaceOutput:
        """Return the output that names `ref` and keeps everything else, spelling included."""
        return WorkspaceOutput.model_validate(self.model_dump() | {"ref": ref})


class WorkspaceSpec(BaseModel):
    """The part of the repository a task works on, its guardrails, checks and isolation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = ROOT_PREFIX
    """Folder of the repository; `"/"` is all of it, `{params.NAME}` takes a value of params."""
    pre: list[WorkspaceGuardrail] = Field(default_factory=list[WorkspaceGuardrail])
    """Guardrails checked before the task function; a violation is terminal."""
    post: list[WorkspaceGuardrail] = Field(default_factory=list[WorkspaceGuardrail])
    """Guardrails checked after the task function; a violation fails the attempt."""
    read_only: bool = False
    """Whether local changes are dropped instead of published."""
    isolation: Literal["branch", "prefix"] = "branch"
    """What must not have moved when the task publishes: the branch, or only the prefix."""

    checks: list[StagedCheck] = Field(default_factory=list[StagedCheck])
    """Functions that judge the staged commit before it is decided or published."""

    @field_validator("checks", mode="before")
    @classmethod
    def _checks_can_be_called(cls, checks: object) -> object:
        """Runs before pydantic's own check, which does not look at the parameters of a function."""
        if not isinstance(checks, list | tuple):
            return checks  # pydantic says what is wrong with it
        for check in (given := cast("Sequence[object]", checks)):
            _refuse_unless_check(check)
        return given

    @model_validator(mode="after")
    def _read_only_has_no_checks(self) -> Self:
        if self.read_only and self.checks:
            raise TaskDefinitionError(
                "WorkspaceSpec(read_only=True) stages no commit, so it takes no checks; use post"
                " guardrails",
                code=_CHECK_CODE,
            )
        return self

    @field_validator("prefix")
    @classmethod
    def _normalise_prefix(cls, prefix: str) -> str:
        if "\\" in prefix:
            raise TaskDefinitionError(
                "WorkspaceSpec.prefix must use '/' separators", code=_PREFIX_CODE
            )
        stripped = prefix.strip()
        if stripped == ROOT_PREFIX:
            return ROOT_PREFIX
        relative = stripped.lstrip("/")
        if not relative:
            raise TaskDefinitionError("WorkspaceSpec.prefix must not be empty", code=_PREFIX_CODE)
        if not {"", ".", ".."}.isdisjoint(relative.split("/")):
            raise TaskDefinitionError(
                "WorkspaceSpec.prefix must stay inside the repository", code=_PREFIX_CODE
            )
        odd = _LIKE_A_PLACEHOLDER.search(PLACEHOLDER.sub("", relative))
        if odd is not None:
            raise TaskDefinitionError(
                f"WorkspaceSpec.prefix has {odd[0]}, expected {{params.NAME}} with the name of one"
                " field",
                code="PRG-T023",
            )
        return relative


def check_name(check: Callable[..., object]) -> str:
    """What a check is called in reasons: a function by its name, anything else by its type."""
    name = getattr(check, "__qualname__", "") or type(check).__qualname__
    return name.rpartition("<locals>.")[2]


def _refuse_unless_check(check: object) -> None:
    if not callable(check):
        raise TaskDefinitionError(
            f"WorkspaceSpec.checks takes functions, found {type(check).__name__}", code=_CHECK_CODE
        )
    if inspect.iscoroutinefunction(check):
        raise TaskDefinitionError(
            f"check {check_name(check)} must be a synchronous function", code=_CHECK_CODE
        )
    try:
        inspect.signature(check).bind(None)
    except TypeError as error:
        raise TaskDefinitionError(
            f"check {check_name(check)} must take one positional argument, the view of the staged"
            f" commit: {error}",
            code=_CHECK_CODE,
        ) from error
