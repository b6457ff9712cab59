"""The official Python SDK of the Model Context Protocol, unchanged, as a client that the operator registered."""

import asyncio
import json
import os
import time
import urllib.parse
import urllib.request

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

ISSUER, MCP_URL, MCP_PORT = (os.environ[name] for name in ("ISSUER", "MCP_URL", "MCP_PORT"))
# The registered URI has no port.
CALLBACK = "http://127.0.0.1:51718/callback"
PATIENCE = 20


class Storage:
    tokens = None
    client = OAuthClientInformationFull(
        client_id="agent", redirect_uris=[CALLBACK], token_endpoint_auth_method="none", issuer=ISSUER
    )

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


storage = Storage()
visited = {}


async def visit(address):
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))
    assert query["resource"] == MCP_URL, query
    assert "notes:read" in query["scope"].split(), query
    process = await asyncio.create_subprocess_exec("node", "visit.mjs", address, CALLBACK, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    visited.update(urllib.parse.parse_qsl(urllib.parse.urlsplit(out.decode().strip()).query))


async def callback():
    return AuthorizationCodeResult(code=visited["code"], state=visited["state"], iss=visited["iss"])


def get(path):
    with urllib.request.urlopen(f"http://127.0.0.1:{MCP_PORT}{path}", timeout=PATIENCE) as answer:
        return answer.read().decode()


def revoke():
    token = storage.tokens.refresh_token or storage.tokens.access_token
    form = urllib.parse.urlencode({"token": token, "client_id": "agent"}).encode()
    with urllib.request.urlopen(f"{ISSUER}/oauth/revoke", form, timeout=PATIENCE) as answer:
        assert answer.status == 200


async def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        await asyncio.sleep(0.01)


async def main():
    get("/reset")
    auth = OAuthClientProvider(
        server_url=MCP_URL,
        client_metadata=OAuthClientMetadata(client_name="Notes agent", redirect_uris=[CALLBACK]),
        storage=storage,
        redirect_handler=visit,
        callback_handler=callback,
    )
    async with httpx2.AsyncClient(auth=auth, timeout=PATIENCE) as http:
        async with Client(streamable_http_client(MCP_URL, http_client=http)) as client:
            tools = sorted(tool.name for tool in (await client.list_tools()).tools)
            assert tools == ["watch", "whoami"], tools
            answer = json.loads((await client.call_tool("whoami", {})).content[0].text)
            assert answer["user"] and "authorization" not in answer, answer
            print("ok discovery, sign-in with any port of 127.0.0.1, and tools")

            progress = []

            async def on_progress(*_):
                progress.append(time.time())

            call = asyncio.create_task(client.call_tool("watch", {}, progress_callback=on_progress))
            await until("progress arrives", lambda: len(progress) >= 3)
            started = time.time()
            await asyncio.to_thread(revoke)
            await until("the stream ends at the server", lambda: json.loads(get("/ended"))["ended"])
            took = json.loads(get("/ended"))["ended"] / 1000 - started
            assert took < 1, took
            assert progress[-1] - started < 1, progress[-1] - started
            print(f"ok the stream ended {took * 1000:.0f} ms after the revocation")
            call.cancel()
            os._exit(0)


asyncio.run(main())
