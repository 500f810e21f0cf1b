"""What workers are called."""

import os

import pytest

from perago.app.settings.runtime_config import (
    child_environment,
    default_worker_id_prefix,
    resolve_worker_id,
    worker_id_for_child,
)


@pytest.mark.parametrize(
    ("target", "prefix"), [("a.b-c", "abc"), ("x_y", "xy"), ("a b", "ab"), ("é", "")]
)
def test_a_prefix_is_the_ascii_letters_and_digits_of_the_target(target: str, prefix: str) -> None:
    assert default_worker_id_prefix(target) == prefix


def test_a_slot_has_four_digits() -> None:
    assert [worker_id_for_child("ab", slot) for slot in (1, 12)] == ["ab0001", "ab0012"]


@pytest.mark.parametrize(
    ("base", "prefix"),
    [({"A": "1"}, "xy"), ({"A": "1", "PERAGO_WORKER_ID_PREFIX": "zz"}, "zz")],
)
def test_a_child_gets_its_own_name(base: dict[str, str], prefix: str) -> None:
    assert child_environment(base | {"PERAGO_WORKER_ID": "parent"}, "x.y", 3) == {
        "A": "1",
        "PERAGO_WORKER_ID_PREFIX": prefix,
        "PERAGO_WORKER_ID": f"{prefix}0003",
    }


def test_a_worker_is_what_its_parent_calls_it_or_has_its_process_id() -> None:
    assert resolve_worker_id("x.y", {"PERAGO_WORKER_ID": " q "}) == " q "
    assert resolve_worker_id("x.y", {}) == f"xy-pid-{os.getpid()}"
