"""The commits of a repository as a picture: targets in rows, what was staged or run beside them.

Only the newest commits are drawn, because a picture of thousands is neither drawn nor read. What is
left out is counted. Every value is escaped. Knows no server and no page.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from html import escape
from itertools import groupby

from perago.app.page.model import BranchView, CommitView, RepositoryView
from perago.domain.names import RUN_BRANCH_PREFIX

# Pixels: between commits, beside a target, between rows, of a dot, and the margins.
STEP, ASIDE, ROW, RADIUS, LEFT, TOP = 120, 64, 70, 9, 60, 30
ID_CHARACTERS = 8  # of a commit id, as in `testing.story`
LABEL_CHARACTERS = 18  # of a label: what fits between two commits
# Commits of a target or run, and private branches beside them: three wide screens to the side.
COMMITS_MAX, PRIVATE_MAX = 40, 40
OTHERS = "others"
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture, and how many commits and branches are not on it."""

    svg: str
    omitted: int


def branch_graph(repository: RepositoryView) -> Drawing:
    """One repository."""
    branches, omitted = _newest(repository.branches)
    runs = _runs(branches)
    points = _points(
        sorted(branches, key=lambda each: (not each.is_target, each not in runs)), runs
    )
    commits = {each.id: each for branch in branches for each in reversed(branch.commits)}
    width = max((x for x, _ in points.values()), default=0) + LEFT + RADIUS
    height = max((y for _, y in points.values()), default=0) + ROW // 2
    body = [*_edges(commits, points), *_dots(commits, points), *_run_labels(branches, runs, points)]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    svg = f'<svg class="graph" role="group" aria-label="commits" {size}>{"".join(body)}</svg>'
    return Drawing(svg, omitted + repository.omitted)


def _newest(branches: Sequence[BranchView]) -> tuple[list[BranchView], int]:
    """Targets down to some commits; beside them the newest branches that stand on one of these."""
    omitted, drawn = 0, list[BranchView]()
    for branch in branches:
        if branch.is_target or is_run(branch):
            commits = _without_others(branch.commits)
            drawn.append(replace(branch, commits=tuple(commits[:COMMITS_MAX])))
            omitted += max(0, len(commits) - COMMITS_MAX)
    shown = {each.id for branch in drawn for each in branch.commits}
    aside = [each for each in branches if not (each.is_target or is_run(each))]
    standing = [each for each in aside if _stands_on(each, shown)]
    drawn += standing[:PRIVATE_MAX]
    return drawn, omitted + len(aside) - min(len(standing), PRIVATE_MAX)


def _stands_on(branch: BranchView, shown: set[str]) -> bool:
    """Whether it has a commit that is drawn, or grows out of one; a target may have been cut."""
    if not shown:
        return True
    return any(each.id in shown or shown & {*each.parents} for each in branch.commits)


def _without_others(commits: Sequence[CommitView]) -> list[CommitView]:
    """Commits of other workflows that follow each other become one, with their number."""
    kept: list[CommitView] = []
    for is_other, group in groupby(commits, key=lambda each: each.kind == "other"):
        newest, *older = group
        if is_other and older:
            count = len(older) + 1
            message = f"{count} commits of other workflows, the newest of them {newest.id}"
            label, parents = f"{count} of others", older[-1].parents
            kept.append(replace(newest, kind=OTHERS, label=label, message=message, parents=parents))
        else:
            kept += [newest, *older]
    return kept


def _points(branches: Sequence[BranchView], runs: Sequence[BranchView]) -> dict[str, Point]:
    """Where each commit stands: targets in rows of their own, each commit right of its parents.

    Runs come right below the targets: the decisions of their tasks have the same commits, which
    would else be drawn in the rows of these. A commit that only was staged is half a step aside, in
    the first row where nothing is near it: a row for each would make a long workflow a staircase.
    """
    wide = [each for each in branches if each.is_target or each in runs]
    across = _across(branches, wide)
    points: dict[str, Point] = {}
    rows: list[list[int]] = []
    wide_rows = 0
    for branch in branches:
        news = [each.id for each in branch.commits if each.id not in points]
        if not news:
            continue
        columns = [across[name] for name in news]
        number = len(rows)
        if branch in wide:
            wide_rows = number + 1
        else:
            free = (n for n in range(wide_rows, number) if _is_free(rows[n], columns))
            number = next(free, number)
        if number == len(rows):
            rows.append([])
        rows[number] += columns
        points |= {name: (across[name], TOP + ROW * number) for name in news}
    return points


