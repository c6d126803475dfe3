"""Words of the command line become a call, or one sentence that says what is wrong with them."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import pytest

from opscope.cli.command import Command, HelpWanted
from opscope.cli.parameters import Argument, Option
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
    program: Annotated[str, Argument(metavar="PROGRAM", help="What to run.")],
    words: Annotated[list[str] | None, Argument(metavar="WORDS...", help="For it.")] = None,
    loud: Annotated[bool, Option(help="Loud.")] = False,
):
    """Run a program."""
    return program, words, loud


PAINT = Command.of(paint)
PLAY = Command.of(play)


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
    assert PAINT.call_with(words) == (
        Path("wall"),
        "well",
        2,
        Colour.BLUE,
        Path("out"),
        True,
        False,
    )


def test_what_may_be_left_out_is_left_out_first():
    assert PAINT.call_with(["well"]) == (None, "well", 1, None, None, False, None)


def test_short_options_may_touch_their_value():
    assert PAINT.call_with(["well", "-oout"])[4] == Path("out")


def test_words_after_two_dashes_are_no_options():
    assert PAINT.call_with(["--", "--coats", "well"])[:2] == (Path("--coats"), "well")


@pytest.mark.parametrize("before", [[], ["--loud"]])
def test_what_follows_the_program_is_the_programs(before):
    words = [*before, "train.py", "--loud", "--", "-h"]
    assert PLAY.call_with(words) == ("train.py", ["--loud", "--", "-h"], bool(before))


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_asked_for(word):
    with pytest.raises(HelpWanted):
        PAINT.call_with(["--coats", "2", word, "--nonsense"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "HOW is missing."),
        (["a", "b", "c"], "'c' is one argument too many."),
        (["well", "--coats"], "--coats needs a value: --coats N."),
        (["well", "--coats", "two"], "--coats takes a whole number, not 'two'."),
        (["well", "--coats", "0"], "--coats 0 is less than 1."),
        (["well", "--colour", "green"], "--colour 'green' is not one of red, blue."),
        (["well", "--dry-first=true"], "--dry-first is on when it is there, and takes no value."),
        (["well", "--colur", "red"], "There is no option --colur. Did you mean --colour?"),
        (["well", "-x"], "There is no option -x."),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words, said):
    with pytest.raises(UsageError) as raised:
        PAINT.call_with(words)
    assert str(raised.value) == f"{said} See `opscope paint --help`."


def test_an_option_that_is_needed():
    def save(output: Annotated[Path, Option(names=("--output", "-o"), metavar="FILE", help="W.")]):
        return output

    with pytest.raises(UsageError, match="--output is missing: -o, --output FILE"):
        Command.of(save).call_with([])
    assert Command.of(save).call_with(["-o", "x"]) == Path("x")


def test_mistakes_of_the_function_itself_are_handed_on():
    def fail():
        raise UsageError("It went wrong. Do something else.")

    with pytest.raises(UsageError, match=r"^It went wrong. Do something else.$"):
        Command.of(fail).call_with([])
