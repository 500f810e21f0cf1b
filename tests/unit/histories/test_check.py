"""The checker of histories: what is good passes, and each kind of wrong is found."""

import gzip
from pathlib import Path

import pytest
from tests.histories.check import check_history
from tests.histories.exchange import Exchange, read_history
from tests.histories.made_history import A, Made, MadeHistory, S, T, X, Y, row

FIRST = Made(X)
SECOND = Made(Y, on=X, staged=T, key="other")


def good() -> MadeHistory:
    history = MadeHistory().created().merged(FIRST, (2, 3)).read(X, (6, 7)).updated(X)
    return history.ends(FIRST).found(row(X))


GOOD = {
    "one publication, read, told and found": good(),
    "a read beside a merge sees it or not": MadeHistory()
    .created()
    .merged(FIRST, (2, 10))
    .read(A, (3, 4))
    .read(X, (5, 6))
    .ends(FIRST),
    "a merge without an answer that took effect": MadeHistory()
    .created()
    .merged(FIRST, (2, None))
    .read(A, (20, 21))
    .read(X, (30, 31))
    .ends(FIRST),
    "a merge without an answer that never took effect": MadeHistory()
    .created()
    .merged(FIRST, (2, None))
    .read(A, (20, 21))
    .ends(),
    "an error of the server that hides an effect, and the same merge again": MadeHistory()
    .created()
    .merged(FIRST, (2, 3), status=500)
    .refused(expected=A, found=X, times=(4, 5))
    .read(X, (6, 7))
    .ends(FIRST),
    "a merge without an answer whose commit no request has read, and the same merge upon it": (
        MadeHistory()
        .created()
        .merged(FIRST, (2, None))
        .merged(Made(Y), (4, 5))
        .shown(Made(Y), X, (6, 7))
    ),
    "two publications, one upon the other": MadeHistory()
    .created()
    .merged(FIRST, (2, 3))
    .merged(SECOND, (4, 5))
    .ends(SECOND, FIRST),
    "a reset by hand takes a publication away": MadeHistory()
    .created()
    .merged(FIRST, (2, 3))
    .reset(A, (6, 7))
    .read(A, (8, 9))
    .ends(),
}
BAD = {
    "lost update": (
        MadeHistory().created().merged(FIRST, (2, 3)).read(A, (6, 7)).ends(),
        f"{X[:12]} was acknowledged and is lost",
    ),
    "two merges on one head, of which the later is kept": (
        MadeHistory().created().merged(FIRST, (2, 3)).merged(Made(Y), (4, 5)).ends(Made(Y)),
        "not linearizable",
    ),
    "stale read": (
        MadeHistory().created().merged(FIRST, (2, 3)).read(A, (6, 7)).ends(FIRST),
        "not linearizable",
    ),
    "a read that goes back while the merge is open": (
        MadeHistory()
        .created()
        .merged(FIRST, (2, None))
        .read(X, (3, 4))
        .read(A, (5, 6))
        .ends(FIRST),
        "not linearizable",
    ),
    "read before anybody asked for it": (
        MadeHistory().created().read(X, (1.2, 1.4)).merged(FIRST, (2, 3)).ends(FIRST),
        "not linearizable",
    ),
    "the fence refuses for a head that never was": (
        MadeHistory().created().refused(expected=A, found=Y, times=(2, 3)).ends(),
        "not linearizable",
    ),
    "a commit that nobody made": (
        MadeHistory().created().ends(FIRST),
        f"nobody made {X[:12]}",
    ),
    "answer before request": (
        MadeHistory().created().merged(FIRST, (3, 2)).ends(FIRST),
        "answered before it is asked",
    ),
    "an execution published twice": (
        MadeHistory()
        .created()
        .merged(FIRST, (2, 3))
        .merged(Made(Y, on=X, staged=T), (4, 5))
        .ends(Made(Y, on=X, staged=T), FIRST),
        "published twice",
    ),
    "a completed row whose output is not on the branch": (
        good().found(row(Y, "t2")),
        "not on main",
    ),
    "a row completed with two outputs": (
        MadeHistory()
        .created()
        .merged(FIRST, (2, 3))
        .merged(SECOND, (4, 5))
        .updated(X)
        .updated(Y)
        .ends(SECOND, FIRST)
        .found(row(Y)),
        "row t1 is completed with",
    ),
    "a row told before the commit was asked for": (
        MadeHistory().created().updated(X, times=(1.2, 1.4)).merged(FIRST, (2, 3)).ends(FIRST),
        "before anybody asked for it",
    ),
    "a failure for good without a reason": (
        good().found({"taskId": "t3", "status": "FAILED_WITH_TERMINAL_ERROR"}),
        "without a reason",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_wrong_with_a_good_history(name: str) -> None:
    verdict = check_history(GOOD[name].lines)
    assert verdict.wrong == ()
    assert verdict.operations > 0


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_found(name: str) -> None:
    history, expected = BAD[name]
    assert [each for each in check_history(history.lines).wrong if expected in each]


def test_a_verdict_counts_what_it_looked_at() -> None:
    counted = check_history(good().merged(Made(Y, staged=S, key="z"), (12, None)).lines)
    assert (counted.exchanges, counted.unsettled) == (5, 1)
    assert (counted.publications, counted.completed, counted.terminal) == (1, 1, 0)


def test_a_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl.gz"
    lines = [*good().lines, Exchange("lakefs", "worker", "GET", "/", 1.5, fault="lost")]
    file.write_bytes(gzip.compress("".join(f"{each.line()}\n" for each in lines).encode()))
    assert list(read_history(file)) == lines
