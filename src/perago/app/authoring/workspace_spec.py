"""The workspace of a task: the object of its input and output, and what the task declares of it.

`WorkspaceRef` names repository, branch and commit. Both spellings of the reference type are read,
and written back as they came. `WorkspaceSpec` has the prefix, guardrails, checks and isolation;
`StagedView` is what a check sees.

A prefix may take values of params, such as `songs/{params.song}`: `refuse_placeholders` looks at a
declaration, `filled_prefix` fills them in. Everything after it knows the prefix of one attempt
only: it is part of the key of the execution and of the commit metadata, so that a retry with the
same params works on the same folder.
"""

import inspect
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, Literal, Self, Union, cast, final, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretBytes,
    SecretStr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from perago.app.authoring.guardrails import WorkspaceGuardrail
from perago.domain import lakefs
from perago.domain.errors import PrefixValueError, TaskDefinitionError, TaskInputError
from perago.domain.paths import (
    ATTEMPT_MARKER,
    ROOT_PREFIX,
    is_reserved_object,
    object_path,
    path_part_problem,
    prefix_problem,
)
from perago.ports.task_body import StagedChanges
from perago.ports.workspace import SparkWorkspace

CAMEL = "refType"
SNAKE = "ref_type"
PLACEHOLDER = re.compile(r"\{params\.(?P<name>[^\W\d]\w*)\}")
"""What stands for a value of params in a prefix."""
# Other braces are part of a name, as in 0.6.1.
_LIKE_A_PLACEHOLDER = re.compile(r"\{\s*params?\b[^}]*\}?")
_Name = Annotated[str, Field(min_length=1)]
_PREFIX_CODE = "PRG-T015"
_PLACEHOLDER_CODE = "PRG-T023"
_CHECK_CODE = "PRG-T022"
# A folder name is a text or a whole number; these are neither in JSON, or must not be shown.
_UNFIT = (bool, float, bytes, list, tuple, dict, set, frozenset, BaseModel, SecretStr, SecretBytes)


class WorkspaceRef(BaseModel):
    """Repository, branch and commit; the values keep their spaces."""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    repository: _Name
    """Name of the repository."""
    branch: _Name
    """The target branch, to which the task publishes."""
    ref_type: Literal["commit"] = Field(alias="refType")
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

    def as_value(self) -> lakefs.WorkspaceReference:
        """Return the plain value the core works with."""
        return lakefs.WorkspaceReference(
            lakefs.RepositoryId(self.repository),
            lakefs.BranchName(self.branch),
            lakefs.CommitId(self.ref),
        )

    @field_validator("repository", "branch", "ref")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise TaskInputError(
                "workspace repository, branch, and ref must not be blank", code="PRG-I002"
            )
        if value.strip() in lakefs.IMPOSSIBLE_NAMES:
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


