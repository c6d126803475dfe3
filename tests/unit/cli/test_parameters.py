"""Words of the command line become a call, or one sentence that says what is wrong with them."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import pytest

from opscope.cli.parameters import Argument, Option, call_with
from opscope.errors import UsageError


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


def paint(
    thing: Annotated[Path | None, Argument(metavar="THING", help="What to paint.")] = None,
    *,
    how: Annotated[str, Argument(metavar="HOW", help="In what manner.")],
    coats: Annotated[int, Option(metavar="N", minimum=1, help="How often.")] = 1,
    colour: Annotated[Colour | None, Option(help="Which.")] = None,
    to_file: Annotated[
        Path | None, Option(names=("--to-file", "-o"), metavar="F", help="W.")
    ] = None,
    dry_first: Annotated[bool, Option(help="Wait.")] = False,
    shiny: Annotated[bool | None, Option(help="Or not.")] = None,
):
    """Paint a thing."""
    return thing, how, coats, colour, to_file, dry_first, shiny


def play(
    words: Annotated[list[str], Argument(metavar="PROGRAM", help="What to run.", takes_rest=True)],
    loud: Annotated[bool, Option(help="Loud.")] = False,
):
    """Run a program."""
    return words, loud


def gather(
    things: Annotated[list[Path], Argument(metavar="THING", help="What.")],
    to: Annotated[list[Path] | None, Option(metavar="PLACE", help="Where.")] = None,
):
    """Gather things."""
    return things, to


def painted(*words):
    return call_with(paint, words, "opscope paint")


def test_values_have_the_types_of_the_parameters():
    words = [
        "--coats",
        "2",
        "wall",
        "--colour=blue",
        "-o",
        "out",
        "well",
        "--dry-first",
        "--no-shiny",
    ]
    assert painted(*words) == (
        Path("wall"),
        "well",
        2,
        Colour.BLUE,
        Path("out"),
        True,
        False,
    )


def test_what_may_be_left_out_is_left_out_first():
    assert painted("well") == (None, "well", 1, None, None, False, None)


def test_short_options_may_touch_their_value():
    assert painted("well", "-oout")[4] == Path("out")


@pytest.mark.parametrize("before", [[], ["--loud"]])
def test_what_follows_the_program_is_the_programs(before):
    words = [*before, "train.py", "--loud", "--", "-h"]
    program = words[len(before) :]
    assert call_with(play, words, "opscope play") == (program, bool(before))


def test_lists_end_where_an_option_begins():
    words = ["a", "b", "--to", "c", "d"]
    assert call_with(gather, words, "opscope gather") == (
        [Path("a"), Path("b")],
        [Path("c"), Path("d")],
    )


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_asked_for(word, capsys):
    with pytest.raises(SystemExit):
        painted("--coats", "2", word, "--nonsense")
    assert "Paint a thing." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required: HOW"),
        (["a", "b", "c"], "unrecognized arguments: c"),
        (["well", "--coats"], "--coats: expected one argument"),
        (["well", "--coats", "two"], "'two' is not a whole number"),
        (["well", "--coats", "0"], "--coats: 0 is less than 1"),
        (["well", "--colour", "green"], "--colour: 'green' is not one of red, blue"),
        (["well", "--dry-first=true"], "--dry-first: ignored explicit argument 'true'"),
        (["well", "--col", "red"], "unrecognized arguments: --col"),
        (["well", "-x"], "unrecognized arguments: -x"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words, said):
    with pytest.raises(UsageError) as raised:
        painted(*words)
    assert said.lower() in str(raised.value).lower()
    assert str(raised.value).endswith(". See `opscope paint --help`.")


def test_an_option_that_is_needed():
    def save(output: Annotated[Path, Option(names=("--output", "-o"), metavar="FILE", help="W.")]):
        return output

    with pytest.raises(UsageError, match="required: -o/--output"):
        call_with(save, [], "save")
    assert call_with(save, ["-o", "x"], "save") == Path("x")


def test_mistakes_of_the_function_itself_are_handed_on():
    def fail():
        raise UsageError("It went wrong. Do something else.")

    with pytest.raises(UsageError, match=r"^It went wrong. Do something else.$"):
        call_with(fail, [], "fail")
