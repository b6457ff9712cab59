// Browser without scripts: stores cookies by host, follows redirects, signs in and consents.

import http from "node:http";
import https from "node:https";

const { EMAIL, PASSWORD, REDIRECT_URI, SIGNED_OUT_URI } = process.env;
const PATIENCE = 20_000;

/// Resolves application hosts below localhost, which not every resolver supports.
function lookup(host, options, done) {
  if (options.all) done(null, [{ address: "127.0.0.1", family: 4 }]);
  else done(null, "127.0.0.1", 4);
}

/// Sends one request. fetch() is unsuitable: it marks every request as a script's (`Sec-Fetch-Mode: cors`), and
/// servers answer those with 401.
function exchange(url, { method = "GET", headers, body }) {
  return new Promise((resolve, reject) => {
    const form = body === undefined ? {} : { "content-type": "application/x-www-form-urlencoded", "content-length": Buffer.byteLength(body) };
    const options = { method, headers: { ...headers, ...form }, signal: AbortSignal.timeout(PATIENCE) };
    if (url.hostname.endsWith(".localhost")) options.lookup = lookup;
    const request = (url.protocol === "https:" ? https : http).request(url, options, (response) => {
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

export class Browser {
  #cookies = new Map();
  #ends;
  #person;

  /// `ends`: URLs at which it stops without opening them, because the client has no server.
  constructor(ends = [REDIRECT_URI, SIGNED_OUT_URI], person = { email: EMAIL, password: PASSWORD }) {
    this.#ends = ends;
    this.#person = person;
  }

  /// Returns the Cookie header for a host.
  cookies(host) {
    return [...(this.#cookies.get(host) ?? [])].map(([name, value]) => `${name}=${value}`).join("; ");
  }

  async #send(url, options = {}) {
    // Cookies do not distinguish ports (RFC 6265 §8.5).
    const jar = this.#cookies.get(url.hostname) ?? new Map();
    const headers = {
      accept: "text/html",
      "sec-fetch-mode": "navigate",
      "sec-fetch-dest": "document",
      ...options.headers,
    };
    if (jar.size > 0) headers.cookie = this.cookies(url.hostname);
    const response = await exchange(url, { ...options, headers });
    for (const cookie of response.headers["set-cookie"] ?? []) {
      const [, name, value, rest] = /^([^=]+)=([^;]*)(.*)$/.exec(cookie);
      const expires = /expires=([^;]+)/i.exec(rest)?.[1];
      if (/max-age=0(;|$)/i.test(rest) || (expires && new Date(expires) < new Date())) jar.delete(name);
      else jar.set(name, value);
    }
    this.#cookies.set(url.hostname, jar);
    return response;
  }

  /// Follows redirects from a response to the first page or to a URL of the client.
  async #follow(url, response) {
    for (let hops = 0; hops < 15; hops += 1) {
      const { location } = response.headers;
      if (!location) return { url, html: response.text, status: response.status };
      url = new URL(location, url);
      if (this.#ends.some((end) => url.href.startsWith(end))) return { url };
      response = await this.#send(url);
    }
    throw new Error(`the redirects do not end at ${url}`);
  }

  async open(address) {
    const url = new URL(address);
    return this.#follow(url, await this.#send(url));
  }

  async submit(page, fields, headers = {}) {
    const unescape = (text) => text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code)).replace(/&quot;/g, '"').replace(/&amp;/g, "&");
    const attribute = (tag, name) => unescape(new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1] ?? "");
    const form = new URLSearchParams();
    for (const [tag] of page.html.matchAll(/<input [^>]*type="hidden"[^>]*>/g)) form.append(attribute(tag, "name"), attribute(tag, "value"));
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    const url = new URL(attribute(/<form [^>]*>/.exec(page.html)[0], "action"), page.url);
    return this.#follow(url, await this.#send(url, { method: "POST", body: form.toString(), headers }));
  }

  /// Opens a URL and submits the provider's pages in their possible order.
  async pass(address) {
    let page = await this.open(address);
    if (page.html?.includes('id="login-submit"')) page = await this.submit(page, { ...this.#person });
    if (page.html?.includes('id="consent-allow"')) page = await this.submit(page, { "consent-allow": "yes", offline_access: "true" });
    // In a browser, the script of this page submits it immediately.
    if (page.html?.includes('id="return-submit"')) page = await this.submit(page, {});
    if (page.html?.includes('id="logout-confirm"')) page = await this.submit(page, {});
    return page;
  }

  /// Does the same as pass(), and returns the URL of the client at which it ends.
  async go(address) {
    const page = await this.pass(address);
    if (page.html !== undefined) throw new Error(`stopped at ${page.url} (${page.status}): ${page.html}`);
    return page.url;
  }
}

/// Waits until a relying party's server responds.
export async function listening(address) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    try {
      await fetch(address, { redirect: "manual", signal: AbortSignal.timeout(2000) });
      return;
    } catch (error) {
      if (Date.now() > deadline) throw new Error(`nothing answers at ${address}`, { cause: error });
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}
