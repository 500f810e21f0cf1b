"""Shapes of task modules that 0.6.1 and ours are both run on: the good ones.

Each is the text of a module after the imports of `HEAD`. A difference that is decided has its
reason beside it; without one the two must answer alike.
"""

import dataclasses
from dataclasses import dataclass

HEAD = """
import dataclasses, datetime, decimal, enum, pathlib, uuid
from pathlib import Path
from typing import *
from pydantic import *
from typing_extensions import TypedDict
from perago import *

class Params(BaseModel):
    rows: int = 1

class Result(BaseModel):
    written: int = 0

Item = TypeVar("Item")
"""


@dataclass(frozen=True)
class Shape:
    """One module; `differs` is the reason why ours answers otherwise, `ours` how it begins."""

    name: str
    text: str
    differs: str = ""
    ours: str = ""

    @property
    def module(self) -> str:
        """The module's name, which no library has."""
        return f"shape_{self.name}"


def plain(name: str, params: str = "Params", result: str = "Result", *, keywords: str = "") -> str:
    """Return a workspace-free task."""
    more = f", {keywords}" if keywords else ""
    return (
        f"@task(name={name!r}, owner_email='team'{more})\n"
        f"def f(params: {params}) -> {result}: ...\n"
    )


def model(fields: str, *, name: str = "P") -> str:
    """Return a model with these fields, one a line or separated by semicolons."""
    body = "\n".join(f"    {field.strip()}" for field in fields.split(";"))
    return f"class {name}(BaseModel):\n{body}\n"


def of_params(name: str, fields: str, before: str = "", *, strict: bool = False) -> Shape:
    """Return a task whose params have these fields."""
    keywords = "strict_params=True" if strict else ""
    return Shape(name, before + model(fields) + plain(name, "P", keywords=keywords))


def of_result(name: str, fields: str, differs: str = "") -> Shape:
    """Return a task whose result has these fields."""
    return Shape(name, model(fields, name="R") + plain(name, result="R"), differs)


def in_workspace(name: str, spec: str = "", controls: str = "") -> Shape:
    """Return a workspace task."""
    more = f", controls=TaskControls({controls})" if controls else ""
    return Shape(
        name,
        f"@task(name={name!r}, owner_email='team', workspace=WorkspaceSpec({spec}){more})\n"
        "def f(workspace: Path, params: Params) -> Result: ...\n",
    )


BUDGET = (
    "publish_budget=PublishBudget(observed_merge_p99_seconds=1, safety_margin_seconds=1,"
    " lakefs_merge_timeout_seconds={}, conductor_completion_timeout_seconds=1,"
    " worker_shutdown_grace_seconds=1, heartbeat_interval_seconds=1)"
)
PETS = (
    "class Cat(BaseModel):\n    kind: Literal['cat']; lives: int = 9\n"
    "class Dog(BaseModel):\n    kind: Literal['dog']; name: str\n"
)
INNER = "class Inner(BaseModel):\n    'A docstring.'\n    a: int\n    b: str = 'x'\n"
NODE = "class Node(BaseModel):\n    value: int\n    below: list['Node'] = []\n"
RECURSIVE = "a recursive model is described by $defs; 0.6.1 crashes or accepts everything"
COMPUTED = "a computed field is in the schema, because it is in the output"
ONE_SIDED = "the schema names what is written; 0.6.1 names what is read"
KEYWORDS_KEPT = "names and values that look like keywords of a schema are left alone"

