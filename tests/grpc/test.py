"""Calls of a gRPC client through the gateway to a gRPC server. See run.sh."""

import base64
import hashlib
import http.cookiejar
import json
import os
import queue
import ssl
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from concurrent import futures
from html.parser import HTMLParser

import grpc

PORT, UPSTREAM, WORK, PASSWORD = (os.environ[name] for name in ("PORT", "UPSTREAM", "WORK", "PASSWORD"))
CERTIFICATE = f"{WORK}/server.pem"
ISSUER = f"https://localhost:{PORT}"
REDIRECT_URI = "http://localhost:1/callback"
# Maximum time for each wait, in seconds.
PATIENCE = 20


# The server.


def unary(request, context):
    fields = dict(context.invocation_metadata())
    # The client never sees the second one: it is an identity header.
    context.set_trailing_metadata((("x-own", "1"), ("x-forwarded-user", "eve")))
    answer = {"length": len(request), "user": fields.get("x-forwarded-user"), "token": "authorization" in fields}
    return json.dumps(answer).encode()


def stream(request, _context):
    for number in range(int(request)):
        yield str(number).encode()


def chat(requests, _context):
    for request in requests:
        yield request.upper()


def fail(_request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "there is no such thing")


waiting = threading.Semaphore(0)
ended = threading.Semaphore(0)


def wait(request, context):
    """Sends nothing but the request, if it is not empty, until the client or the gateway ends the call."""
    over = threading.Event()
    context.add_callback(over.set)
    if request:
        yield request
    waiting.release()
    over.wait(PATIENCE)
    ended.release()


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.unary_stream_rpc_method_handler(stream),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "Wait": grpc.unary_stream_rpc_method_handler(wait),
    }
    for service in ("test.Calls", "test.Socket"):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    assert server.add_insecure_port(f"127.0.0.1:{UPSTREAM}")
    assert server.add_insecure_port(f"unix:{WORK}/calls.sock")
    server.start()
    return server


# The sign-in.


class Page(HTMLParser):
    """The form of a page: its address and its hidden fields."""

    def __init__(self, text):
        super().__init__()
        self.action, self.fields = None, {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = attributes.get("action", "")
        if tag == "input" and attributes.get("type") == "hidden":
            self.fields[attributes["name"]] = attributes.get("value", "")


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects until one leads to the client."""

    def redirect_request(self, request, body, code, message, headers, url):
        if url.startswith(REDIRECT_URI):
            return None
        return super().redirect_request(request, body, code, message, headers, url)


def access_token():
    """Signs in as a browser does, and returns the access token of the client `program`."""
    context = ssl.create_default_context(cafile=CERTIFICATE)
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), cookies, Redirects)
    opener.addheaders = [("Accept", "text/html"), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "navigate"),
                         ("Sec-Fetch-Dest", "document"), ("Origin", ISSUER)]
    verifier = "v" * 64
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urllib.parse.urlencode({
        "client_id": "program", "response_type": "code", "redirect_uri": REDIRECT_URI, "scope": "openid profile",
        "state": "s", "code_challenge": challenge, "code_challenge_method": "S256"})
    url, body = f"{ISSUER}/oauth/authorize?{query}", None
    entered = {"email": "anna@example.test", "password": PASSWORD, "consent-allow": "yes"}
    for _ in range(3):
        try:
            with opener.open(url, body, timeout=PATIENCE) as answer:
                page, url = Page(answer.read().decode()), answer.geturl()
        except urllib.error.HTTPError as answer:
            parameters = urllib.parse.parse_qs(urllib.parse.urlparse(answer.headers["Location"]).query)
            break
        url, body = urllib.parse.urljoin(url, page.action), urllib.parse.urlencode(page.fields | entered).encode()
    else:
        raise AssertionError(f"the sign-in does not end: {url}")
    form = {"grant_type": "authorization_code", "code": parameters["code"][0], "redirect_uri": REDIRECT_URI,
            "client_id": "program", "code_verifier": verifier}
    with opener.open(f"{ISSUER}/oauth/token", urllib.parse.urlencode(form).encode(), timeout=PATIENCE) as answer:
        return json.load(answer)["access_token"]


# The calls.


def expect(actual, expected):
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def refused(code, call):
    """Checks that reading the result of a call ends with this status. Returns the error."""
    try:
        call()
    except grpc.RpcError as error:
        expect(error.code(), code)
        return error
    raise AssertionError(f"no {code}")


def calls(channel, service, metadata):
    call = channel.unary_unary(f"/{service}/Unary")
    refused(grpc.StatusCode.UNAUTHENTICATED, lambda: call(b"", timeout=PATIENCE))
    refused(grpc.StatusCode.UNAUTHENTICATED,
            lambda: call(b"", timeout=PATIENCE, metadata=(("authorization", "Bearer wrong"),)))
    for length in (0, 3, 1_000_000):
        answer, done = call.with_call(b"x" * length, timeout=PATIENCE, metadata=metadata)
        answer = json.loads(answer)
        expect((answer["length"], answer["token"], bool(answer["user"])), (length, False, True))
        expect([item for item in done.trailing_metadata() if item[0].startswith("x-")], [("x-own", "1")])

    received = channel.unary_stream(f"/{service}/Stream")(b"1000", timeout=PATIENCE, metadata=metadata)
    expect([int(message) for message in received], list(range(1000)))

    # Each message is an answer to the last one, so neither side may be held back.
    sent = queue.Queue()
    received = channel.stream_stream(f"/{service}/Chat")(iter(sent.get, None), timeout=PATIENCE, metadata=metadata)
    for word in (b"one", b"two", b"three"):
        sent.put(word)
        expect(next(received), word.upper())
    sent.put(None)
    expect((list(received), received.code()), ([], grpc.StatusCode.OK))

    error = refused(grpc.StatusCode.NOT_FOUND,
                    lambda: channel.unary_unary(f"/{service}/Fail")(b"", timeout=PATIENCE, metadata=metadata))
    expect(error.details(), "there is no such thing")
    refused(grpc.StatusCode.UNIMPLEMENTED,
            lambda: channel.unary_unary(f"/{service}/Unknown")(b"", timeout=PATIENCE, metadata=metadata))


def main():
    server = serve()
    with open(CERTIFICATE, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    metadata = (("authorization", f"Bearer {access_token()}"),)
    channel = grpc.secure_channel(f"localhost:{PORT}", credentials, options=(
        ("grpc.ssl_target_name_override", "app.localhost"), ("grpc.default_authority", f"app.localhost:{PORT}")))
    for service in ("test.Calls", "test.Socket"):
        calls(channel, service, metadata)
        print(f"ok {service}")

    # One call has received a message. The other one has not even the head of its response.
    running = [channel.unary_stream("/test.Calls/Wait")(message, metadata=metadata) for message in (b"first", b"")]
    expect(next(running[0]), b"first")
    for _ in running:
        assert waiting.acquire(timeout=PATIENCE)
    command = ["target/debug/sealgate", "user", "disable", "anna@example.test", "--config", f"{WORK}/sealgate.toml"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    for call in running:
        refused(grpc.StatusCode.CANCELLED, lambda: next(call))
        assert ended.acquire(timeout=PATIENCE), "the call goes on at the server"
    call = channel.unary_unary("/test.Calls/Unary")
    refused(grpc.StatusCode.UNAUTHENTICATED, lambda: call(b"", timeout=PATIENCE, metadata=metadata))
    print("ok revocation")
    channel.close()
    server.stop(None)


main()
