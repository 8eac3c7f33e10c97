"""A server on loopback that speaks OpenAI's protocol, gives log-probabilities of prompts as vLLM does, and fails on
command: failures are HTTP statuses, one a request; "drop" ends the connection; None is no failure."""

import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from loopback import running


def tokens(words: str) -> list[str]:
    """Words with the space before them, and signs."""
    return re.findall(r" ?\w+|\W", words)


def logprob(before: str, token: str) -> float:
    return -((len(before) * 7 + len(token) * 3) % 11) / 10 - 0.1


class Server(ThreadingHTTPServer):
    """It answers by a function of the last message, or of the text to complete."""

    def __init__(self, answer, failures=(), told=True, pause=lambda: None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.failures, self.told, self.pause = answer, list(failures), told, pause
        self.asked, self.requests, self.lock = Counter(), [], threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that went away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request.get("prompt") or request["messages"][-1]["content"]
        with server.lock:
            server.asked[prompt] += 1
            server.requests.append(request)
            failure = server.failures.pop(0) if server.failures else None
        server.pause()
        if failure == "drop":
            self.close_connection = True
            return
        body = json.dumps({"error": {"message": "refused"}} if failure else self._body(request, prompt)).encode()
        self.send_response(failure or 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if failure == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def _body(self, request, prompt):
        known = {"id": "1", "created": 1, "model": request["model"], "usage": None}
        choice, told = {"index": 0, "finish_reason": "stop"}, {}
        if request.get("prompt_logprobs") and self.server.told:
            pieces = tokens(
                "\n".join(one["content"] for one in request["messages"]) if "messages" in request else prompt
            )
            values = (logprob("".join(pieces[:k]), piece) for k, piece in enumerate(pieces))
            rows = [{str(k): {"decoded_token": pieces[k], "logprob": value}} for k, value in enumerate(values)]
            told = {"prompt_logprobs": [None, *rows[1:]]}
        if "messages" in request:
            choice |= {"message": {"role": "assistant", "content": self.server.answer(prompt)}}
            return known | told | {"object": "chat.completion", "choices": [choice]}
        choice |= {"text": self.server.answer(prompt), "logprobs": None} | told
        return known | {"object": "text_completion", "choices": [choice]}


@contextmanager
def serving(answer, **options):
    with running(Server(answer, **options)) as server:
        yield server
