"""Copies for other people: nothing of the program's own is in their bytes."""

import pytest
import torch

import opscope
from opscope.columns.confidential_copy import LEAVE_OUT, confidential_copy, shown_detail

SECRETS = ("secret_function", "SecretModule", "secret-note", "a-value", "test_confidential_copy")


def secret_function(tensor):
    with opscope.record_function("secret-note", "a-value"):
        return torch.nn.functional.dropout(tensor, 0.123)


class SecretModule(torch.nn.Module):
    def forward(self, tensor):
        return secret_function(tensor)


OPTIONS = {"record_shapes": True, "with_modules": True, "with_functions": True}


@pytest.fixture(scope="module")
def before():
    with opscope.profile(**OPTIONS) as prof:
        SecretModule()(torch.ones(3))
    return prof.trace


def texts(trace):
    return "\n".join([*trace.names, str(trace.metadata), *trace.table("source_lines")["text"]])


def names_of(trace):
    return [*map(trace.event_name, range(len(trace.events)))]


def test_without_arguments(before):
    detail = "ValueError: a-value, in the main thread"
    trace = confidential_copy(before.with_metadata({"dump": {"reason": "x", "detail": detail}}))
    assert trace.metadata["dump"] == {"reason": "x", "detail": "ValueError"}
    assert "0.123" in texts(before) and "a-value" in texts(before)
    assert "0.123" not in trace.names  # it stays in source lines, as in the program
    assert "a-value" not in "\n".join([*trace.names, str(trace.metadata)])
    assert "command_line" not in trace.metadata
    assert names_of(trace) == names_of(before) and len(trace.table("tensors"))


def test_the_cause_of_a_dump():
    detail = "SecretError: a-value"
    assert [shown_detail(detail, omitted) for omitted in (None, "arguments", "names")] == [
        detail, "SecretError", ""
    ]  # fmt: skip


def test_with_names_hashed(before, tmp_path):
    confidential_copy(before, names=True).save(tmp_path / "h.opscope")
    trace = opscope.load(tmp_path / "h.opscope")
    assert all(secret in texts(before) for secret in SECRETS)
    assert not [secret for secret in SECRETS if secret in texts(trace)]
    assert "aten::dropout" in trace.names and "torch/nn/functional.py" in texts(trace)
    assert len({*names_of(trace)}) == len({*names_of(before)})
    assert str(trace.summary())


def test_recordings_lack_it_from_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv(LEAVE_OUT, "names")
    flight = opscope.flight_recorder(directory=tmp_path / "dumps", budget=None, **OPTIONS)
    with flight, opscope.profile(stream_to=tmp_path / "streamed", **OPTIONS) as prof:
        SecretModule()(torch.ones(3))
        dump = flight.dump(wait=True)
    for trace in (prof.trace, opscope.load(tmp_path / "streamed"), opscope.load(dump)):
        assert not [secret for secret in SECRETS if secret in texts(trace)]
        assert "aten::dropout" in trace.names


def test_every_copy_has_hashes_of_its_own(before):
    one, two = (confidential_copy(before, names=True) for _ in range(2))
    assert {*one.names} != {*two.names} and len(one.names) == len(two.names)
