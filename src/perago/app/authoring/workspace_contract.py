"""The workspace object of a task's input and output: repository, branch, and the commit.

Both spellings of the reference type are read, and written back as they came. Resolves nothing.
"""

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

from perago.domain.authoring_errors import TaskInputError
from perago.domain.references import (
    IMPOSSIBLE_NAMES,
    BranchName,
    CommitId,
    RepositoryId,
    WorkspaceReference,
)

CAMEL: Final = "refType"
SNAKE: Final = "ref_type"
_Name = Annotated[str, Field(min_length=1)]


class WorkspaceRef(BaseModel):
    """Repository, branch and commit; the values keep their spaces."""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    repository: _Name
    branch: _Name
    ref_type: Literal["commit"] = Field(alias=CAMEL)
    ref: _Name
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
