"""Where the tests keep their files."""

from pathlib import Path

from tests.scratch_space import scratch_space


def test_files_are_kept_in_memory_where_there_is_room(tmp_path: Path) -> None:
    assert scratch_space({}, tmp_path, room_bytes_min=1) == tmp_path


def test_too_little_room_leaves_the_machines_own_choice(tmp_path: Path) -> None:
    assert scratch_space({}, tmp_path, room_bytes_min=2**62) is None


def test_a_machine_without_such_a_place_keeps_its_own_choice(tmp_path: Path) -> None:
    assert scratch_space({}, tmp_path / "absent", room_bytes_min=1) is None


def test_a_directory_that_the_environment_names_is_taken(tmp_path: Path) -> None:
    assert scratch_space({"TMPDIR": "elsewhere"}, tmp_path, room_bytes_min=1) is None
