// The official TypeScript SDK of the Model Context Protocol, unchanged: it finds the provider from the gateway's 401,
// registers itself, signs in, calls tools, and loses its stream when its access ends.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Browser } from "../browser.mjs";

const { ISSUER, MCP_URL, MCP_PORT, CONFIG, SEALGATE } = process.env;
// The registered URI has no port.
const CALLBACK = "http://localhost:51717/callback";

class Provider {
  stored = {};
  redirectUrl = CALLBACK;
  clientMetadata = {
    client_name: "Notes agent",
    redirect_uris: ["http://localhost/callback"],
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"],
    application_type: "native",
  };
  clientInformation = () => this.stored.client;
  saveClientInformation = (client) => (this.stored.client = client);
  tokens = () => this.stored.tokens;
  saveTokens = (tokens) => (this.stored.tokens = tokens);
  codeVerifier = () => this.stored.verifier;
  saveCodeVerifier = (verifier) => (this.stored.verifier = verifier);
  redirectToAuthorization = (address) => (this.stored.address = address);
  invalidateCredentials = (what) => {
    if (what === "tokens") delete this.stored.tokens;
  };
}

const provider = new Provider();
let streamEnded;

/// Notes when the endless stream ends. The SDK gets the answer unchanged.
async function observed(url, init) {
  const response = await fetch(url, init);
  if (!String(init?.body).includes('"name":"watch"')) return response;
  const [own, theirs] = response.body.tee();
  (async () => {
    try {
      for await (const _ of own);
    } catch {
      // The end of the stream is expected.
    }
    streamEnded = Date.now();
  })();
  return new Response(theirs, response);
}

const newTransport = () => new StreamableHTTPClientTransport(new URL(MCP_URL), { authProvider: provider, fetch: observed });
const newClient = () => new Client({ name: "notes-agent", version: "1.0.0" });

async function until(what, condition) {
  const deadline = Date.now() + 20_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within 20 s: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

const first = newTransport();
await assert.rejects(newClient().connect(first), UnauthorizedError);
const address = provider.stored.address;
assert.equal(address.searchParams.get("resource"), MCP_URL);
assert.equal(address.searchParams.get("scope"), "notes:read offline_access");
const page = await new Browser([CALLBACK]).go(address);
assert.equal(page.searchParams.get("iss"), ISSUER);
await first.finishAuth(page.searchParams.get("code"));
console.log("ok discovery, registration and sign-in with any port of localhost");

await assert.rejects(newClient().connect(newTransport()), /administrator must approve/);
execFileSync(SEALGATE, ["client", "approve", provider.stored.client.client_id, "--config", CONFIG]);
const client = newClient();
await client.connect(newTransport());
const { tools } = await client.listTools();
assert.deepEqual(tools.map(({ name }) => name).sort(), ["watch", "whoami"]);
const answer = JSON.parse((await client.callTool({ name: "whoami" })).content[0].text);
assert.ok(answer.user && answer.authorization === undefined, JSON.stringify(answer));
console.log("ok tools, with the user's identity and without the token");

let progressed = 0;
streamEnded = undefined;
const call = client.callTool({ name: "watch" }, undefined, { onprogress: () => (progressed += 1), timeout: 60_000 });
call.catch(() => {});
await until("progress arrives", () => progressed >= 3);
const body = new URLSearchParams({ token: provider.stored.tokens.refresh_token, client_id: provider.stored.client.client_id });
const started = Date.now();
const revoked = await fetch(`${ISSUER}/oauth/revoke`, { method: "POST", body });
assert.equal(revoked.status, 200);
const own = async () => (await (await fetch(`http://127.0.0.1:${MCP_PORT}/ended`)).json()).ended;
await until("the stream ends at the client and at the server", async () => streamEnded && (await own()));
const [atClient, atServer] = [streamEnded - started, (await own()) - started];
assert.ok(atClient < 1000 && atServer < 1000, `${atClient} ms, ${atServer} ms`);
console.log(`ok the stream ended ${atClient} ms after the revocation, at the server ${atServer} ms`);

await assert.rejects(newClient().connect(newTransport()), UnauthorizedError);
console.log("ok the revoked token and its refresh token are refused");
process.exit(0);
