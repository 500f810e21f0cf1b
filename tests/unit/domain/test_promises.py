"""Each policy promises something at each of its levels, and the fence takes no promise back."""

import pytest

from perago.domain.policy import SHAPES, Level, Policy
from perago.domain.publication import Promises


@pytest.mark.parametrize("policy", Policy, ids=str)
def test_a_policy_has_a_column_for_each_of_its_levels(policy: Policy) -> None:
    levels = [level for level in Level if level.policy is policy]
    assert len(SHAPES[policy].promises) == len(levels) == (1 if SHAPES[policy].needs_fence else 2)


@pytest.mark.parametrize("field", Promises._fields)
@pytest.mark.parametrize("policy", Policy, ids=str)
def test_what_a_policy_promises_it_promises_with_the_fence_too(policy: Policy, field: str) -> None:
    columns = SHAPES[policy].promises
    if getattr(columns[0], field) == "yes":
        assert getattr(columns[-1], field) == "yes"
