// The load of a soak test. Each role acts like users and programs until it is stopped, and checks
// each answer against earlier acknowledgements. An answer that contradicts them is a violation.

import { createHash, createPublicKey, randomBytes, verify } from "node:crypto";
import http2 from "node:http2";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { Browser } from "../clients/browser.mjs";
import { FORGED, PATIENCE, command } from "./world.mjs";

const { ISSUER, APP, REDIRECT_URI, CLIENT_SECRET } = process.env;
const APP_HOST = new URL(APP).hostname;
const APP_PORT = Number(new URL(APP).port);
const CLIENT = "soak";
/// How long after a revocation's answer access may remain, milliseconds: Sealgate's guarantee, and
/// the time to detect the end of a connection.
const REVOKED_WITHIN = 1000;
const CLOSED_WITHIN = 2000;
/// Maximum number of revoked refresh tokens and used codes that are presented again.
const REMEMBERED = 200;

/// The times of injected faults. Failures are allowed then, but wrong answers never are.
export class Trouble {
  /// How long after the end of a fault a failure is attributed to it, milliseconds.
  static GRACE = 5000;
  #times = [];

  /// Begins a fault and returns a function that ends it. `part`: "all", or "token" for a fault that
  /// only affects requests that need a signature.
  begin(part) {
    const time = { part, from: Date.now(), to: Infinity };
    this.#times = [...this.#times.slice(-50), time];
    return () => (time.to = Date.now() + Trouble.GRACE);
  }

  excuses(part, since) {
    return this.#times.some((time) => (time.part === "all" || time.part === part) && time.to >= since);
  }
}

const agent = new https.Agent({ keepAlive: true, maxSockets: 64, servername: APP_HOST });