def _across(branches: Sequence[BranchView], wide: Sequence[BranchView]) -> dict[str, int]:
    """How far to the right each commit stands."""
    steps: dict[str, int] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for branch in branches:
        step = STEP if branch in wide else ASIDE
        for commit in reversed(branch.commits):
            # The first branch counts: the commits of a run are those of a decision as well.
            steps.setdefault(commit.id, step)
            parents[commit.id] = commit.parents
    known = {name: [each for each in parents[name] if each in steps] for name in steps}
    across: dict[str, int] = {}
    for name in TopologicalSorter(known).static_order():  # parents first
        right_of = (across[parent] + steps[name] for parent in known[name])
        across[name] = max(right_of, default=LEFT)
    return across


def _is_free(taken: Sequence[int], columns: Sequence[int]) -> bool:
    """Whether commits have room beside those of a row."""
    return all(abs(x - other) >= STEP for x in columns for other in taken)


def is_run(branch: BranchView) -> bool:
    """Whether it is the branch of a run."""
    return branch.name.startswith(RUN_BRANCH_PREFIX)


def _runs(branches: Sequence[BranchView]) -> list[BranchView]:
    """The rows of runs: held ones have their branch, a published one is the second parent on main.

    By then its branch is gone, and the decision of finish still leads to its commits.
    """
    merged = _merged(each for each in branches if each.is_target)
    return [
        each
        for each in branches
        if not each.is_target
        and (is_run(each) or any(commit.id in merged for commit in each.commits[:1]))
    ]


def _merged(branches: Iterable[BranchView]) -> set[str]:
    """The second parents of their commits."""
    return {parent for each in branches for commit in each.commits for parent in commit.parents[1:]}


def _run_labels(
    branches: Sequence[BranchView], runs: Sequence[BranchView], points: dict[str, Point]
) -> Iterator[str]:
    merged = _merged(branches)
    for each in runs:
        drawn = [points[commit.id] for commit in each.commits]
        lowest = max((y for _, y in drawn), default=TOP)
        if lowest > TOP:
            x = min(x for x, y in drawn if y == lowest)
            held = is_run(each) and not any(commit.id in merged for commit in each.commits)
            said = "run, held" if held else "run, published"
            yield f'<text class="run" x="{x}" y="{lowest + 36}">{said}</text>'


def _edges(commits: dict[str, CommitView], points: dict[str, Point]) -> Iterator[str]:
    for name, commit in commits.items():
        for parent in commit.parents:
            if parent in points:
                yield _line(points[parent], points[name], "edge")
        if commit.staged in points:
            yield _line(points[commit.staged], points[name], "edge merged")


def _line(start: Point, end: Point, kind: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _dots(commits: dict[str, CommitView], points: dict[str, Point]) -> Iterator[str]:
    for name, commit in commits.items():
        x, y = points[name]
        said = commit.label or commit.message
        title = " ".join([name, commit.kind, said, *commit.tags])
        ring = (
            f'<circle class="decision" cx="{x}" cy="{y}" r="{RADIUS + 4}"/>'
            if commit.is_decided
            else ""
        )
        kind = escape(commit.kind, quote=True)
        yield (
            f'<g class="commit {kind}" data-commit="{escape(name, quote=True)}">'
            f"<title>{escape(title)}</title>{ring}"
            f'<circle cx="{x}" cy="{y}" r="{RADIUS}"/>'
            f'<text x="{x}" y="{y - 17}">{escape(_cut(said))}</text>'
            f'<text class="id" x="{x}" y="{y + 24}">{escape(name[:ID_CHARACTERS])}</text></g>'
        )


def _cut(text: str) -> str:
    """What fits, with a sign that there is more."""
    return text if len(text) <= LABEL_CHARACTERS else f"{text[: LABEL_CHARACTERS - 1]}…"
