"""The workspace object: what is required, and the two spellings of the reference type."""

import json

import pytest
from pydantic import ValidationError

from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceOutput

PLACE = {"repository": "songs", "branch": "main", "ref": " c1 "}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"refType": "commit"}, "refType"),
        ({"ref_type": "commit"}, "ref_type"),
        ({"refType": "commit", "ref_type": "commit"}, "refType"),
    ],
    ids=["0.6.1", "the documents", "both"],
)
def test_the_output_is_spelled_as_the_input_was(given: dict[str, str], written: str) -> None:
    read = WorkspaceInput.model_validate(PLACE | given)
    output = read.published_output("c2")
    expected = {"repository": "songs", "branch": "main", written: "commit", "ref": "c2"}
    assert isinstance(output, WorkspaceOutput)
    assert output.model_dump() == output.model_dump(mode="json") == expected
    assert json.loads(output.model_dump_json()) == expected
    assert list(output.model_dump()) == list(expected)
    assert WorkspaceInput(**PLACE, **given) == read
    assert (read.ref_type, read.refType) == ("commit", "commit")
    other = dict.fromkeys({"refType", "ref_type"} - set(given), "tag")
    if other:
        with pytest.raises(ValueError, match="refType and ref_type must not differ"):
            WorkspaceInput.model_validate(PLACE | given | other)


def test_the_two_spellings_are_one_value() -> None:
    camel = WorkspaceInput(**PLACE, refType="commit")
    assert camel == WorkspaceInput(**PLACE, ref_type="commit")
    assert hash(camel) == hash(WorkspaceInput(**PLACE, ref_type="commit"))
    assert camel != WorkspaceOutput(**PLACE, ref_type="commit")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"refType": "branch"}, "Input should be 'commit'"),
        ({"ref_type": "tag"}, "must not differ"),
        ({"refType": None}, "Input should be 'commit'"),
        ({"ref": " "}, "workspace repository, branch, and ref must not be blank"),
        ({"ref": ".."}, "workspace repository, branch, and ref must not be `.` or `..`"),
        ({"branch": "."}, "workspace repository, branch, and ref must not be `.` or `..`"),
        ({"repository": " .. "}, "workspace repository, branch, and ref must not be `.` or `..`"),
        ({"branch": ""}, "String should have at least 1 character"),
        ({"repository": 5}, "Input should be a valid string"),
        ({"extra": 1}, "Extra inputs are not permitted"),
    ],
    ids=str,
)
def test_a_wrong_workspace_is_refused(changed: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        WorkspaceInput.model_validate(PLACE | {"refType": "commit"} | changed)
    assert text in str(caught.value)


@pytest.mark.parametrize("missing", ["repository", "branch", "refType", "ref"])
def test_every_field_is_required(missing: str) -> None:
    whole = PLACE | {"refType": "commit"}
    with pytest.raises(ValidationError, match="Field required"):
        WorkspaceInput.model_validate({key: whole[key] for key in whole if key != missing})


def test_values_keep_their_spaces() -> None:
    assert WorkspaceInput(**PLACE, refType="commit").as_value().ref == " c1 "
