"""What is around each page of the documentation: the list of pages by kind, and the search.

The search is a list of headings with their text, and a few lines of JavaScript, so that it works
from a directory, without a server and without a package.
"""

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from html import escape

# Diataxis: a page teaches, helps with a task, is looked up, or explains. The last group is for
# those who change Perago. A page is in the first group that names it; build_docs warns of others.
KINDS: Mapping[str, Sequence[str]] = {
    "Tutorial": ("README.md", "docs/tutorial.md"),
    "How to": (
        "docs/how-to/*.md",
        "docs/operations.md",
        "docs/testing.md",
        "docs/spark.md",
        "docs/upgrade.md",
    ),
    "Reference": (
        "docs/reference/*.md",
        "docs/errors.md",
        "docs/glossary.md",
        "docs/guarantees.md",
        "docs/benchmarks.md",
        "CHANGELOG.md",
    ),
    "Explanation": (
        "docs/explanation.md",
        "docs/explanation/*.md",
        "docs/protocol.md",
        "docs/simulation.md",
        "docs/transfer-scenarios.md",
    ),
    "Work on Perago": (
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/development.md",
        "docs/dependencies.md",
        "docs/acceptance.md",
        "docs/adr/*.md",
    ),
}
RESULTS_MAX, TEXT_MAX = 30, 1500
STYLE = """body{font:16px/1.55 system-ui,sans-serif;max-width:54rem;margin:2rem auto;padding:0 1rem}
pre{background:#f4f6f8;padding:.8rem;overflow:auto}code{font-size:.92em}img{max-width:100%}
table{border-collapse:collapse;display:block;overflow:auto}td,th{border:1px solid #ccd4dc;
padding:.25rem .6rem;text-align:left;vertical-align:top}nav{font-size:.9rem}
nav input{width:100%;padding:.4rem;font:inherit;box-sizing:border-box}nav details{margin:.4rem 0}
nav ul{columns:2;margin:.2rem 0}#found{columns:1}#found p{margin:0 0 .5rem;color:#556}"""
SEARCH = """
const box = document.getElementById("search"), list = document.getElementById("found");
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const rank = s => words.every(w => s.h.toLowerCase().includes(w)) ? 0 : 1;
  const hits = words.length ? SECTIONS.filter(
    s => words.every(w => (s.h + " " + s.t).toLowerCase().includes(w))) : [];
  hits.sort((one, other) => rank(one) - rank(other));
  list.replaceChildren(...hits.slice(0, RESULTS_MAX).map(s => {
    const item = document.createElement("li"), link = document.createElement("a");
    const text = document.createElement("p");
    link.href = UP + s.u;
    link.textContent = s.h;
    const at = Math.max(0, s.t.toLowerCase().indexOf(words[0]) - 60);
    text.textContent = s.t.slice(at, at + 160);
    item.append(link, text);
    return item;
  }));
});
""".replace("RESULTS_MAX", str(RESULTS_MAX))


def kinds_of(page: str) -> list[str]:
    """Return the groups that name a page: one, if all is well."""
    return [
        kind
        for kind, patterns in KINDS.items()
        if any(fnmatchcase(page, pattern) for pattern in patterns)
    ]


def navigation(page: str, titles: Mapping[str, str]) -> str:
    """Return the search and the pages by kind, as seen from a page."""
    up = "../" * page.count("/")
    parts = [
        '<nav><input id="search" type="search" placeholder="Search" aria-label="Search">',
        '<ul id="found"></ul>',
    ]
    for kind in KINDS:
        members = [name for name in titles if kind in kinds_of(name)]
        links = "".join(
            f'<li><a href="{up}{html_name(name)}">{escape(titles[name])}</a></li>'
            for name in members
        )
        shown = " open" if page in members and page == "README.md" else ""
        parts.append(f"<details{shown}><summary>{kind}</summary><ul>{links}</ul></details>")
    scripts = f'<script>const UP = "{up}";</script><script src="{up}search.js"></script>'
    return "".join(parts) + f"</nav>{scripts}<script>{SEARCH}</script>"


def html_name(page: str) -> str:
    """Return the file that a page becomes."""
    return re.sub(r"\.md$", ".html", page)


def search_index(texts: Mapping[str, str], slugs: Mapping[str, Sequence[str]]) -> str:
    """Return the sections of every page as JavaScript: heading, address and text."""
    found: list[dict[str, str]] = []
    for page, text in texts.items():
        sections = re.split(r"^#{1,6} +(.+)$", without_code_marks(text), flags=re.MULTILINE)
        title = sections[1] if len(sections) > 1 else page
        pairs = zip(sections[1::2], sections[2::2], slugs[page], strict=True)
        for heading, body, anchor in pairs:
            shown = heading if heading == title else f"{title}: {heading}"
            words = " ".join(re.sub(r"[`*|\[\]]", " ", body).split())[:TEXT_MAX]
            found.append({"h": shown, "u": f"{html_name(page)}#{anchor}", "t": words})
    return f"const SECTIONS = {json.dumps(found)};\n"


def without_code_marks(text: str) -> str:
    """Return the text with its code, but without lines of code that look like headings."""
    inside = False
    lines: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
            continue
        lines.append(f" {line.lstrip('# ')}" if inside else line)
    return "\n".join(lines)
