"""The workflows and task types of the Conductor machine.

Says what is defined; every example has names of its own. A fork is no shape to play with: a real
JOIN looks when it comes to it, also while the workflow is paused and between a failure and what
repairs it, and what it saw is final.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from perago.testing.contract.conductor_under_test import OWNER, simple, system

Json: TypeAlias = dict[str, object]
TypeOf: TypeAlias = Callable[[str], str]

QUICK = {"retryDelaySeconds": 0, "timeoutSeconds": 0, "ownerEmail": OWNER}
# By the name that the machine has for it; `unknown` is never defined and has the server's defaults.
TASK_TYPES: Mapping[str, Json | None] = {
    "again": {**QUICK, "retryCount": 2},
    "once": {**QUICK, "retryCount": 0},
    "twin": {**QUICK, "retryCount": 0, "inputTemplate": {"from": "the template"}},
    "unknown": None,
    "left": {**QUICK, "retryCount": 0},
    "right": {**QUICK, "retryCount": 0},
    "joined": {**QUICK, "retryCount": 0},
    "woken": {**QUICK, "retryCount": 0},
    "leased": {**QUICK, "retryCount": 1, "responseTimeoutSeconds": 1},
    "delayed": {**QUICK, "retryCount": 1, "retryDelaySeconds": 1},
}
LOOP_TWICE = "if ($.loop['iteration'] < 2) { true; } else { false; }"


def _one(of: TypeOf) -> list[Json]:
    return [simple(of("again"), "only", {"all": "${workflow.input}", "me": "${CPEWF_TASK_ID}"})]


def _pair(of: TypeOf) -> list[Json]:
    second = {"x": "${first.output.x}", "n": "${first.retryCount}"}
    return [simple(of("again"), "first"), simple(of("once"), "second", second)]


def _optional(of: TypeOf) -> list[Json]:
    return [
        simple(of("again"), "maybe", optional=True, retryCount=0),
        simple(of("once"), "behind", {"x": "${maybe.output.x}", "was": "${maybe.status}"}),
    ]


def _fork(of: TypeOf) -> list[Json]:
    branches = [[simple(of("left"), "left")], [simple(of("right"), "right")]]
    return [
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left", "right"]),
        simple(of("joined"), "behind", {"joined": "${join.output}"}),
    ]


def _loop(of: TypeOf) -> list[Json]:
    body = [simple(of("once"), "body", {"round": "${loop.output.iteration}"})]
    return [
        system("DO_WHILE", "loop", loopCondition=LOOP_TWICE, loopOver=body),
        simple(of("again"), "behind", {"loop": "${loop.output}"}),
    ]


def _switch(of: TypeOf) -> list[Json]:
    switch = system(
        "SWITCH",
        "switch",
        evaluatorType="value-param",
        expression="case",
        inputParameters={"case": "${workflow.input.case}"},
        decisionCases={"a": [simple(of("again"), "in_a")], "b": [simple(of("once"), "in_b")]},
        defaultCase=[simple(of("twin"), "otherwise")],
    )
    return [switch, simple(of("once"), "behind")]


def _child(of: TypeOf) -> list[Json]:
    part = system(
        "SUB_WORKFLOW",
        "part",
        subWorkflowParam={"name": of("one"), "version": 1},
        inputParameters={"case": "${workflow.input.case}"},
    )
    return [part, simple(of("once"), "behind", {"of": "${part.output}"})]


def _ends(of: TypeOf) -> list[Json]:
    def end(status: str) -> Json:
        output = {"terminationStatus": status, "workflowOutput": {"x": "${first.output.x}"}}
        return system("TERMINATE", f"end_{status}", inputParameters=output)

    switch = system(
        "SWITCH",
        "switch",
        evaluatorType="value-param",
        expression="case",
        inputParameters={"case": "${workflow.input.case}"},
        decisionCases={"a": [end("COMPLETED")], "b": [end("FAILED")]},
        defaultCase=[],
    )
    return [simple(of("again"), "first"), switch, simple(of("once"), "behind")]


def _variables(of: TypeOf) -> list[Json]:
    kept = system("SET_VARIABLE", "kept", inputParameters={"x": "${first.output.x}"})
    return [
        simple(of("again"), "first"),
        kept,
        simple(of("twin"), "second", {"x": "${workflow.variables.x}"}),
    ]


def _undefined(of: TypeOf) -> list[Json]:
    return [simple(of("unknown"), "only")]


def _leased(of: TypeOf) -> list[Json]:
    return [simple(of("leased"), "only")]


def _delayed(of: TypeOf) -> list[Json]:
    return [simple(of("delayed"), "only")]


def _waits(of: TypeOf) -> list[Json]:
    wait = system("WAIT", "wait", inputParameters={"duration": "1 seconds"})
    return [wait, simple(of("woken"), "behind")]


SHAPES: Mapping[str, Callable[[TypeOf], list[Json]]] = {
    "one": _one,
    "pair": _pair,
    "optional": _optional,
    "loop": _loop,
    "switch": _switch,
    "child": _child,
    "ends": _ends,
    "variables": _variables,
    "undefined": _undefined,
}
TIMED: Mapping[str, Callable[[TypeOf], list[Json]]] = {
    "leased": _leased,
    "delayed": _delayed,
    "waits": _waits,
}
OTHERS: Mapping[str, Callable[[TypeOf], list[Json]]] = {**SHAPES, **TIMED, "fork": _fork}
OUTPUTS: Mapping[str, Json] = {"pair": {"x": "${second.output.x}", "no": "${first.output.no}"}}


def definition_of(shape: str, of: TypeOf) -> Json:
    """A workflow definition as it is registered; `of` gives each name its own form."""
    return {
        "name": of(shape),
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": OWNER,
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        "tasks": OTHERS[shape](of),
        "outputParameters": OUTPUTS.get(shape, {}),
    }
