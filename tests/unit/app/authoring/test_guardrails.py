"""What guardrails find, on a directory and on a listing, and how often they look."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

import pytest

from perago.app.authoring.guardrails import (
    DirectoryTree,
    EntryKind,
    ListingTree,
    WorkspaceGuardrail,
    WorkspaceTree,
    check_guardrails,
    check_guardrails_on_listing,
    check_guardrails_on_tree,
    forbid_glob,
    matching_paths,
    require_dir,
    require_file,
    require_glob,
)
from perago.domain.errors import GuardrailViolation, PostGuardrailViolation, PreGuardrailViolation

FILES = [
    "a.txt",
    "d/b.txt",
    "d/e/c.json",
    "d/.hidden",
    "tmp/x/y/z.txt",
    "sp ace/[x].txt",
]
OURS = [".perago-attempt.json", "d/.perago-attempt.json", "_lakefs_actions/fence.yaml"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES + OURS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", {"a.txt", "d", "tmp", "sp ace"}),
        ("*.txt", {"a.txt"}),
        ("**", {"", "d", "d/e", "tmp", "tmp/x", "tmp/x/y", "sp ace"}),
        ("**/*.txt", {"a.txt", "d/b.txt", "tmp/x/y/z.txt", "sp ace/[x].txt"}),
        ("d/*", {"d/b.txt", "d/e", "d/.hidden"}),
        ("d/**", {"d", "d/e"}),
        ("**/**", {"", "d", "d/e", "tmp", "tmp/x", "tmp/x/y", "sp ace"}),
        ("tmp/**", {"tmp", "tmp/x", "tmp/x/y"}),
        ("d/**/c.json", {"d/e/c.json"}),
        ("*/*.json", set[str]()),
        ("[ab].txt", {"a.txt"}),
        ("[!a]*", {"d", "tmp", "sp ace"}),
        ("sp ace/[[]x].txt", {"sp ace/[x].txt"}),
        ("A.TXT", set[str]()),
        ("a.txt/*", set[str]()),
        ("a.txt/**", set[str]()),
        ("missing/**", set[str]()),
        ("d/b.txt", {"d/b.txt"}),
        ("**/.hidden", {"d/.hidden"}),
        (".perago-attempt.json", set[str]()),
        ("**/.perago-attempt.json", set[str]()),
        ("_lakefs_actions/**", set[str]()),
    ],
)
def test_a_pattern_means_the_same_on_disk_and_on_a_listing(
    root: Path, pattern: str, matches: set[str]
) -> None:
    assert set(matching_paths(DirectoryTree(root), pattern)) == matches
    assert set(matching_paths(ListingTree(FILES + OURS), pattern)) == matches


@pytest.mark.parametrize(
    ("guardrail", "finding"),
    [
        (require_file("d"), "require_file('d') did not find a file"),
        (require_file("x"), "require_file('x') did not find a file"),
        (
            require_file(".perago-attempt.json"),
            "require_file('.perago-attempt.json') did not find a file",
        ),
        (require_dir("a.txt"), "require_dir('a.txt') did not find a directory"),
        (
            require_dir("_lakefs_actions"),
            "require_dir('_lakefs_actions') did not find a directory",
        ),
        (require_glob("*.md"), "require_glob('*.md') matched 0 files; min_count=1"),
        (
            require_glob("**/*.txt", min_count=9),
            "require_glob('**/*.txt') matched 4 files; min_count=9",
        ),
        (
            require_glob("**/*.txt", max_count=3),
            "require_glob('**/*.txt') matched 4 files; max_count=3",
        ),
        (forbid_glob("tmp/**"), "forbid_glob('tmp/**') matched 3 files"),
    ],
    ids=str,
)
def test_a_violation_says_phase_guardrail_and_finding(
    root: Path, guardrail: WorkspaceGuardrail, finding: str
) -> None:
    with pytest.raises(PreGuardrailViolation) as caught:
        check_guardrails(root, [guardrail], "pre")
    assert str(caught.value) == f"pre guardrail {finding}"
    with pytest.raises(PostGuardrailViolation) as on_listing:
        check_guardrails_on_listing(FILES + OURS, [guardrail], "post")
    assert str(on_listing.value) == f"post guardrail {finding}"


def test_guardrails_that_hold_say_nothing(root: Path) -> None:
    holding = [
        require_file("a.txt"),
        require_dir("d/e"),
        require_glob("**/*.txt", min_count=4, max_count=4),
        forbid_glob("**/*.json.bak"),
    ]
    check_guardrails(root, holding, "pre")
    check_guardrails_on_listing(FILES, holding, "post")


def test_the_first_violation_ends_the_check(root: Path) -> None:
    with pytest.raises(GuardrailViolation, match="first"):
        check_guardrails(root, [require_file("first"), require_file("second")], "pre")


def test_links_are_followed_by_name_but_not_by_a_double_star(root: Path) -> None:
    (root / "link").symlink_to(root / "d")
    (root / "dangling").symlink_to("nowhere")
    tree = DirectoryTree(root)
    assert set(matching_paths(tree, "link/*.txt")) == {"link/b.txt"}
    assert set(matching_paths(tree, "**/b.txt")) == {"d/b.txt"}
    assert set(matching_paths(tree, "*ng")) == {"dangling"}
    assert not set(matching_paths(tree, "dangling"))
    check_guardrails(root, [require_dir("link"), require_file("link/b.txt")], "pre")


def test_a_double_star_inside_a_name_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="can only be an entire path component"):
        check_guardrails(root, [forbid_glob("**.txt")], "pre")


def test_a_path_no_file_system_can_hold_is_simply_not_there(root: Path) -> None:
    with pytest.raises(PreGuardrailViolation):
        check_guardrails(root, [require_file("a\0b")], "pre")


@final
class CountingTree(WorkspaceTree):
    """Counts how often each directory is scanned."""

    def __init__(self, root: Path) -> None:
        self._tree = DirectoryTree(root)
        self._known: dict[str, Mapping[str, EntryKind]] = {}
        self.scans: list[str] = []

    def kind(self, path: str) -> EntryKind | None:
        """Pass the question on."""
        return self._tree.kind(path)

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Pass the question on, and note whether the answer is a new one."""
        answer = self._tree.children(directory)
        if self._known.get(directory) is not answer:
            self.scans.append(directory)
            self._known[directory] = answer
        return answer


def test_no_directory_is_read_twice_and_none_that_no_pattern_reaches(root: Path) -> None:
    tree = CountingTree(root)
    guardrails = [require_file("a.txt"), require_glob("d/*.txt"), forbid_glob("d/**/*.md")]
    check_guardrails_on_tree(tree, guardrails, "pre")
    assert sorted(tree.scans) == ["d", "d/e"]
    check_guardrails_on_tree(tree, [forbid_glob("**/*.md"), forbid_glob("**/*.rst")], "pre")
    assert len(tree.scans) == len(set(tree.scans))


def test_a_listing_is_read_only_when_a_guardrail_asks() -> None:
    read: list[str] = []

    def listing() -> Iterator[str]:
        for path in FILES:
            read.append(path)
            yield path

    check_guardrails_on_listing(listing(), [], "pre")
    assert not read
    check_guardrails_on_listing(listing(), [require_file("a.txt")] * 2, "pre")
    assert read == FILES
