"""The tutorial is what a new user types: every block is run, in order, in a clean directory."""

from pathlib import Path

from tests.integration.document_blocks import Session, blocks_of

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tutorial_runs_in_order_in_a_clean_directory(tmp_path: Path) -> None:
    session = Session(tmp_path)
    blocks = list(blocks_of(DOCS / "tutorial.md"))
    assert blocks
    for block in blocks:
        session.run(block)


def test_every_page_the_tutorial_names_is_there() -> None:
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    named = [part.split(")")[0] for part in text.split("](")[1:]]
    assert named
    assert all((DOCS / name).is_file() for name in named)
