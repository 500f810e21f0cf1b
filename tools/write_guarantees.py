"""Write docs/guarantees.md from the table in the domain; a test keeps the two equal."""

from pathlib import Path

from perago.domain.guarantees import guarantee_page

PAGE = Path(__file__).parent.parent / "docs" / "guarantees.md"

if __name__ == "__main__":
    PAGE.write_text(guarantee_page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