@final
@dataclass(frozen=True, slots=True)
class StagedView:
    """The staged commit of a task, before it is decided or published; nothing can be written.

    All paths are relative to `WorkspaceSpec(prefix=...)` and in order. A check that raises fails
    the attempt: nothing is decided or published, and the staged commit stays for a look.
    """

    added: tuple[str, ...]
    """Files that the input commit does not have."""
    changed: tuple[str, ...]
    """Files that the input commit has with other bytes."""
    removed: tuple[str, ...]
    """Files of the input commit that the staged commit does not have."""
    _sizes: Mapping[str, int] = field(repr=False)
    _workspace: Path | SparkWorkspace = field(repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of the staged commit."""
        return tuple(self._sizes)

    def size(self, path: str) -> int:
        """The bytes of one file; raises FileNotFoundError when the staged commit has none."""
        if path not in self._sizes:
            raise FileNotFoundError(f"{path} is not in the staged commit")
        return self._sizes[path]

    def open(self, path: str) -> BinaryIO:
        """Open one file to read its bytes; on Spark the file is read into memory."""
        self.size(path)
        if isinstance(self._workspace, Path):
            return (self._workspace / path).open("rb")
        row = self._workspace.table(path, format="binaryFile").select("content").head()
        if row is None:
            raise FileNotFoundError(f"Spark hides {path}, because a part of it begins with _ or .")
        return io.BufferedReader(io.BytesIO(bytes(row[0])))  # BytesIO alone could be written

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a pyspark session
        """The session of a Spark task."""
        return self._on_spark().spark

    @property
    def read(self) -> Any:  # noqa: ANN401 - reads like pyspark's DataFrameReader
        """A Spark reader whose paths are relative to the prefix, at the staged commit."""
        return self._on_spark().read

    def _on_spark(self) -> SparkWorkspace:
        if isinstance(self._workspace, Path):
            text = "the workspace of this task is a directory, it has no Spark; use view.open(path)"
            raise TaskInputError(text, code="PRG-I007")
        return self._workspace


StagedCheck = Callable[[StagedView], None]


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
                code=_PLACEHOLDER_CODE,
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


def refuse_placeholders(prefix: str, model: type[BaseModel]) -> None:
    """Refuse a placeholder that no field of the params model can fill."""
    fields = model.model_fields
    for found in PLACEHOLDER.finditer(prefix):
        name = found["name"]
        if name not in fields:
            near = get_close_matches(name, fields, n=1)
            known = f"it has {', '.join(fields) or 'no fields'}"
            hint = f"did you mean {{params.{near[0]}}}?" if near else known
            text = f"WorkspaceSpec.prefix names {found[0]}, but {model.__name__} has no such field"
            raise TaskDefinitionError(f"{text}; {hint}", code=_PLACEHOLDER_CODE)
        if _is_unfit(fields[name].annotation):
            text = f"WorkspaceSpec.prefix names {found[0]}, whose values are no name of a folder"
            raise TaskDefinitionError(f"{text}; use a str or an int field", code=_PLACEHOLDER_CODE)
    # Braces are legal in a path. But where song is a field, `{song}` is a slip for `{params.song}`.
    for name in fields:
        if f"{{{name}}}" in prefix:
            text = f"WorkspaceSpec.prefix has {{{name}}}; did you mean {{params.{name}}}?"
            raise TaskDefinitionError(text, code=_PLACEHOLDER_CODE)


def filled_prefix(template: str, params: BaseModel) -> str:
    """The prefix for these params; raises PrefixValueError when a value is no part of a path."""

    def value_of(found: re.Match[str]) -> str:
        name = found["name"]
        value = params.model_dump(mode="json", include={name})[name]
        return _part(name, value)

    # One pass: a value that looks like a placeholder is a name and nothing else.
    prefix = PLACEHOLDER.sub(value_of, template)
    problem = prefix_problem(prefix)
    if problem is not None:
        names = ", ".join(found["name"] for found in PLACEHOLDER.finditer(template))
        raise PrefixValueError(names, problem)
    return prefix


def _part(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise PrefixValueError(name, f"is {type(value).__name__}, expected a text or whole number")
    problem = path_part_problem(str(value))
    if problem is not None:
        raise PrefixValueError(name, problem)
    return str(value)


def _is_unfit(annotation: object) -> bool:
    """Whether no value of a type is the name of a folder; of a union, of none of its members."""
    if get_origin(annotation) in {Union, UnionType}:
        return all(_is_unfit(each) for each in get_args(annotation) if each is not type(None))
    found = get_origin(annotation) or annotation
    return isinstance(found, type) and issubclass(found, _UNFIT)


def open_view(staged: StagedChanges, workspace: Path | SparkWorkspace | None) -> StagedView:
    """Show what was staged; without sizes the directory has exactly its files."""
    assert workspace is not None, "only workspace tasks stage"
    sizes = staged.sizes
    if sizes is None:
        assert isinstance(workspace, Path), "Spark is given the sizes"
        sizes = dict(sorted(_sizes_below(workspace, staged.prefix)))
    return StagedView(staged.added, staged.changed, staged.removed, sizes, workspace)


def _sizes_below(root: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """What of a directory is staged: neither the marker nor anything reserved, and no pipes."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            hidden = name == ATTEMPT_MARKER or is_reserved_object(object_path(prefix, relative))
            if not hidden and path.is_file():
                yield relative, path.stat().st_size