/// Sends a gated request over HTTP/1.1 and returns the status and JSON of the answer.
function gated(path, headers = {}) {
  return new Promise((resolve, reject) => {
    const mark = randomBytes(6).toString("hex");
    const options = {
      host: "127.0.0.1",
      port: APP_PORT,
      path,
      agent,
      servername: APP_HOST,
      headers: { host: new URL(APP).host, accept: "application/json", "x-mark": mark, "x-forwarded-user": FORGED, X_Forwarded_User: FORGED, ...headers },
      signal: AbortSignal.timeout(PATIENCE),
    };
    const request = https.request(options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, body: parse(text), mark }));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end();
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

export class Load {
  #stopped = false;
  #keys = new Map();
  #lives = new Map();
  #revoked = [];
  #usedCodes = [];
  /// Milliseconds of gated requests since the last sample.
  latencies = [];

  constructor({ verdict, trouble, people }) {
    Object.assign(this, { verdict, trouble, people });
  }

  /// Runs all roles until `stop`.
  run() {
    const roles = this.people.map((person) => this.#live(person));
    roles.push(this.#strangers(), this.#streams(), this.#streams(), this.#lookBack());
    return Promise.all(roles);
  }

  stop() {
    this.#stopped = true;
  }

  /// Checks that each valid refresh token still works after the last restart.
  async finish() {
    for (const { person, family } of this.#lives.values()) {
      if (family) await this.#refresh(person, family);
    }
    for (const token of this.#revoked) await this.#mustBeRefused({ grant_type: "refresh_token", refresh_token: token }, "a revoked refresh token");
  }

  /// Runs a step. A failure outside a fault is a violation. Returns null after any failure.
  async #step(what, part, act) {
    const since = Date.now();
    try {
      const result = await act();
      this.verdict.count(what);
      return result;
    } catch (error) {
      if (this.trouble.excuses(part, since)) this.verdict.count(`${what}, failed in a fault`);
      else this.verdict.violation(`${what}: ${error.message}`);
      await sleep(200);
      return null;
    }
  }

  /// Signs a user in repeatedly, each time with a session, a family of refresh tokens and a
  /// WebSocket.
  async #live(person) {
    while (!this.#stopped) {
      const life = { person, family: null };
      const browser = new Browser([REDIRECT_URI], { email: person.email, password: person.password });
      const page = await this.#step("sign-ins at the gate", "all", async () => {
        const page = await browser.pass(`${APP}/in/first`);
        if (page.status !== 200) throw new Error(`status ${page.status} at ${page.url}`);
        return page;
      });
      if (!page) continue;
      if (parse(page.html).user !== person.sub) this.verdict.violation(`${person.email} signed in and is ${page.html}`);
      const headers = { cookie: browser.cookies(APP_HOST) };
      life.family = await this.#authorize(person, browser);
      this.#lives.set(person.sub, life);
      const socket = new Socket(headers, this.verdict, this.trouble);
      const until = Date.now() + 20_000 + Math.random() * 70_000;
      for (let round = 0; Date.now() < until && !this.#stopped; round += 1) {
        await this.#gatedRequest(person, `/in/${round}`, headers);
        if (round % 12 === 11 && life.family) await this.#refresh(person, life.family);
        await sleep(250 + Math.random() * 250);
      }
      if (this.#stopped) {
        socket.close();
        return;
      }
      await this.#end(life, headers, socket);
    }
  }

  async #gatedRequest(person, path, headers) {
    await this.#step("gated requests, HTTP/1.1", "all", async () => {
      const begun = performance.now();
      const { status, body, mark } = await gated(path, headers);
      if (status !== 200) throw new Error(`status ${status}`);
      this.latencies.push(performance.now() - begun);
      this.#isTheirs(person, body, path, mark);
    });
  }

  #isTheirs(person, body, path, mark) {
    if (body.user !== person.sub || body.path !== path || body.mark !== mark) {
      this.verdict.violation(`an answer of somebody else: asked ${path} as ${person.sub}, got ${JSON.stringify(body)}`);
    }
  }

  /// Redeems a code for a family of refresh tokens. One code in ten is redeemed again, which must
  /// fail and revoke the family.
  async #authorize(person, browser) {
    const verifier = randomBytes(32).toString("base64url");
    const address = new URL(`${ISSUER}/oauth/authorize`);
    address.search = new URLSearchParams({
      client_id: CLIENT,
      response_type: "code",
      redirect_uri: REDIRECT_URI,
      scope: "openid profile email offline_access",
      state: "soak",
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
    });
    const back = await this.#step("codes", "all", () => browser.go(address));
    if (!back) return null;
    const fields = { grant_type: "authorization_code", code: back.searchParams.get("code"), redirect_uri: REDIRECT_URI, code_verifier: verifier };
    const reply = await this.#tokens("codes redeemed", person, fields);
    if (!reply) return null;
    if (Math.random() < 0.1) {
      await this.#mustBeRefused(fields, "a used code");
      await this.#mustBeRefused({ grant_type: "refresh_token", refresh_token: reply.refresh_token }, "a refresh token of a code that was used twice");
      return null;
    }
    this.#remember(this.#usedCodes, fields);
    return { refresh: reply.refresh_token, access: reply.access_token };
  }

  #remember(list, item) {
    list.push(item);
    if (list.length > REMEMBERED) list.splice(Math.floor(Math.random() * REMEMBERED), 1);
  }

  /// Refreshes a family. After a lost answer the same token is sent again, because the client has a
  /// retry window.
  async #refresh(person, family) {
    const fields = { grant_type: "refresh_token", refresh_token: family.refresh };
    let reply = null;
    for (let tries = 0; !reply && tries < 40; tries += 1) {
      reply = await this.#tokens("refreshes", person, fields);
      if (!reply) await sleep(500);
    }
    if (reply) Object.assign(family, { refresh: reply.refresh_token, access: reply.access_token });
  }

  /// Requests tokens and verifies them. Returns null if a fault prevented the answer.
  async #tokens(what, person, fields) {
    return this.#step(what, "token", async () => {
      const { status, body } = await token(fields);
      if (status === 400 || status === 401) this.verdict.violation(`${what}: ${status} ${JSON.stringify(body)}`);
      if (status !== 200) throw new Error(`status ${status} ${JSON.stringify(body)}`);
      const claims = await this.#verified(body.id_token);
      if (claims.sub !== person.sub) this.verdict.violation(`${what}: tokens of ${claims.sub} for ${person.sub}`);
      await this.#verified(body.access_token);
      return body;
    });
  }

  /// Presents invalid tokens and codes.
  async #mustBeRefused(fields, what) {
    await this.#step(`${what} again`, "token", async () => {
      const { status, body } = await token(fields);
      if (status === 200) this.verdict.violation(`${what} was taken`);
      else if (status !== 400) throw new Error(`status ${status} ${JSON.stringify(body)}`);
    });
  }

  /// Verifies a token's signature with a published key and returns its claims.
  async #verified(jwt) {
    const [head, payload, signature] = jwt.split(".");
    const { kid } = parse(Buffer.from(head, "base64url").toString());
    if (!this.#keys.has(kid)) {
      const { keys } = await (await fetch(`${ISSUER}/oauth/jwks`, { signal: AbortSignal.timeout(PATIENCE) })).json();
      this.#keys = new Map(keys.map((key) => [key.kid, createPublicKey({ key, format: "jwk" })]));
    }
    const key = this.#keys.get(kid);
    if (!key) this.verdict.violation(`a token of a key that is not published: ${kid}`);
    else if (!verify("sha256", Buffer.from(`${head}.${payload}`), key, Buffer.from(signature, "base64url"))) this.verdict.violation("a token whose signature is wrong");
    return parse(Buffer.from(payload, "base64url").toString());
  }

  /// Revokes a user's access in one of four ways, and checks that it has ended.
  async #end(life, headers, socket) {
    const { person, family } = life;
    const way = ["session end", "user revoke", "token revoked", "abandoned"][Math.floor(Math.random() * 4)];
    if (way === "abandoned" || (way === "token revoked" && !family)) {
      socket.close();
      return;
    }
    // A refresh at the end of the run must not use a grant that was just revoked.
    if (way !== "session end") this.#lives.delete(person.sub);
    const done = await this.#step(way, way === "token revoked" ? "token" : "all", async () => {
      if (way === "token revoked") await revoke(family.refresh);
      else await command([...way.split(" "), person.sub]);
      return Date.now();
    });
    if (!done) {
      socket.close();
      return;
    }
    if (way !== "session end" && family) {
      await this.#mustBeRefused({ grant_type: "refresh_token", refresh_token: family.refresh }, "a revoked refresh token");
      this.#remember(this.#revoked, family.refresh);
    }
    if (way === "token revoked") {
      socket.close();
      return;
    }
    // Sent after the guaranteed second. The server may be stopped by then, but it must not allow
    // the request.
    await sleep(REVOKED_WITHIN - Math.min(REVOKED_WITHIN, Date.now() - done));
    await this.#step("requests of an ended session", "all", async () => {
      const { status } = await gated("/in/ended", headers);
      if (status === 200) this.verdict.violation(`let in ${Date.now() - done} ms after "${way}" was answered`);
      else if (status !== 401 && status !== 302 && status !== 303) throw new Error(`status ${status}`);
    });
    while (socket.isOpen && Date.now() - done < CLOSED_WITHIN) await sleep(20);
    if (socket.isOpen && !this.trouble.excuses("all", done)) this.verdict.violation(`a WebSocket is open ${Date.now() - done} ms after "${way}"`);
    socket.close();
  }

  /// Sends requests without valid credentials.
  async #strangers() {
    for (let round = 0; !this.#stopped; round += 1) {
      const forged = [{}, { cookie: `__Host-sealgate_app=${randomBytes(32).toString("base64url")}` }, { authorization: `Bearer ${randomBytes(40).toString("base64url")}` }][round % 3];
      await this.#step("requests of strangers", "all", async () => {
        const { status } = await gated(`/in/stranger/${round}`, forged);
        if (status === 200) this.verdict.violation("a stranger was let in");
        else if (status !== 401) throw new Error(`status ${status}`);
      });
      await this.#step("public requests", "all", async () => {
        const { status, body } = await gated(`/open/${round}`);
        if (status !== 200 || body.user !== null) throw new Error(`status ${status} ${JSON.stringify(body)}`);
      });
      await sleep(200);
    }
  }

  /// Sends gated requests over HTTP/2, four concurrently, with the access tokens of signed-in
  /// users.
  async #streams() {
    let session = null;
    while (!this.#stopped) {
      session = session && !session.closed && !session.destroyed ? session : connect();
      const lives = [...this.#lives.values()].filter((life) => life.family);
      await Promise.all(lives.slice(0, 4).map(async ({ person, family }, index) => {
        const [path, access] = [`/api/${index}`, family.access];
        await this.#step("gated requests, HTTP/2", "all", async () => {
          const { status, body, mark } = await stream(session, path, { authorization: `Bearer ${access}` });
          // The user's access may have been revoked, or the token expired while a fault prevented a
          // refresh.
          const current = this.#lives.get(person.sub)?.family?.access === access;
          if (status === 401 && (!current || this.trouble.excuses("token", expires(access) * 1000 - 60_000))) return;
          if (status !== 200) throw new Error(`status ${status} ${JSON.stringify(body)}`);
          this.#isTheirs(person, body, path, mark);
        });
      }));
      await sleep(150);
    }
    session?.close();
  }

  /// Checks that used and revoked tokens and codes stay invalid, also across restarts.
  async #lookBack() {
    while (!this.#stopped) {
      const any = (list) => list[Math.floor(Math.random() * list.length)];
      if (this.#revoked.length) await this.#mustBeRefused({ grant_type: "refresh_token", refresh_token: any(this.#revoked) }, "a revoked refresh token");
      await sleep(1000);
    }
  }
}

