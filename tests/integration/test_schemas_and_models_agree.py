"""jsonschema is the judge: what a model writes fits its schema, what is wrong fits neither."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from tests.integration.model_shapes import SHAPES, ModelShape
from tests.integration.schema_mutations import Judge, mutations

from perago.app.authoring.contract_schema import schema_for_model, schema_for_result
from perago.app.authoring.envelope import json_result

ENOUGH = 30

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
few_examples = settings(max_examples=6, deadline=None)


@cache
def judge_of_params(model: type[BaseModel], *, is_open: bool) -> Judge:
    return Judge(schema_for_model(model, allow_extra=is_open))


@cache
def judge_of_result(model: type[BaseModel]) -> Judge:
    return Judge(schema_for_result(model))


def made(shape: ModelShape, data: st.DataObject) -> BaseModel:
    return shape.model.model_validate(data.draw(shape.values), by_name=True, by_alias=True)


def test_there_are_thirty_shapes() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= ENOUGH


@each_shape
@few_examples
@given(data=st.data())
def test_what_a_model_writes_fits_the_schema_of_its_result(
    shape: ModelShape, data: st.DataObject
) -> None:
    document = json_result(shape.model, made(shape, data))
    assert not judge_of_result(shape.model).complaints(document)


@each_shape
@few_examples
@given(data=st.data())
def test_what_a_model_writes_can_be_the_params_of_the_next_task(
    shape: ModelShape, data: st.DataObject
) -> None:
    instance = made(shape, data)
    document = instance.model_dump(mode="json", by_alias=True)
    fits = judge_of_params(shape.model, is_open=False).accepts(document)
    assert fits is shape.reads_what_it_writes
    if shape.reads_what_it_writes:
        assert not judge_of_params(shape.model, is_open=True).complaints(document)
        assert shape.model.model_validate(document, extra="forbid") == instance


@each_shape
@few_examples
@given(data=st.data())
def test_what_is_wrong_is_refused_by_schema_and_model(
    shape: ModelShape, data: st.DataObject
) -> None:
    document = made(shape, data).model_dump(mode="json", by_alias=True)
    reads = shape.reads_what_it_writes
    one_side = judge_of_params(shape.model, is_open=False)
    referee = one_side if reads else judge_of_result(shape.model)
    wrong = list(mutations(referee.schema, document))
    assert wrong
    for each in wrong:
        assert not referee.accepts(each.document), each.what
        if reads:
            with pytest.raises(ValidationError):
                shape.model.model_validate(each.document, extra="forbid")
