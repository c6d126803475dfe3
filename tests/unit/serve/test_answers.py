"""Who may ask, and which status each refusal has."""

import pytest
import torch  # noqa: F401 - without it nothing can be recorded, whatever is asked for

from opscope.errors import UsageError
from opscope.serve import answers as module
from opscope.serve.answers import Head, HttpAnswers, token_of
from opscope.serve.control import Control

TOKEN = "secret"
GOOD = {"host": "localhost:8000", "authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def answers(tmp_path):
    return HttpAnswers(Control(tmp_path), TOKEN, ())


def head(method="GET", path="/profile_status", client="127.0.0.1", **headers):
    given = {**GOOD, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Head(method, path, {k: v for k, v in given.items() if v is not None}, client)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (head(authorization=None), 401),
        (head(authorization="Bearer wrong"), 401),
        (head(authorization="Bearer sécret"), 401),
        (head(client="10.0.0.7"), 403),
        (head(origin="http://localhost"), 403),
        (head(host="evil.example"), 421),
        (head(host=None), 421),
        (head(host="127.0.0.1.evil.example"), 421),
        (head(host="127.0.0.1:1@evil.example"), 421),
        (head(host="[::1]evil.example"), 421),
        (head(path="/../profile_status"), 404),
        (head(method="GET", path="/start_profile"), 405),
        (head(content_length="-1"), 400),
        (head(content_length="²"), 400),
        (head("POST", "/start_profile", content_length=str(1 << 30)), 413),
        (head("POST", "/start_profile", content_length="9" * 5000), 413),
    ],
)
def test_refusals(answers, asked, status):
    reply = answers.refusal(asked)
    assert reply.status == status and reply.body["error"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:80", "LOCALHOST"])
def test_names_of_this_machine(answers, host):
    assert answers.refusal(head(host=host)) is None


def test_named_hosts_open_it_to_other_machines(tmp_path):
    answers = HttpAnswers(Control(tmp_path), TOKEN, ["Box.example"])
    assert answers.refusal(head(host="box.example", client="10.0.0.7")) is None
    assert answers.refusal(head(host="other.example", client="10.0.0.7")).status == 421


@pytest.mark.parametrize(
    ("asked", "body", "status"),
    [
        (head("POST", "/stop_profile"), b"", 409),
        (head("POST", "/stop_profile"), b'{"x": 1}', 400),
        (head("POST", "/dump_profile"), b"", 409),
        (head("POST", "/dump_profile"), b'{"reason": 5}', 400),
        (head("GET", "/verdict"), b"", 404),
        (head("POST", "/start_profile"), b"{", 400),
        (head("POST", "/start_profile"), b'{"output_dir": "../x"}', 400),
    ],
)
def test_what_cannot_be_done(answers, asked, body, status):
    reply = answers.answer(asked, body)
    assert reply.status == status and reply.body["error"]


def test_the_token_is_made_and_printed(monkeypatch, capsys):
    monkeypatch.delenv(module.TOKEN, raising=False)
    made = token_of(None)
    assert len(made) > 20 and made in capsys.readouterr().err
    monkeypatch.setenv(module.TOKEN, "of the environment")
    assert token_of(None) == "of the environment"


@pytest.mark.parametrize("token", ["", "a\nb", "ä"])
def test_a_token_that_no_header_can_have(token):
    with pytest.raises(UsageError, match="token"):
        token_of(token)
