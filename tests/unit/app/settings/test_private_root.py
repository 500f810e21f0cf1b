"""Roots of a worker: where they are by default, and which ones are refused."""

import os
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unprivileged import NOBODY

from perago.adapters.filesystem.locks import LOCK_NAME, RootLock
from perago.app.settings.layers import default_root
from perago.app.settings.runtime_config import check_private_root, load_runtime_config
from perago.domain.errors import RuntimeConfigError


def refusal(root: Path) -> str:
    with pytest.raises(RuntimeConfigError) as caught:
        check_private_root(root, "PERAGO_WORKSPACE_ROOT")
    assert caught.value.code == "PRG-C013"
    return str(caught.value)


def test_the_state_directory_of_the_user_is_the_default(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path / "home")}
    assert default_root(environment) == tmp_path / "state" / "perago"
    del environment["XDG_STATE_HOME"]
    assert default_root(environment) == tmp_path / "home" / ".local" / "state" / "perago"
    environment["XDG_STATE_HOME"] = "relative"  # to be ignored, says the XDG specification
    assert default_root(environment) == tmp_path / "home" / ".local" / "state" / "perago"


@pytest.mark.parametrize("home", ["", "/nonexistent", "/proc/self"])
def test_a_user_without_a_home_gets_a_temporary_directory_of_his_own(home: str) -> None:
    found = default_root({"HOME": home}, temporary="/somewhere")
    assert found == Path(f"/somewhere/perago-{os.geteuid()}")


def test_a_directory_of_this_user_is_private(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    check_private_root(root, "PERAGO_WORKSPACE_ROOT")
    (tmp_path / "link").symlink_to(root)
    check_private_root(tmp_path / "link", "PERAGO_WORKSPACE_ROOT")


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o1777)  # the sticky bit does not keep others from making the first lock
    assert f"other users can write to {root}" in refusal(root)
    assert f"chmod go-w {root}" in refusal(root)


def test_a_directory_that_another_group_can_write_to_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o770)
    check_private_root(root, "PERAGO_WORKSPACE_ROOT")  # the group of this user alone
    # Root may use every group, others the ones they are in.
    groups = [NOBODY] if os.geteuid() == 0 else {*os.getgroups()} - {os.getegid()}
    for group in groups:
        os.chown(root, -1, group)
        assert f"other users can write to {root}" in refusal(root)


def test_a_directory_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "above"
    root = above / "root"
    root.mkdir(parents=True)
    above.chmod(0o777)
    assert f"other users can write to {above}" in refusal(root)
    above.chmod(0o1777)  # here only the owner can rename it
    check_private_root(root, "PERAGO_WORKSPACE_ROOT")


def run_as_attacker(script: str, folder: Path) -> None:
    """Run a shell script as another user; a suite that is not run as root has only itself."""
    other = NOBODY if os.geteuid() == 0 else None
    subprocess.run(
        ["/bin/sh", "-euc", script],
        cwd=folder,
        check=True,
        user=other,
        group=other,
        extra_groups=None if other is None else [],
    )


@pytest.fixture
def shared() -> Generator[Path]:
    """A directory like /tmp: everybody makes entries, the owner of an entry renames it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the worker's user that another user wants to have emptied."""
    file = tmp_path / "victim.conf"
    file.write_text("precious")
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("root", ["perago", "perago/workspaces"])
def test_a_root_that_another_user_prepared_is_refused_before_anything_is_written(
    shared: Path, victim: Path, root: str
) -> None:
    place = shared / root
    run_as_attacker(
        f"mkdir -p {root}; chmod -R 777 perago; ln -s {victim} {root}/{LOCK_NAME}", shared
    )
    settings = {"PERAGO_WORKSPACE_ROOT": str(place), "PERAGO_LOG_ROOT": str(shared / "logs")}
    with pytest.raises(RuntimeConfigError) as caught:
        load_runtime_config("a", cwd=shared, process_env=settings)
    assert caught.value.code == "PRG-C013"
    assert "export PERAGO_WORKSPACE_ROOT=" in str(caught.value)
    assert [each.name for each in place.iterdir()] == [LOCK_NAME]
    assert victim.read_text() == "precious"


def test_a_link_that_another_user_made_does_not_lead_to_a_root_of_ours(
    shared: Path, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    run_as_attacker(f"ln -s {ours} perago", shared)
    if os.geteuid() == 0:
        assert f"{shared / 'perago'} belongs to the user {NOBODY}" in refusal(shared / "perago")
    assert not list(ours.iterdir())


def test_a_link_of_ours_does_not_make_the_directory_of_another_user_private(
    shared: Path, tmp_path: Path
) -> None:
    run_as_attacker("mkdir -m 755 theirs", shared)
    link = tmp_path / "perago"
    link.symlink_to(shared / "theirs")
    if os.geteuid() == 0:
        assert f"{shared / 'theirs'} belongs to the user {NOBODY}" in refusal(link)


@pytest.mark.parametrize("planted", ["ln -s {victim} {lock}", "mkfifo {lock}", "touch {lock}"])
def test_a_lock_that_another_user_planted_is_neither_followed_nor_emptied(
    shared: Path, victim: Path, planted: str
) -> None:
    """The lock itself, for those who take it without asking whether the root is private."""
    script = planted.format(victim=victim, lock=f"perago/{LOCK_NAME}")
    run_as_attacker(f"umask 0; mkdir perago; {script}", shared)
    if planted.startswith("touch") and os.geteuid() != 0:
        return  # a lock of one's own is a lock
    with pytest.raises(RuntimeConfigError, match=r"the lock .* cannot be used: "):
        RootLock(shared / "perago").__enter__()
    assert victim.read_text() == "precious"


def test_a_lock_with_a_second_name_is_not_emptied(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / LOCK_NAME).hardlink_to(victim)
    with pytest.raises(RuntimeConfigError, match="second name"):
        RootLock(tmp_path / "root").__enter__()
    assert victim.read_text() == "precious"