function expires(jwt) {
  return parse(Buffer.from(jwt.split(".")[1], "base64url").toString()).exp;
}

const basic = `Basic ${Buffer.from(`${CLIENT}:${CLIENT_SECRET}`).toString("base64")}`;

async function token(fields) {
  const response = await fetch(`${ISSUER}/oauth/token`, {
    method: "POST",
    headers: { authorization: basic },
    body: new URLSearchParams(fields),
    signal: AbortSignal.timeout(PATIENCE),
  });
  return { status: response.status, body: parse(await response.text()) };
}

async function revoke(refresh) {
  const response = await fetch(`${ISSUER}/oauth/revoke`, {
    method: "POST",
    headers: { authorization: basic },
    body: new URLSearchParams({ token: refresh }),
    signal: AbortSignal.timeout(PATIENCE),
  });
  if (response.status !== 200) throw new Error(`status ${response.status}`);
}

function connect() {
  const session = http2.connect(APP, { createConnection: () => tls.connect({ host: "127.0.0.1", port: APP_PORT, servername: APP_HOST, ALPNProtocols: ["h2"] }) });
  session.on("error", () => session.destroy());
  return session;
}

function stream(session, path, headers) {
  return new Promise((resolve, reject) => {
    const mark = randomBytes(6).toString("hex");
    const request = session.request({ ":path": path, accept: "application/json", "x-mark": mark, "x-forwarded-user": FORGED, ...headers }, { signal: AbortSignal.timeout(PATIENCE) });
    let [status, text] = [0, ""];
    request.setEncoding("utf8");
    request.on("response", (answer) => (status = answer[":status"]));
    request.on("data", (chunk) => (text += chunk));
    request.on("error", reject);
    // A stream that ends with its session gets no answer.
    request.on("close", () => (status ? resolve({ status, body: parse(text), mark }) : reject(new Error("no answer"))));
  });
}

