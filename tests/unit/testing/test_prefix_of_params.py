"""A prefix with a value of params: in a worker, after a crash, in a trial, on the command line."""

from pathlib import Path

import pytest
from tests.prefixed_songs import (
    SongTask,
    assert_each_song_has_its_folder,
    two_songs_on_one_commit,
)

from perago.domain.attempt import AttemptStatus
from perago.domain.commit_metadata import PREFIX
from perago.testing import Fault, PeragoEnvironment, TaskEnvironment, crash, expire_lease


async def test_two_songs_of_one_commit_are_published_each_below_its_own_prefix(
    perago_env: PeragoEnvironment,
) -> None:
    songs = SongTask()
    repository, runs = await two_songs_on_one_commit(perago_env, songs)
    await assert_each_song_has_its_folder(perago_env, repository, runs, songs)


@pytest.mark.parametrize(
    "fault", [crash(before="merge"), crash(after="merge"), expire_lease()], ids=str
)
async def test_a_retry_has_the_prefix_and_the_key_of_the_first_attempt(
    perago_env: PeragoEnvironment, fault: Fault
) -> None:
    songs = SongTask()
    repository = await perago_env.repository("songs", {"songs/a/words.txt": "la"})
    perago_env.plan(fault)
    run = await perago_env.run(songs.definition, repository, params={"song": "a"})
    await perago_env.assert_completed(run)
    assert len(songs.seen) == 1
    assert (await repository.head()).metadata[PREFIX] == "songs/a"
    assert await repository.text("songs/a/count.txt") == "a: 1"
    await perago_env.assert_sound()


async def test_a_decision_for_one_song_is_none_for_another(perago_env: PeragoEnvironment) -> None:
    songs = SongTask()
    repository, runs = await two_songs_on_one_commit(perago_env, songs)
    tags = [name for name in await repository.tags() if name.startswith("perago-settled-")]
    assert len(tags) == len({name.rpartition("-")[2] for name in tags}) == len(runs)


async def test_a_value_that_is_no_folder_ends_the_workflow_and_writes_nothing(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository("songs", {"songs/a/words.txt": "la"})
    run = await perago_env.run(SongTask().definition, repository, params={"song": "../a"})
    record = await run.read()
    assert record.status == "FAILED"
    (row,) = record.attempts
    assert row.snapshot.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "PRG-I013" in str(row.reason)
    assert set(await repository.branches()) == {"main"}
    assert not await repository.tags()


def test_a_trial_puts_the_files_where_the_params_say(tmp_path: Path) -> None:
    songs = SongTask()
    (tmp_path / "words.txt").write_text("la la la")
    for files in ({"words.txt": "la la la"}, tmp_path):
        run = TaskEnvironment().run(songs.definition, files, {"song": "a"})
        assert run.result == {"words": 3}
        assert run.files["count.txt"] == b"a: 3"
    assert songs.seen == [("count.txt", "words.txt")] * 2


@pytest.mark.parametrize(("params", "code"), [({"song": ""}, "PRG-I013"), ({}, "PRG-I003")])
def test_a_trial_with_wrong_params_fails_as_the_attempt_does(
    params: dict[str, object], code: str
) -> None:
    run = TaskEnvironment().run(SongTask().definition, {"words.txt": "la"}, params)
    assert not run.completed
    assert code in str(run.reason)
