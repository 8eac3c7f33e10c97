"""A server on loopback that speaks OpenAI's protocol, and fails on command."""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from loopback import running


class Server(ThreadingHTTPServer):
    """It answers by a function of the last message, or of the text to complete; failures are HTTP statuses."""

    def __init__(self, answer, failures=(), pause=lambda: None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.failures, self.pause = answer, list(failures), pause
        self.asked, self.requests, self.lock = Counter(), [], threading.Lock()
        self.open, self.most = 0, 0  # requests at the same time
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
            server.open += 1
            server.most = max(server.most, server.open)
        server.pause()
        with server.lock:
            server.open -= 1
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
        choice = {"index": 0, "finish_reason": "stop"}
        if "messages" in request:
            choice |= {"message": {"role": "assistant", "content": self.server.answer(prompt)}}
            return known | {"object": "chat.completion", "choices": [choice]}
        return known | {
            "object": "text_completion",
            "choices": [choice | {"text": self.server.answer(prompt), "logprobs": None}],
        }


@contextmanager
def serving(answer, **options):
    with running(Server(answer, **options)) as server:
        yield server
