"""A server on loopback that speaks OpenAI's protocol, counts what it is asked, and fails on command.

An answer is made from the prompt, so that a mixed-up order shows. Failures are taken from a list, one a request:
a number is an HTTP status, "drop" ends the connection in the middle of the body, "cut" sends half of the JSON
as if it were whole, "empty" sends JSON without choices, "page" sends HTML, "hang" waits, None is no failure.
"""

import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from loopback import running


def answer(prompt: str) -> str:
    return f" {len(prompt)}.5\nand more"


def tokens(words: str) -> list[str]:
    """Words with the space before them, and signs."""
    return re.findall(r" ?\w+|\W", words)


def logprob(before: str, token: str) -> float:
    return -((len(before) * 7 + len(token) * 3) % 11) / 10 - 0.1


class Server(ThreadingHTTPServer):
    def __init__(self, failures=(), echo=True, dies_after=99, at_once=99, pause=lambda: None, slip=False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures, self.echo, self.dies_after, self.slip = list(failures), echo, dies_after, slip
        self.at_once, self.pause, self.closing = at_once, pause, threading.Event()
        self.asked, self.answered, self.keys, self.requests = Counter(), Counter(), set(), []
        self.now, self.most, self.lock = 0, 0, threading.Lock()
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
            server.keys.add(self.headers.get("Authorization"))
            server.now += 1
            server.most = max(server.most, server.now)
            failure = server.failures.pop(0) if server.failures else None
            if server.answered.total() >= server.dies_after:
                failure = "drop"
            if server.now > server.at_once:
                failure = "hang"
            server.answered[prompt] += failure is None
        server.pause()
        with server.lock:
            server.now -= 1
        self._respond(json.dumps(self._body(request, prompt)), failure)

    def _respond(self, body, failure):
        if failure == "hang":
            self.server.closing.wait()
        refusal = json.dumps({"error": {"message": f"refused, {self.headers['Authorization']}"}})
        broken = {None: body, "drop": body[:20], "cut": body[: len(body) // 2], "empty": "{}", "page": "<p>a proxy"}
        sent = broken.get(failure, refusal)
        self.send_response(failure if isinstance(failure, int) else 200)
        self.send_header("Content-Type", "text/html" if failure == "page" else "application/json")
        self.send_header("Content-Length", str(len(body if failure == "drop" else sent)))
        if failure == 429:
            self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(sent.encode())
        self.close_connection = failure == "drop"

    def _body(self, request, prompt):
        known = {"id": "1", "created": 1, "model": request["model"], "usage": None}
        choice = {"index": 0, "finish_reason": "stop"}
        if "messages" in request:
            choice |= {"message": {"role": "assistant", "content": answer(prompt)}}
            return known | {"object": "chat.completion", "choices": [choice]}
        choice |= {"text": answer(prompt), "logprobs": None}
        if request["max_tokens"] == 1:
            token = tokens(answer(prompt))[0]
            told = {"tokens": [token], "token_logprobs": [logprob(prompt, token)]}
            choice |= {"text": token, "logprobs": told | {"top_logprobs": None, "text_offset": None}}
        if request.get("echo") and self.server.echo:
            pieces = [*tokens(prompt), "!"]
            values = [None, *(logprob("".join(pieces[:k]), pieces[k]) for k in range(1, len(pieces)))]
            values = [value and value - 3 for value in values] if self.server.slip else values
            logprobs = {"tokens": pieces, "token_logprobs": values, "top_logprobs": None, "text_offset": None}
            choice |= {"text": prompt + "!", "logprobs": logprobs}
        return known | {"object": "text_completion", "choices": [choice]}


@contextmanager
def serving(**options):
    with running(Server(**options)) as server:
        yield server
        server.closing.set()
