"""Few questions that show a few paths of a large tree."""

from hypothesis import given
from hypothesis import strategies as st

from perago.domain.key_ranges import ListingWindow, windows

TREE = [f"f{number:04}" for number in range(2500)]
NUMBERS = st.sets(st.integers(0, len(TREE) - 1))


def shown(window: ListingWindow) -> list[str]:
    """What a listing answers to one question."""
    found = [p for p in TREE if p.startswith(window.prefix) and p > window.after]
    return found[: window.amount]


@given(NUMBERS, st.sampled_from([1, 10, 1000]))
def test_every_wanted_path_is_shown(numbers: set[int], amount_max: int) -> None:
    wanted = [TREE[number] for number in sorted(numbers)]
    asked = windows(TREE, wanted, amount_max=amount_max)
    seen = {path for window in asked for path in shown(window)}
    assert seen.issuperset(wanted)
    assert len(asked) <= len(wanted)
    assert all(1 <= window.amount <= amount_max for window in asked)


def test_a_lone_path_is_asked_for_by_its_name() -> None:
    assert windows(TREE, ["f0042"], amount_max=1000) == (ListingWindow("f0042", "", "f0042", 1),)


def test_neighbours_share_a_question() -> None:
    (window,) = windows(TREE, ["f0000", "f0999"], amount_max=1000)
    assert window == ListingWindow("", "", "f0999", 1000)


def test_distant_paths_do_not() -> None:
    assert len(windows(TREE, ["f0000", "f1000", "f2400"], amount_max=1000)) == 3


def test_nothing_wanted_is_nothing_asked() -> None:
    assert windows(TREE, [], amount_max=1000) == ()
