"""Which kinds of task the in-memory Conductor runs."""

from collections.abc import Mapping
from types import MappingProxyType

from perago.adapters.memory.workflow_steps.do_while import walk_do_while
from perago.adapters.memory.workflow_steps.fork_join import walk_fork_join
from perago.adapters.memory.workflow_steps.fork_join_dynamic import walk_fork_join_dynamic
from perago.adapters.memory.workflow_steps.join import walk_join
from perago.adapters.memory.workflow_steps.set_variable import walk_set_variable
from perago.adapters.memory.workflow_steps.simple import walk_simple
from perago.adapters.memory.workflow_steps.sub_workflow import walk_sub_workflow
from perago.adapters.memory.workflow_steps.switch import walk_switch
from perago.adapters.memory.workflow_steps.terminate import walk_terminate
from perago.adapters.memory.workflow_steps.wait import walk_wait
from perago.adapters.memory.workflow_walk import Step

STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "SIMPLE": walk_simple,
        "FORK_JOIN": walk_fork_join,
        "JOIN": walk_join,
        "DO_WHILE": walk_do_while,
        "SWITCH": walk_switch,
        "SUB_WORKFLOW": walk_sub_workflow,
        "FORK_JOIN_DYNAMIC": walk_fork_join_dynamic,
        "SET_VARIABLE": walk_set_variable,
        "TERMINATE": walk_terminate,
        "WAIT": walk_wait,
    }
)