/// A WebSocket through the gateway: sends a message every second, and each must be echoed
/// unchanged.
class Socket {
  isOpen = false;
  #socket;
  #timer;
  #awaited = null;

  constructor(headers, verdict, trouble) {
    const begun = Date.now();
    const request = https.request({
      host: "127.0.0.1",
      port: APP_PORT,
      path: "/in/socket",
      servername: APP_HOST,
      agent: false,
      headers: { host: new URL(APP).host, origin: APP, connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": randomBytes(16).toString("base64"), ...headers },
    });
    request.setTimeout(PATIENCE, () => request.destroy());
    request.on("error", (error) => {
      if (!trouble.excuses("all", begun)) verdict.violation(`a WebSocket did not open: ${error.message}`);
    });
    request.on("response", (response) => {
      if (!trouble.excuses("all", begun)) verdict.violation(`a WebSocket did not open: ${response.statusCode}`);
      response.resume();
    });
    request.on("upgrade", (_, socket) => {
      socket.setTimeout(0);
      this.#socket = socket;
      this.isOpen = true;
      verdict.count("WebSockets");
      socket.on("error", () => {});
      socket.on("close", () => {
        this.isOpen = false;
        clearInterval(this.#timer);
      });
      socket.on("data", (frame) => {
        if ((frame[0] & 0x0f) !== 1) return;
        if (!this.#awaited || !frame.subarray(2, 2 + frame[1]).equals(this.#awaited)) verdict.violation("a WebSocket's message came back changed");
        this.#awaited = null;
        verdict.count("WebSocket messages");
      });
      this.#timer = setInterval(() => this.#send(), 1000);
    });
    request.end();
  }

  #send() {
    // The previous message has not returned, because of a fault or the end of the session.
    if (this.#awaited) return;
    const text = Buffer.from(randomBytes(20).toString("hex"));
    const mask = randomBytes(4);
    this.#awaited = text;
    this.#socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length]), mask, Buffer.from(text.map((byte, index) => byte ^ mask[index % 4]))]));
  }

  close() {
    clearInterval(this.#timer);
    this.#socket?.destroy();
  }
}
