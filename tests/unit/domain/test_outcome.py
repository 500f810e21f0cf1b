"""Answers are closed sums, and that none came is one of them.

A result survives its way through commit metadata, or is refused with a reason.
"""

import base64
import json
import random
import zlib
from collections.abc import Mapping
from math import ceil
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.app.attempt.stage import STAGED_COMMITS_MAX
from perago.domain.commit_metadata import RESULT, RESULT_PART, RESULT_PARTS
from perago.domain.errors import DamagedResultError, ResultNotStorableError, ResultTooLargeError
from perago.domain.outcome import (
    METADATA_BYTES_MAX,
    RESULT_BYTES_MAX,
    MergeAnswer,
    MergeConflict,
    NoAnswer,
    Relocated,
    RelocationAnswer,
    RelocationRefused,
    canonical_json,
    join_result,
    split_result,
)


def test_answers_with_the_same_words_differ() -> None:
    conflict: MergeAnswer = MergeConflict("P")
    answers: list[MergeAnswer] = [NoAnswer("P"), conflict]
    assert answers.index(conflict) == 1


def test_every_request_may_stay_unanswered() -> None:
    assert NoAnswer in get_args(MergeAnswer)
    assert get_args(RelocationAnswer) == (Relocated, RelocationRefused, NoAnswer)


def test_a_refused_relocation_is_not_protection_unless_the_server_said_so() -> None:
    assert not RelocationRefused("no").protected


# A fixed text that zlib cannot make smaller.
NOISE = base64.b64encode(random.Random(7).randbytes(400_000)).decode()  # noqa: S311

LEAVES = st.sampled_from(
    [None, True, False, 0, -1, 10**20, 1e-300, 0.1, "", "\x00", "\ud83d", "🎵", '"\\', "x" * 999]
)
JSON = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.text(max_size=2), LEAVES)
RESULTS = st.dictionaries(st.text(max_size=2), JSON, max_size=3)


@given(RESULTS)
def test_what_was_split_is_joined(result: dict[str, object]) -> None:
    stored = split_result(result)
    assert join_result(stored.metadata, stored.below) == result


@given(RESULTS)
def test_equal_results_have_one_text(result: dict[str, object]) -> None:
    backwards = dict(reversed(list(result.items())))
    assert canonical_json(backwards) == canonical_json(result)


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        ({}, "json:{}"),
        ({"b": 1, "a": [True, None]}, 'json:{"a":[true,null],"b":1}'),
        ({"name": "歌"}, 'json:{"name":"歌"}'),
        ({"half": "\ud800"}, 'json:{"half":"\\ud800"}'),
    ],
    ids=["empty", "sorted and dense", "readable text", "half a surrogate pair is escaped"],
)
def test_small_results_are_plain_json(result: dict[str, object], stored: str) -> None:
    assert split_result(result).metadata == {RESULT: stored}
    assert split_result(result).below == ()


def test_the_limits_are_the_ones_of_the_specification() -> None:
    assert METADATA_BYTES_MAX == 128 * 1024
    assert RESULT_BYTES_MAX == 3 * 1024 * 1024
    assert (RESULT, RESULT_PARTS, RESULT_PART) == (
        "perago.result",
        "perago.result_parts",
        "perago.result_part",
    )


def test_zlib_is_used_only_where_it_is_smaller() -> None:
    assert split_result({"a": "x" * 1000}).metadata[RESULT].startswith("zlib:")
    assert split_result({"a": NOISE[:1000]}).metadata[RESULT].startswith("json:")


@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (METADATA_BYTES_MAX - len('json:{"a":""}'), 0),
        (METADATA_BYTES_MAX - len('json:{"a":""}') + 1, 2),
        (2 * METADATA_BYTES_MAX - len('json:{"a":""}'), 2),
        (2 * METADATA_BYTES_MAX - len('json:{"a":""}') + 1, 3),
    ],
    ids=["fits exactly", "one byte more", "two full pieces", "two pieces and a byte"],
)
def test_a_result_is_cut_where_the_limit_of_one_commit_is(size: int, pieces: int) -> None:
    stored = split_result({"a": NOISE[:size]})
    assert len(stored.below) == pieces
    texts = [*stored.metadata.values(), *(piece[RESULT] for piece in stored.below)]
    assert max(len(text.encode()) for text in texts) <= METADATA_BYTES_MAX
    assert join_result(stored.metadata, stored.below) == {"a": NOISE[:size]}


def test_pieces_say_how_many_and_which_they_are() -> None:
    stored = split_result({"a": NOISE[:200_000]})
    assert stored.metadata == {RESULT_PARTS: "2"}
    assert [piece[RESULT_PART] for piece in stored.below] == ["1", "2"]


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_no_character_is_cut_in_two(shift: int) -> None:
    text = f"{NOISE[: METADATA_BYTES_MAX - 30 + shift]}{'🎵' * 30}{NOISE[:METADATA_BYTES_MAX]}"
    stored = split_result({"a": text})
    sizes = [len(piece[RESULT].encode()) for piece in stored.below]
    assert METADATA_BYTES_MAX - 3 <= sizes[0] <= METADATA_BYTES_MAX
    walked = list(reversed(stored.below))
    assert join_result(stored.metadata, walked) == {"a": text}


def test_commits_without_a_piece_are_passed_over() -> None:
    stored = split_result({"a": NOISE[:200_000]})
    below = [{}, stored.below[1], {RESULT: "somebody's"}, stored.below[0]]
    assert join_result(stored.metadata, below) == {"a": NOISE[:200_000]}