GOOD = [
    Shape("minimal", plain("minimal")),
    Shape("described", plain("described", keywords="description='Builds features'")),
    Shape("described_blank", plain("described_blank", keywords="description=''")),
    Shape("strict", plain("strict", keywords="strict_params=True")),
    Shape("odd_name", plain("odd.name é 1")),
    Shape(
        "measured",
        "@task(name='measured', owner_email='team', metrics=MetricSpec())\n"
        "def f(params: Params, metrics: MetricRecorder) -> Result: ...\n",
    ),
    Shape(
        "measured_workspace",
        "@task(name='mw', owner_email='team', workspace=WorkspaceSpec(), metrics=MetricSpec())\n"
        "def f(workspace: Path, params: Params, metrics: MetricRecorder) -> Result: ...\n",
    ),
    Shape("future", plain("future", "'Params'", "'Result'")),
    Shape("annotated", plain("annotated", "Annotated[Params, 'note']")),
    in_workspace("workspace"),
    in_workspace("workspace_prefix", "prefix='/data/raw'"),
    in_workspace(
        "workspace_guarded",
        "pre=[require_file('a'), require_dir(pathlib.PurePath('b'))],"
        " post=[require_glob('**/*.csv', max_count=3), forbid_glob('tmp/*')]",
    ),
    in_workspace("workspace_read_only", "read_only=True"),
    in_workspace("budget_fits", "", BUDGET.format(10)),
    dataclasses.replace(
        in_workspace("budget_too_long", "", BUDGET.format(1000)),
        differs="Python's warning is printed like every other, without a path in our code",
        ours="warning: Task 'budget_too_long' has TaskControls.timeout.response_seconds=600 which",
    ),
    in_workspace("budget_in_vain", "read_only=True", BUDGET.format(1000)),
    in_workspace(
        "controls_all",
        "",
        "retry=RetryPolicy(count=1, logic='LINEAR_BACKOFF', delay_seconds=2, max_delay_seconds=3,"
        " jitter_ms=4), timeout=TimeoutPolicy(policy='RETRY', seconds=5, response_seconds=6,"
        " poll_seconds=7, total_seconds=8), limits=ExecutionLimits(concurrent_exec_limit=1,"
        " rate_limit_frequency_in_seconds=2, rate_limit_per_frequency=3)",
    ),
    of_params("empty", "pass"),
    of_params("nested", "inner: Inner; many: list[Inner]; named: dict[str, Inner]", INNER),
    of_params("nested_strict", "inner: Inner; many: list[Inner]", INNER, strict=True),
    of_params("nested_described", "inner: Inner = Field(description='d', title='T')", INNER),
    of_params(
        "generic",
        "one: Box[int]; two: Box[Params]",
        "class Box(BaseModel, Generic[Item]):\n    item: Item\n    items: list[Item]\n",
    ),
    of_params("inherited", "c: int", "class Params2(Params):\n    d: int\n"),
    of_params("aliased", "a: int = Field(alias='A'); b: int = Field(validation_alias='B')"),
    of_params("alias_choices", "a: int = Field(validation_alias=AliasChoices('x', 'y'))"),
    of_params("union", "pet: Cat | Dog; either: int | str | None = None", PETS),
    of_params("discriminated", "pet: Cat | Dog = Field(discriminator='kind')", PETS),
    of_params(
        "enums",
        "c: Colour = Colour.RED; cs: list[Colour]; m: Mixed | None = None",
        "class Colour(enum.Enum):\n    'Colours.'\n    RED = 'r'\n    BLUE = 'b'\n"
        "class Mixed(enum.Enum):\n    ONE = 1\n    X = 'x'\n",
    ),
    of_params(
        "times",
        "d: datetime.date; t: datetime.datetime; c: datetime.time; p: datetime.timedelta",
    ),
    of_params("decimals", "a: decimal.Decimal; b: decimal.Decimal = Field(ge=0, max_digits=5)"),
    of_params("identifiers", "u: uuid.UUID; p: pathlib.Path; url: AnyUrl; raw: bytes = b'x'"),
    of_params("secret", "token: SecretStr = SecretStr('hush'); must: SecretStr"),
    of_params("optional", "a: int | None; b: Optional[str] = None; c: None = None"),
    of_params(
        "constrained",
        "a: int = Field(gt=0, lt=9, multiple_of=2); b: str = Field(pattern='^a', min_length=1);"
        " c: list[int] = Field(min_length=1, max_length=3); d: int = Field(3, deprecated=True)",
    ),
    of_params("free", "a: dict[str, Any]; b: dict[str, int] = {}; c: dict; d: Any; e: object"),
    of_params("tuples", "a: tuple[int, str]; b: tuple[int, ...] = (1,); c: tuple[()] = ()"),
    of_params("sets", "a: set[int]; b: frozenset[str] = frozenset()"),
    of_params("literals", "a: Literal[1, 'a', None]; b: Literal['x'] = 'x'"),
    of_params("json", "a: Json[list[int]] = '[]'"),
    of_params(
        "typed_dict",
        "row: Row; rows: list[Row]",
        "class Row(TypedDict, total=False):\n    'A row.'\n    a: int\n",
    ),
    of_params(
        "dataclass",
        "row: Row",
        "@dataclasses.dataclass\nclass Row:\n    'A row.'\n    a: int = 1\n",
    ),
    of_params("extras", "a: int = Field(json_schema_extra={'x-unit': 's'}, examples=[1, 2])"),
    of_params(
        "validated",
        "a: int; _check = field_validator('a')(lambda value: value)",
    ),
    Shape(
        "configured",
        "class P(BaseModel):\n    model_config = ConfigDict(extra='allow', title='T')\n"
        "    a: int = 1\n" + plain("configured", "P"),
    ),
    of_result("result_nested", "inner: Params; many: list[Params] = []"),
    of_result("result_values", "d: datetime.date; p: decimal.Decimal; u: uuid.UUID; f: float = 1"),
    of_result("result_aliased", "a: int = Field(alias='A')"),
    of_result(
        "result_one_sided",
        "a: int = Field(validation_alias='in', serialization_alias='out')",
        ONE_SIDED,
    ),
    Shape(
        "result_computed",
        "class R(BaseModel):\n    a: int = 1\n    @computed_field\n"
        "    def double(self) -> int: return self.a * 2\n" + plain("rc", result="R"),
        COMPUTED,
    ),
    Shape("recursive", NODE + plain("recursive", "Node"), RECURSIVE),
    Shape("recursive_inside", NODE + model("node: Node") + plain("ri", "P"), RECURSIVE),
    Shape(
        "keyword_names",
        model("title: str; properties: str; items: int = 1; default: int = 2") + plain("kn", "P"),
        KEYWORDS_KEPT,
    ),
    Shape(
        "keyword_values",
        model("a: dict = {'title': 'kept'}; b: Params = Field(examples=[{'title': 't'}])")
        + plain("kv", "P"),
        KEYWORDS_KEPT,
    ),
]
