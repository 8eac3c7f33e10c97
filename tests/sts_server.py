"""A server on loopback that speaks OpenAI's protocol, and fails on command."""

import json
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from loopback import running


class Server(ThreadingHTTPServer):
    """It answers by a function of the last message, after a pause; the first answers
    are failures, HTTP statuses. ``body`` has fields that differ from a right answer;
    after ``end`` answers the server is gone.
    """

    def __init__(self, answer, failures=(), pause=0.0, body=None, end=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.failures, self.pause = answer, iter(failures), pause
        self.body, self.end = body or {}, end
        # how many requests at the same time
        self.requests, self.open, self.most = [], set(), 0
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that went away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        server, length = self.server, int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        server.requests.append(request)
        failure = next(server.failures, None)
        server.open.add(self)
        server.most = max(server.most, len(server.open))
        time.sleep(server.pause)
        server.open.discard(self)
        # A chat, or a text to complete.
        asked = request.get("prompt") or request["messages"][-1]["content"]
        message = {"role": "assistant", "content": server.answer(asked)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "usage": None}
        answer |= {"model": request["model"], "choices": [choice]} | server.body
        refused = {"error": {"message": "refused"}}
        body = json.dumps(refused if failure else answer).encode()
        self.send_response(failure or 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if failure == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)
        if len(server.requests) == server.end:
            self.close_connection = True
            server.shutdown()
            server.socket.close()
            server.ended = time.monotonic()


@contextmanager
def serving(answer, **options):
    with running(Server(answer, **options)) as server:
        yield server
