"""The page on loopback: who may ask, what is answered, and that no secret is in it."""

import json
from html import escape
from http import HTTPStatus
from pathlib import Path

import pytest

from perago.app.page.model import (
    AttemptView,
    BranchView,
    CommitView,
    EventView,
    PageView,
    RepositoryView,
    SceneView,
    Seen,
    Step,
    StepView,
    page_document,
    without_secrets,
)
from perago.app.page.page_server import (
    HEADERS,
    Shown,
    answer,
)
from perago.domain.text import Secrets

PORT = 8123
HOST = f"localhost:{PORT}"
SECRET = 's3cr3t-<&>-"key"'
HOSTILE = '<script>alert("x")</script>&"\'</pre>'


def page(text: str = "t") -> PageView:
    """A page that has a text wherever a text may be."""
    commit = CommitView("c1", (), text, text, text, tags=(text,))
    event = EventView(1.0, "output", text, {"fact": text})
    attempt = AttemptView(
        *("t1", "w1", text, 0, text),
        worker=text,
        reason=text,
        steps=(StepView(Step.POLLED, Seen.SEEN, 1.0, text),),
        events=(event,),
        refs={"input": text},
        left=(text,),
    )
    repository = RepositoryView(text, (BranchView("main", (commit,), is_target=True),))
    scene = SceneView(
        *(text, text, "utc", text, (text,), (text,)),
        attempts=(attempt,),
        repositories=(repository,),
    )
    return PageView(text, (scene,), notice=text, error=text)


SHOWN = Shown(page())


@pytest.mark.parametrize("path", ["/", "/page.json", "/page.css", "/page.js"])
@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", HOST])
def test_loopback_is_answered(path: str, host: str) -> None:
    assert answer(SHOWN, path, host, PORT).status is HTTPStatus.OK


@pytest.mark.parametrize(
    "host", ["", "evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost:1", "0.0.0.0:8123"]
)
def test_other_hosts_get_nothing(host: str) -> None:
    found = answer(SHOWN, "/page.json", host, PORT)
    assert found.status is HTTPStatus.MISDIRECTED_REQUEST
    assert "scenes" not in found.body


@pytest.mark.parametrize("path", ["/../page.py", "/page.py", "//", "/page.json?x", "/%2e%2e"])
def test_nothing_else_is_served(path: str) -> None:
    assert answer(SHOWN, path, HOST, PORT).status is HTTPStatus.NOT_FOUND


def test_the_page_loads_nothing_from_elsewhere() -> None:
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    for path in ("/", "/page.css", "/page.js"):
        body = answer(SHOWN, path, HOST, PORT).body
        assert "http:" not in body
        assert "https:" not in body


def test_what_is_known_already_is_not_sent_again() -> None:
    shown = Shown(page())
    first = answer(shown, "/page.json", HOST, PORT)
    tag = first.headers["ETag"]
    again = answer(shown, "/page.json", HOST, PORT, tag)
    assert (again.status, again.body) == (HTTPStatus.NOT_MODIFIED, "")
    shown.update(page("new"))
    newer = answer(shown, "/page.json", HOST, PORT, tag)
    assert newer.status is HTTPStatus.OK
    assert newer.headers["ETag"] != tag
    assert json.loads(newer.body)["page"]["title"] == "new"


def test_every_value_of_the_frame_and_of_the_pictures_is_escaped() -> None:
    shown = Shown(page(HOSTILE))
    html = answer(shown, "/", HOST, PORT).body
    assert html.count("<script") == 1
    svg = json.loads(answer(shown, "/page.json", HOST, PORT).body)["graphs"][0][0]["svg"]
    for text in (html, svg):
        assert HOSTILE not in text
        assert "&lt;script&gt;" in text
    assert "<script" not in svg


def test_no_secret_is_sent_in_any_spelling() -> None:
    shown = Shown(without_secrets(page(f"before {SECRET} after"), Secrets.of([SECRET]).masked))
    sent = "".join(answer(shown, path, HOST, PORT).body for path in ("/", "/page.json"))
    spelled = (SECRET, json.dumps(SECRET)[1:-1], escape(SECRET), json.dumps(escape(SECRET))[1:-1])
    for form in spelled:
        assert form not in sent
    assert "before *** after" in sent
    document = json.dumps(page_document(shown.page))
    assert json.dumps(SECRET)[1:-1] not in document


def test_a_secret_is_masked_before_a_label_is_cut() -> None:
    shown = Shown(without_secrets(page(SECRET + "x" * 40), Secrets.of([SECRET]).masked))
    assert "s3cr3t" not in answer(shown, "/page.json", HOST, PORT).body


def test_the_page_and_its_parts_are_in_the_package() -> None:
    import perago.app.page as package  # noqa: PLC0415 - its folder is what is asked

    (folder,) = package.__path__
    assert {"page.css", "page.js"} <= {path.name for path in Path(folder).iterdir()}
