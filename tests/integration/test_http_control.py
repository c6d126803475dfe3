"""Recordings over HTTP: of an untouched program, of an ASGI server, under hostile requests."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import sys
import threading
import time

import pytest
import torch

import opscope
from opscope.columns.names import REQUEST_PREFIX
from opscope.serve import MarkRequests, asgi, listen
from opscope.serve.profile_request import ProfileRequest
from opscope.torch_api.hosted_recording import HostedRecording
from support.processes import wait_until
from support.recorded import count
from support.torch_processes import TorchProgram
from torture.children import in_child

TOKEN = "a-token-of-tests"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def ask(port, method, path, body=None, headers=ALLOWED):
    """Status and JSON of the answer; ``body`` is bytes, or what becomes JSON."""
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def send(port, data, wait_s=20.0):
    """The status of the answer to these bytes; None without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # it has answered before it had all of it
            pass
        answer = b""
        try:
            while part := connection.recv(1 << 16):
                answer += part
        except OSError:
            pass
    words = answer.split(None, 2)
    return int(words[1]) if len(words) > 1 else None


def verdict_when_written(get, patience_s=120.0):
    """The answer of ``GET /verdict`` once another process has made it."""
    until_s = time.monotonic() + patience_s
    while (answer := get())[0] == 202:
        assert time.monotonic() < until_s, "no verdict"
        time.sleep(0.1)
    return answer


PROGRAM = """
import sys, time, torch
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("ready", flush=True)
until = time.monotonic() + 120
while time.monotonic() < until:
    model(torch.randn(8, 32)).sum().backward()
    optimizer.step()
    time.sleep(0.002)
"""


@pytest.fixture
def server(tmp_path):
    server = listen("127.0.0.1:0", tmp_path / "root", TOKEN)
    yield server
    server.stop()


def record(port, work, **fields):
    status, said = ask(port, "POST", "/start_profile", fields)
    assert status == 200, said
    work()
    assert ask(port, "POST", "/stop_profile")[0] == 200
    return verdict_when_written(lambda: ask(port, "GET", "/verdict"))


def multiply(times=50):
    for _ in range(times):
        torch.ones(64, 64).mm(torch.ones(64, 64))


def test_a_recording_is_written_by_another_process(server, tmp_path):
    status, verdict = record(server.port, multiply, output_dir="a", profile_prefix="x")

    assert status == 200 and verdict["lines"][0].startswith("verdict:")
    folder = (tmp_path / "root" / verdict["trace"]).parent
    assert folder.parent == tmp_path / "root/a" and folder.name.startswith("x-")
    trace = opscope.load(folder / "trace.opscope")
    assert count(trace, "aten::mm") == 50
    assert (folder / "report.html").read_text().startswith("<!")


def test_one_recording_at_a_time(server):
    begun = ask(server.port, "POST", "/start_profile", {"output_dir": "first"})[1]
    status, refused = ask(server.port, "POST", "/start_profile", {"output_dir": "second"})
    assert status == 409 and refused["recording"]["output_dir"] == begun["output_dir"]
    assert ask(server.port, "GET", "/profile_status")[1]["is_recording"]
    multiply(2)
    assert ask(server.port, "POST", "/stop_profile")[0] == 200
    assert ask(server.port, "POST", "/stop_profile")[0] == 409
    assert not ask(server.port, "GET", "/profile_status")[1]["is_recording"]


def test_stages_are_counted_and_judged_apart(server):
    asked = {"num_steps": 2, "profile_by_stage": True}
    assert ask(server.port, "POST", "/start_profile", asked)[0] == 200
    server.control.step_ended()
    for stage in ["prefill", "decode", "decode", "decode", "prefill", "decode"]:
        with opscope.record_function(stage):
            multiply(3 if stage == "prefill" else 1)
        server.control.step_ended(stage)
    status, verdict = verdict_when_written(lambda: ask(server.port, "GET", "/verdict"))
    assert status == 200, verdict
    stages = verdict["stages"]
    assert {name: stage["steps"] for name, stage in stages.items()} == {"prefill": 2, "decode": 3}
    assert stages["prefill"]["operators"][0]["name"] in ("aten::mm", "aten::ones", "aten::fill_")
    assert any(line.startswith("decode: 3 steps") for line in verdict["lines"])


def test_steps_end_on_two_threads_at_once(server):
    step = server.control.step_ended

    def end_steps():
        for _ in range(2000):
            step()

    for _ in range(5):
        assert ask(server.port, "POST", "/start_profile", {"num_steps": 50})[0] == 200
        threads = [threading.Thread(target=end_steps) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: not ask(server.port, "GET", "/profile_status")[1]["recording"])
        status, verdict = verdict_when_written(lambda: ask(server.port, "GET", "/verdict"))
        assert status == 200, verdict


