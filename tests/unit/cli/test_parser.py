"""Words of the command line become options, or one sentence that says what is wrong with them."""

from enum import Enum
from pathlib import Path

import pytest

from opscope.cli.parser import Parser, add_row_limit, one_of, seconds, whole_number
from opscope.errors import UsageError


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@pytest.fixture
def parser():
    made = Parser("opscope paint", description="Paint a thing.")
    made.add_argument("thing", nargs="?", type=Path, metavar="THING")
    made.add_argument("how", metavar="HOW")
    made.add_argument("--coats", type=whole_number(1), default=1)
    made.add_argument("--colour", **one_of(Colour))
    made.add_argument("--wait", type=seconds(0.1, 60))
    made.add_argument("--dry-first", action="store_true")
    add_row_limit(made, 3, "Rows")
    return made


def test_values_have_their_types(parser):
    words = ["--coats", "2", "wall", "--colour=blue", "well", "--wait", "0.5"]
    asked = parser.parse_intermixed_args(words)
    assert (asked.thing, asked.how, asked.coats) == (Path("wall"), "well", 2)
    assert asked.colour is Colour.BLUE and asked.wait == 0.5 and asked.row_limit == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required: HOW"),
        (["a", "b", "c"], "unrecognized arguments: c"),
        (["well", "--coats"], "--coats: expected one argument"),
        (["well", "--coats", "two"], "'two' is not a whole number"),
        (["well", "--coats", "0"], "--coats: 0 is less than 1"),
        (["well", "--colour", "green"], "--colour: 'green' is not one of red, blue"),
        (["well", "--wait", "99"], "--wait: '99' is not between 0.1 and 60 seconds"),
        (["well", "--dry-first=true"], "--dry-first: ignored explicit argument 'true'"),
        (["well", "--col", "red"], "unrecognized arguments: --col"),
        (["well", "--row-limit", "-2"], "--row-limit: -2 is less than -1"),
    ],
)
def test_what_is_wrong_is_reported_in_one_sentence(parser, words, said):
    with pytest.raises(UsageError) as raised:
        parser.parse_intermixed_args(words)
    assert said.lower() in str(raised.value).lower()
    assert str(raised.value).endswith(". See `opscope paint --help`.")
