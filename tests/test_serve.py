"""The services of docs/how_to/serve.md and of `jaxmatch serve` give clients the results of direct prediction."""

import os
import re
import signal
import socket as sockets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import saved_model
import uvicorn

import jaxmatch
from jaxmatch.cli.main import main

PAGE = Path(__file__).parent.parent / "docs" / "how_to" / "serve.md"
CODE = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
CLIENTS = 64


@pytest.fixture
def service(run, monkeypatch):
    """The address of the service of the page. Not all programs of its model are compiled yet."""
    monkeypatch.setenv("MODEL", str(run))
    names = {}
    exec(compile(CODE, "service.py", "exec"), names)
    server = uvicorn.Server(uvicorn.Config(names["app"], port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    (socket,) = server.servers[0].sockets
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_concurrent_clients_get_the_predictions_of_the_matcher(service, run):
    words = [word for word in saved_model.WORDS if word.isalpha()]
    requests = [
        [(" ".join(words[number % 5 :][: 1 + k]), " ".join(words[: 1 + number % 7])) for k in range(1 + number % 4)]
        for number in range(4 * CLIENTS)
    ]
    together = threading.Barrier(CLIENTS)

    def client(number):
        with httpx.Client(base_url=service, timeout=120) as connection:
            together.wait()
            return [
                connection.post("/predict", json={"pairs": pairs}).raise_for_status().json()
                for pairs in requests[number::CLIENTS]
            ]

    with ThreadPoolExecutor(CLIENTS) as threads:
        answers = list(threads.map(client, range(CLIENTS)))
    matcher = jaxmatch.load(run)
    for number, found in enumerate(answers):
        for pairs, predictions in zip(requests[number::CLIENTS], found, strict=True):
            expected = matcher.predict(pairs)
            assert [one["label"] for one in predictions] == [one.label for one in expected]
            for one, other in zip(predictions, expected, strict=True):
                assert one["probabilities"] == pytest.approx(other.probabilities, abs=1e-6)


def test_rank_equals_the_matcher_and_invalid_requests_return_422(service, run):
    texts = ["no d", "a b c", "e"]
    payload = {"query": "a b", "candidates": texts, "top_k": 2, "label": "neutral"}
    found = httpx.post(f"{service}/rank", json=payload, timeout=120).raise_for_status().json()
    expected = jaxmatch.load(run).rank("a b", texts, 2, "neutral")
    assert [(one["index"], one["text"]) for one in found] == [(one.index, one.text) for one in expected]
    assert httpx.post(f"{service}/predict", json={"pairs": [["a", "b" * 2001]]}).status_code == 422
    for path, body, problem in (
        ("predict", r'{"pairs": [["a", "b"], ["\ud800", "a"]]}', "('body', 'pairs', 1, 0): "),
        ("predict", '{"pairs": [[NaN, "a"]]}', "('body', 'pairs', 0, 0): Input should be a valid string"),
        ("rank", r'{"query": "a", "candidates": ["\ud800"], "label": "neutral"}', "('body', 'candidates', 0): "),
    ):
        answer = httpx.post(f"{service}/{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422 and answer.json()["detail"].startswith(problem)
    for label, problem in ((None, "3 labels"), ("x", "'x' is not one of the model's labels")):
        answer = httpx.post(f"{service}/rank", json=payload | {"label": label}, timeout=120)
        assert answer.status_code == 422 and problem in answer.json()["detail"]
    for path, long in (
        ("predict", {"pairs": [["a" * 2000, "b"]] * 50}),
        ("rank", payload | {"candidates": ["a" * 2000] * 50}),
    ):
        answer = httpx.post(f"{service}/{path}", json=long, timeout=120)
        assert answer.status_code == 422 and "more than 100,000 characters" in answer.json()["detail"]


def test_at_most_two_requests_predict_concurrently(service, monkeypatch):
    running, seen = [], []

    def counted(*_):
        running.append(1)
        seen.append(len(running))
        time.sleep(0.05)
        running.pop()
        return []

    for name in ("predict", "rank"):
        monkeypatch.setattr(jaxmatch.Matcher, name, counted)
    payload = {"predict": {"pairs": [["a", "b"]]}, "rank": {"query": "a", "candidates": ["b"]}}

    def client(path):
        assert httpx.post(f"{service}/{path}", json=payload[path], timeout=120).raise_for_status().json() == []

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(client, 6 * list(payload)))
    assert len(seen) == 12 and max(seen) == 2


def test_concurrent_first_requests_prepare_the_model_once(run, monkeypatch):
    """However many threads make the first request, there is one predictor, which prepares each shape once."""
    from jaxmatch.inference import cpu

    matcher, made = jaxmatch.load(run), []
    predictor = cpu.Predictor

    def slow(*arguments):
        made.append(arguments)
        time.sleep(0.05)
        return predictor(*arguments)

    monkeypatch.setattr(cpu, "Predictor", slow)
    together = threading.Barrier(8)

    def ask(_):
        together.wait()
        return matcher.logits([("a b", "c")]).tolist()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert len(made) == 1 and len(matcher.model.predictor.programs) == 1
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("port", [99999, None])
def test_a_port_that_cannot_be_used_is_one_line(port, capsys):
    with sockets.create_server(("127.0.0.1", 0)) as used:
        port = port or used.getsockname()[1]
        assert main(["serve", "no-run", "--port", str(port)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"jaxmatch: port {port} of 127.0.0.1 cannot be used (") and err.count("\n") == 1


def test_the_command_answers_and_ends_at_sigterm_after_its_last_answer(run, monkeypatch):
    with sockets.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers, predict, entered = {}, jaxmatch.Matcher.predict, threading.Event()
    texts = ["no d", "a b c", "e"]

    def slow(self, pairs):
        entered.set()
        time.sleep(0.3)
        return predict(self, pairs)

    def post(path, **body):
        return httpx.post(f"http://127.0.0.1:{port}/{path}", timeout=60, **body)

    def client():
        for _ in range(600):  # until it listens
            try:
                answers["health"] = httpx.get(f"http://127.0.0.1:{port}/health").json()
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        try:
            answers["rank"] = post("rank", json={"query": "a b", "candidates": texts, "top_k": 2, "label": "neutral"})
            answers["label"] = post("rank", json={"query": "a b", "candidates": texts})
            answers["pairs"] = post("predict", json={"pairs": [["a", "b"]] * 4})
            answers["long"] = post("predict", json={"pairs": [["a" * 3000, "b"]]})
            answers["chunks"] = post("predict", content=iter([b"x" * 900] * 3))
            for name, content in (("nan", '{"pairs": [[NaN, "a"]]}'), ("half", r'{"pairs": [["\ud800", "a"]]}')):
                answers[name] = post("predict", content=content, headers={"Content-Type": "application/json"})
            monkeypatch.setattr(jaxmatch.Matcher, "predict", slow)
            with ThreadPoolExecutor(1) as threads:
                last = threads.submit(post, "predict", json={"pairs": [["a b c", "no d"]]})
                assert entered.wait(30)
                os.kill(os.getpid(), signal.SIGTERM)
                answers["last"] = last.result()
        finally:
            if "last" not in answers:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(jaxmatch.Matcher, "warmup", lambda self: None)  # tests/test_warmup.py
    before, thread = signal.getsignal(signal.SIGTERM), threading.Thread(target=client)
    thread.start()
    assert main(["serve", str(run), "--port", str(port), "--max-pairs", "3", "--max-bytes", "2000"]) == 0
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
    matcher = jaxmatch.load(run)
    assert answers["health"] | {"status": "ok", "labels": list(matcher.labels)} == answers["health"]
    found = matcher.rank("a b", texts, 2, "neutral")
    assert [one["text"] for one in answers["rank"].json()] == [one.text for one in found]
    (last,), (expected,) = answers["last"].json(), predict(matcher, [("a b c", "no d")])
    assert last["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)
    numbers = [*last["probabilities"].values(), *(one["score"] for one in answers["rank"].json())]
    assert numbers == [round(number, 6) for number in numbers]
    assert [answers[name].status_code for name in ("pairs", "long", "chunks")] == [413, 413, 411]
    assert [answers[name].status_code for name in ("label", "nan", "half")] == [422] * 3
    assert "3 labels" in answers["label"].json()["detail"]