HOSTILE = [
    (b"POST /start_profile HTTP/1.1\r\nHost: localhost\r\n\r\n", 401),
    (b"POST /start_profile HTTP/1.1\r\nHost: evil\r\n\r\n", 421),
    (b"GET /verdict HTTP/1.1\r\n\r\n", 421),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n", 400),
    (b"GET\r\n\r\n", 400),
    (b"BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % i for i in range(300)) + b"\r\n", 431),
]


def good_head(method, path, length, more=b""):
    return (
        (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Length: {length}\r\n"
        ).encode()
        + more
        + b"\r\n"
    )


MALICIOUS = [
    (good_head("POST", "/start_profile", 1 << 30) + b"x" * 300_000, 413),
    (good_head("POST", "/start_profile", 5, b"Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n", 411),
    (good_head("POST", "/start_profile", -5), 400),
    (good_head("POST", "/start_profile", 50) + b"{}", 408),
    (good_head("POST", "/start_profile", 1) + b"{", 400),
    (good_head("DELETE", "/start_profile", 0), 405),
    (good_head("POST", "/%2e%2e/start_profile", 0), 404),
]


def test_500_hostile_requests_change_nothing(server, tmp_path):
    before = sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    cases = [*HOSTILE, *MALICIOUS]
    for data, status in cases:
        assert send(server.port, data) == status, data[:80]
    answered = []

    def attack(number):
        data, status = cases[number % len(cases)]
        answered.append((send(server.port, data), status))

    for first in range(0, 500, 100):  # a hundred at once
        threads = [threading.Thread(target=attack, args=(first + n,)) for n in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(got == status for got, status in answered), set(answered)
    assert len(answered) == 500
    assert ask(server.port, "GET", "/profile_status")[0] == 200
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= before[1])
    assert len(os.listdir("/proc/self/fd")) <= len(before[0]) + 1
    assert not (tmp_path / "root").exists()


def test_a_silent_client_keeps_no_process_waiting(server):
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(10)]
    for one in silent:
        one.sendall(b"GET /verd")
    assert ask(server.port, "GET", "/profile_status")[0] == 200
    for one in silent:
        one.close()


def test_a_forked_child_leaves_the_port(tmp_path):
    server = listen("127.0.0.1:0", tmp_path, TOKEN)
    in_child(lambda: server._socket.is_ours() and sys.exit(1))
    assert ask(server.port, "GET", "/profile_status")[0] == 200
    server.stop()
    listen(f"127.0.0.1:{server.port}", tmp_path, TOKEN).stop()


def run_over_http(tmp_path, *options):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    command = ("-m", "opscope", "run", "--http", "127.0.0.1:0", *options, script)
    return TorchProgram(*command, cwd=tmp_path, added={"OPSCOPE_HTTP_TOKEN": TOKEN})


def port_of(process):
    for line in process.stderr:
        if "listening at" in line:
            port = int(line.partition("127.0.0.1:")[2].partition(":")[0])
            assert process.stdout.readline() == "ready\n"
            return port
    raise AssertionError("it does not listen")


@pytest.mark.slow
def test_an_untouched_program(tmp_path):
    with run_over_http(tmp_path, "-o", "profiles") as process:
        try:
            port = port_of(process)
            said = {"num_steps": 20}
            assert ask(port, "POST", "/start_profile", said)[0] == 200
            wait_until(lambda: ask(port, "GET", "/verdict")[0] in (200, 202))
            status, verdict = verdict_when_written(lambda: ask(port, "GET", "/verdict"))
            assert status == 200, verdict
            trace = opscope.load(tmp_path / "profiles" / verdict["trace"])
            assert count(trace, "Optimizer.step#SGD.step") == 20
            assert ask(port, "POST", "/dump_profile")[0] == 409
            # What is being recorded when it is killed becomes a trace as well.
            begun = ask(port, "POST", "/start_profile")[1]
            wait_until(lambda: ask(port, "GET", "/profile_status")[1]["is_recording"])
        finally:
            process.kill()
    folder = tmp_path / "profiles" / begun["output_dir"] / "trace.opscope"
    wait_until(lambda: [*folder.glob("rank=*")])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_ends_leaves_a_verdict_on_what_it_recorded(tmp_path, number):
    with run_over_http(tmp_path) as process:
        try:
            port = port_of(process)
            begun = ask(port, "POST", "/start_profile")[1]
            multiply()
        finally:
            process.send_signal(number)
    assert process.returncode == -number
    verdict = tmp_path / "opscope-profiles" / begun["output_dir"] / "verdict.json"
    wait_until(verdict.exists)
    assert "lines" in json.loads(verdict.read_text())


def test_a_program_that_ends_waits_for_a_recording_that_is_being_left(server, monkeypatch):
    left = threading.Event()
    leave = HostedRecording.leave

    def slowly(hosted, recording):
        left.wait(0.2)
        leave(hosted, recording)
        left.set()

    monkeypatch.setattr(HostedRecording, "leave", slowly)
    assert ask(server.port, "POST", "/start_profile")[0] == 200
    stopping = threading.Thread(target=server.control.stop)
    stopping.start()
    wait_until(lambda: server.control.is_being_written)
    server.control.finish()
    assert left.is_set()
    stopping.join()


@pytest.mark.slow
def test_a_dump_of_the_flight_recorder(tmp_path):
    with run_over_http(tmp_path, "--flight-recorder", "5s") as process:
        try:
            port = port_of(process)
            status, said = ask(port, "POST", "/dump_profile", {"reason": "slow today"})
            assert status == 200, said
            folder = tmp_path / "opscope-dumps" / said["trace"]
            wait_until(lambda: [*folder.glob("rank=*")])
            assert opscope.load(folder).metadata["dump"]["detail"] == "slow today"
        finally:
            process.send_signal(signal.SIGTERM)


async def asked_app(app, method, path, body=b"", headers=(), root="/opscope"):
    """One request to an ASGI app, as a server would pass it on."""
    sent = []
    scope = {
        "type": "http",
        "method": method,
        "path": f"/opscope{path}",
        "root_path": root,
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 5),
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send_(message):
        sent.append(message)

    await app(scope, receive, send_)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_mounted_in_starlette(tmp_path):
    starlette = pytest.importorskip("starlette.applications")
    app = starlette.Starlette()
    app.mount("/opscope", asgi(tmp_path, TOKEN))
    app.add_middleware(MarkRequests)
    answer = asyncio.run(asked_app(app, "GET", "/profile_status", b"", AUTHORIZED, root=""))
    assert answer[0] == 200 and not answer[1]["is_recording"]


def test_a_server_that_shuts_down_leaves_what_it_records(tmp_path):
    starlette = pytest.importorskip("starlette.applications")
    app, profiler = starlette.Starlette(), asgi(tmp_path, TOKEN)
    app.add_middleware(MarkRequests, profiler=profiler)
    messages = [{"type": f"lifespan.{what}"} for what in ("shutdown", "startup")]
    sent = []

    async def receive():
        message = messages.pop()
        if not messages:
            profiler.control.start(ProfileRequest.of({}), "")
            multiply(2)
        return message

    async def send(message):
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan", "state": {}}, receive, send))
    assert sent[-1] == "lifespan.shutdown.complete"
    wait_until(lambda: not profiler.control.is_being_written)
    assert profiler.control.verdict()["lines"]


AUTHORIZED = [(b"authorization", ALLOWED["Authorization"].encode())]


def test_an_asgi_app_marks_requests_across_awaits(tmp_path):
    profiler = asgi(tmp_path, TOKEN)

    async def answer(scope, receive, send):
        torch.ones(3).add(1)
        await asyncio.sleep(0.002)
        torch.ones(3).add(1)

    marked = MarkRequests(answer, profiler)

    async def request(number):
        scope = {"type": "http", "method": "GET", "path": f"/{number % 2}", "headers": []}
        await marked(scope, None, None)

    async def serve():
        def ask_(method, path, body=b""):
            return asked_app(profiler, method, path, body, AUTHORIZED)

        assert (await asked_app(profiler, "POST", "/start_profile"))[0] == 401
        assert (await ask_("POST", "/start_profile", b"x" * 70_000))[0] == 413
        assert (await ask_("POST", "/start_profile"))[0] == 200
        await asyncio.gather(*map(request, range(20)))
        assert (await ask_("POST", "/stop_profile"))[0] == 200
        while (said := await ask_("GET", "/verdict"))[0] == 202:
            await asyncio.sleep(0.1)
        return said

    status, verdict = asyncio.run(serve())
    assert status == 200, verdict
    trace = opscope.load(tmp_path / verdict["trace"])
    names = {trace.event_name(event) for event in range(len(trace.events))}
    assert {name for name in names if name.startswith(REQUEST_PREFIX)} == {
        "request: GET /0",
        "request: GET /1",
    }
    assert profiler.control.status()["steps"] == 20


def two_free_ports():
    """The first of two neighbours."""
    while True:
        with socket.socket() as one, socket.socket() as next_one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.mark.slow
def test_ranks_record_the_same_steps_to_one_folder(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    ports, processes = [], []
    said = {"merge_profiles": True, "profile_prefix": "job", "start_step": 400, "num_steps": 10}
    try:
        first = two_free_ports()
        for rank in range(2):
            listening = f"127.0.0.1:{first}"
            command = ["-m", "opscope", "run", "--http", listening, "-o", "profiles", script]
            environment = {"OPSCOPE_HTTP_TOKEN": TOKEN, "RANK": str(rank), "WORLD_SIZE": "2"}
            process = TorchProgram(*command, cwd=tmp_path, added=environment)
            processes.append(process)
            ports.append(port_of(process))
            assert ports[-1] == first + rank
            assert ask(ports[-1], "POST", "/start_profile", said)[0] == 200
        for port in ports:
            wait_until(lambda port=port: ask(port, "GET", "/verdict")[0] in (200, 202))
            status, verdict = verdict_when_written(lambda port=port: ask(port, "GET", "/verdict"))
            assert status == 200, verdict
            assert verdict["trace"] == "job/trace.opscope"
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert opscope.load_job(tmp_path / "profiles/job/trace.opscope").ranks == [0, 1]
