"""Build the documentation as HTML, and warn of everything that would not work for a reader.

A link to nowhere, a picture that is not there, a page nobody links to, a block of code that no
test runs, a page of no kind: each is a warning, and one warning fails the build. Needs nothing but
markdown-it-py; what is around each page is in docs_site.py.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from os.path import normpath
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.docs_site import STYLE, kinds_of, navigation, search_index

ROOT = Path(__file__).parent.parent
OUT = ROOT / "build" / "docs"
START = "README.md"
# Commands of pages that need the servers of their reader are held to the parser by test_pages. Each
# is typed by test_commands_of_pages, or by the test that takes it with page_lines.
PARSED_PAGES = frozenset(
    {
        "docs/how-to/choose-a-policy.md",
        "docs/how-to/set-up-servers.md",
        "docs/how-to/size-workers.md",
        "docs/how-to/troubleshoot.md",
        "docs/development.md",
        "docs/operations.md",
        "docs/simulation.md",
        "docs/transfer-scenarios.md",
        "CONTRIBUTING.md",
    }
)
# Blocks of these pages are run in order by test_readme, test_tutorial, test_kit_docs,
# test_add_a_policy and test_first_workflow.
RUN_PAGES = frozenset(
    {
        START,
        "docs/tutorial.md",
        "docs/testing.md",
        "docs/spark.md",
        "docs/reference/task.md",
        "docs/how-to/add-a-policy.md",
        "docs/how-to/test-retries.md",
        "docs/how-to/send-events.md",
        "docs/how-to/choose-servers.md",
        "docs/how-to/checkpoints.md",
        "docs/how-to/incremental.md",
        "docs/how-to/several-tasks-on-one-branch.md",
        "docs/how-to/workflow-as-one-transaction.md",
        "docs/how-to/audit-approve-publish.md",
        "docs/how-to/first-workflow.md",
    }
)
RUN_ON = {
    "python": RUN_PAGES | PARSED_PAGES,
    "sh": RUN_PAGES | PARSED_PAGES,
    "console": frozenset({"docs/tutorial.md", "docs/how-to/first-workflow.md"}),
    "output": frozenset({START, "docs/tutorial.md"}),
    "json": frozenset({"docs/how-to/first-workflow.md", "docs/reference/built-in-tasks.md"}),
    "yaml": frozenset({"docs/how-to/kubernetes.md"}),
    "diff": frozenset({"docs/how-to/add-a-policy.md"}),
}
# A block of text is not run, so what looks like code or a command in one needs a reason.
LIKE_CODE = re.compile(
    r"^(\$ |make |perago |pip install |pytest |python |\.venv/|from \w|import \w|@task)"
)
TEXT_WITH_REASON = {
    "docs/how-to/write-an-adapter.md": "part of a class of the reader's own adapter",
    "docs/how-to/send-events.md": "one line of a function of the reader's own",
}


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its place below the root, what it links to, and its HTML."""

    name: str
    title: str
    html: str
    anchors: tuple[str, ...]
    links: tuple[str, ...]
    warnings: tuple[str, ...] = field(default=())


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def read_page(name: str, text: str) -> Page:
    """Parse and render one page."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    anchors: list[str] = []
    titles: list[str] = []
    warnings: list[str] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = "".join(part.content for part in tokens[at + 1].children or ())
            anchor = slug(heading)
            anchors.append(anchor if anchor not in anchors else f"{anchor}-{anchors.count(anchor)}")
            token.attrSet("id", anchors[-1])
            titles += [heading] if token.tag == "h1" else []
        elif token.type == "fence":
            warnings += _code_warnings(name, token)
        elif token.type == "code_block":
            warnings.append(
                f"line {_line(token)}: a block of code without a fence, which no test sees"
            )
    if len(titles) != 1:
        warnings.append(f"has {len(titles)} titles, expected one")
    links = tuple(_targets(tokens))
    html = parser.renderer.render(_for_html(tokens), parser.options, {})
    title = titles[0] if titles else name
    return Page(name, title, html, tuple(anchors), links, tuple(warnings))


def check(pages: Mapping[str, Page], root: Path) -> Iterator[str]:
    """Everything that is wrong, as `page: what`."""
    reached = {START}
    for page in pages.values():
        yield from (f"{page.name}: {warning}" for warning in page.warnings)
        if len(kinds := kinds_of(page.name)) != 1:
            yield f"{page.name}: has {len(kinds)} kinds, expected one; see KINDS in docs_site.py"
        for link in page.links:
            path, _, anchor = _resolve(page.name, link).partition("#")
            wrong = _wrong(path, anchor, pages, root)
            if wrong:
                yield f"{page.name}: {link} {wrong}"
            if path != page.name:
                reached.add(path)
    for name in pages:
        if not reached & {name, str(PurePosixPath(name).parent)}:
            yield f"{name}: no page links to it"


def _wrong(path: str, anchor: str, pages: Mapping[str, Page], root: Path) -> str | None:
    if re.match(r"[a-z]+:", path):
        return None
    if not (root / path).exists():
        return "leads nowhere"
    if anchor and path in pages and anchor not in pages[path].anchors:
        return "has no such heading"
    return None


def build(root: Path, out: Path) -> list[str]:
    """Write the HTML; the warnings."""
    found = [root / START, *(root / name for name in ("CHANGELOG.md", "CONTRIBUTING.md"))]
    found += sorted((root / "docs").rglob("*.md"))
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in found
        if path.exists()
    }
    pages = {name: read_page(name, text) for name, text in texts.items()}
    titles = {name: page.title for name, page in pages.items()}
    for page in pages.values():
        target = (out / page.name).with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(page.title)}'
            f"</title><style>{STYLE}</style>{navigation(page.name, titles)}{page.html}</html>\n",
            encoding="utf-8",
        )
    anchors = {name: page.anchors for name, page in pages.items()}
    (out / "search.js").write_text(search_index(texts, anchors), encoding="utf-8")
    for picture in (root / "docs" / "pictures").glob("*"):
        target = out / picture.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(picture.read_bytes())
    return sorted(check(pages, root))


def _code_warnings(name: str, token: Token) -> Iterator[str]:
    language = token.info.partition(" ")[0]
    line = _line(token)
    if not language:
        yield f"line {line}: a block of code says no language"
    elif language == "text":
        if LIKE_CODE.match(token.content) and name not in TEXT_WITH_REASON:
            yield f"line {line}: code in a block of text, which no test runs"
    elif name not in RUN_ON.get(language, frozenset()):
        yield f"line {line}: no test runs this block of {language}"


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 0


def _targets(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        for part in token.children or ():
            place = part.attrGet("href") or part.attrGet("src")
            if place is not None:
                yield unquote(str(place))


def _for_html(tokens: list[Token]) -> list[Token]:
    """Links between pages lead to their HTML."""
    for token in tokens:
        for part in token.children or ():
            place = part.attrGet("href")
            if place is not None and not re.match(r"[a-z]+:", str(place)):
                part.attrSet("href", re.sub(r"\.md(?=#|$)", ".html", str(place)))
    return tokens


def _resolve(name: str, link: str) -> str:
    """A link as seen from the root, its anchor kept; one to elsewhere stays as it is."""
    if re.match(r"[a-z]+:", link):
        return link
    if link.startswith("#"):
        return f"{name}{link}"
    return normpath(PurePosixPath(name).parent / link)


def main() -> int:
    """Build; 1 when there is a warning."""
    warnings = build(ROOT, OUT)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{OUT.relative_to(ROOT)}/README.html, {len(warnings)} warnings")
    return 1 if warnings else 0


if __name__ == "__main__":
    sys.exit(main())
