"""Bodies of requests: fields of serving engines with their types."""

import pytest

from opscope.errors import UsageError
from opscope.serve.profile_request import ProfileRequest, object_of


def test_fields_of_engines():
    asked = ProfileRequest.of(
        {
            "output_dir": "a/b",
            "num_steps": 5,
            "start_step": 0,
            "activities": ["CPU", "GPU", "MEM"],
            "with_stack": True,
            "record_shapes": False,
            "merge_profiles": True,
            "profile_by_stage": True,
            "profile_prefix": "slow",
        }
    )
    assert asked.activities == ("CPU", "CUDA")
    assert asked.num_steps == 5 and asked.start_step == 0
    assert asked.arguments["profile_memory"] and asked.arguments["with_stack"]
    assert not asked.arguments["record_shapes"] and asked.by_stage


@pytest.mark.parametrize(
    "said",
    [
        {"num_steps": 0},
        {"num_steps": "5"},
        {"num_steps": True},
        {"num_steps": 1 << 60},
        {"start_step": [1]},
        {"activities": "CPU"},
        {"activities": [["CPU"]]},
        {"activities": ["TPU"]},
        {"output_dir": "x" * 201},
        {"profile_prefix": {}},
        {"profile_by_stage": 1},
        {"__class__": 1},
    ],
)
def test_a_wrong_field_is_named(said):
    with pytest.raises(UsageError, match=next(iter(said))):
        ProfileRequest.of(said)


def test_a_misspelt_field_is_corrected():
    with pytest.raises(UsageError, match="Did you mean 'num_steps'"):
        ProfileRequest.of({"numsteps": 3})


@pytest.mark.parametrize("body", [b"[1]", b"5", b"{", b"\xff\xfe", b"[" * 60_000, b"nul"])
def test_a_body_that_is_no_object(body):
    with pytest.raises(UsageError, match="body"):
        object_of(body)