def test_the_largest_result_fits_and_one_byte_more_is_refused() -> None:
    largest = "x" * (RESULT_BYTES_MAX - len('{"a":""}'))
    assert len(canonical_json({"a": largest})) == RESULT_BYTES_MAX
    stored = split_result({"a": largest})
    assert join_result(stored.metadata, stored.below) == {"a": largest}
    with pytest.raises(ResultTooLargeError) as caught:
        split_result({"a": largest + "x"})
    assert str(caught.value) == (
        "the result has 3145729 bytes as JSON, expected at most 3145728; "
        "write the data into the workspace and return its path"
    )


def test_the_limit_counts_bytes_and_not_characters() -> None:
    with pytest.raises(ResultTooLargeError):
        split_result({"a": "歌" * (RESULT_BYTES_MAX // 3)})
    with pytest.raises(ResultTooLargeError):
        split_result({"a": "\ud800" * (RESULT_BYTES_MAX // 6)})


def test_no_result_needs_more_pieces_than_the_walk_reads() -> None:
    worst_piece = METADATA_BYTES_MAX - 3  # a cut steps back to the start of a character
    pieces = ceil((RESULT_BYTES_MAX + len("json:")) / worst_piece)
    assert pieces == 25
    assert pieces < STAGED_COMMITS_MAX


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"": value}
    return value


@pytest.mark.parametrize(
    "value",
    [nested(100_000), float("nan"), float("inf"), -float("inf"), {1, 2}, object(), b"bytes"],
    ids=["endless", "nan", "infinity", "minus infinity", "set", "object", "bytes"],
)
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ResultNotStorableError, match="must be JSON without NaN and infinities"):
        split_result({"a": [value]})


def packed(content: bytes) -> str:
    return "zlib:" + base64.b64encode(zlib.compress(content)).decode()


NOT_CUT = base64.b64decode(packed(json.dumps({"a": NOISE[:1000]}).encode()).removeprefix("zlib:"))
CUT = "zlib:" + base64.b64encode(NOT_CUT[:-4]).decode()
WHOLE = split_result({"a": NOISE[:200_000]})
FIRST, SECOND = WHOLE.below


EITHER = "expected one of perago.result and perago.result_parts on the staged commit"
PIECES = "pieces below the staged commit, found"
BOMB = "the compressed text is cut, or larger than any stored result"


@pytest.mark.parametrize(
    ("staged", "below", "found"),
    [
        ({}, [], EITHER),
        ({RESULT: "json:{}", RESULT_PARTS: "1"}, [], EITHER),
        ({RESULT: "text:0123"}, [], "expected json: or zlib:, found 'text:012'"),
        ({RESULT: "json:{"}, [], "JSONDecodeError: Expecting property name..."),
        ({RESULT: f"json:{'[' * 100_000}"}, [], "RecursionError: ..."),
        ({RESULT: "json:[1]"}, [], "expected a JSON object, found list"),
        ({RESULT: "json:null"}, [], "expected a JSON object, found NoneType"),
        ({RESULT: "zlib:%"}, [], "not base64: Only base64 data is allowed"),
        ({RESULT: "zlib:" + base64.b64encode(b"xyz").decode()}, [], "error: Error -3..."),
        ({RESULT: CUT}, [], BOMB),
        ({RESULT: packed(b" " * (RESULT_BYTES_MAX + 1))}, [], BOMB),
        ({RESULT: packed(b" " * (RESULT_BYTES_MAX * 2))}, [], BOMB),
        ({RESULT: packed(b"\xff")}, [], "UnicodeDecodeError: 'utf-8' codec..."),
        ({RESULT_PARTS: "2"}, [], f"expected 2 {PIECES} none"),
        ({RESULT_PARTS: "2"}, [FIRST], f"expected 2 {PIECES} 1"),
        ({RESULT_PARTS: "2"}, [SECOND, SECOND], f"expected 2 {PIECES} 2, 2"),
        ({RESULT_PARTS: "2"}, [SECOND, FIRST, FIRST], f"expected 2 {PIECES} 2, 1, 1"),
        ({RESULT_PARTS: "2"}, [FIRST, {RESULT_PART: "3"}], f"expected 2 {PIECES} 1, 3"),
        ({RESULT_PARTS: "2"}, [FIRST, {RESULT_PART: "2"}], "JSONDecodeError: Unterminated..."),
        ({RESULT_PARTS: "two"}, [SECOND, FIRST], f"expected two {PIECES} 2, 1"),
        ({RESULT_PARTS: "0"}, [], "expected json: or zlib:, found ''"),
    ],
    ids=[
        "nothing there", "both forms", "no form", "cut JSON", "deep JSON", "a list", "null",
        "not base64", "not zlib", "cut zlib", "a byte too much", "a bomb", "not UTF-8",
        "no pieces", "a piece missing", "a piece twice", "a piece too many", "a wrong number",
        "an empty piece", "not a number", "none expected",
    ],
)  # fmt: skip
def test_damaged_storage_is_named(
    staged: Mapping[str, str], below: list[Mapping[str, str]], found: str
) -> None:
    with pytest.raises(DamagedResultError) as caught:
        join_result(staged, below)
    whole = caught.value.fault.removeprefix("the stored result is damaged: ")
    assert whole.startswith(found[:-3]) if found.endswith("...") else whole == found
    assert "`perago reset-task WORKFLOW REFERENCE`" in str(caught.value)
