// A browser without scripts: keeps cookies by host, follows redirects, signs in and allows. Yields the address that a
// sign-in ends at.

const { EMAIL, PASSWORD, REDIRECT_URI, SIGNED_OUT_URI } = process.env;

export class Browser {
  #cookies = new Map();

  async #send(url, options = {}) {
    const jar = this.#cookies.get(url.hostname) ?? new Map();
    const headers = {
      accept: "text/html",
      "sec-fetch-mode": "navigate",
      "sec-fetch-dest": "document",
      ...options.headers,
    };
    if (jar.size > 0) headers.cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { ...options, headers, redirect: "manual" });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value, rest] = /^([^=]+)=([^;]*)(.*)$/.exec(cookie);
      if (/Max-Age=0/.test(rest)) jar.delete(name);
      else jar.set(name, value);
    }
    this.#cookies.set(url.hostname, jar);
    return response;
  }

  /// Follows redirects from a response to the first page, or to an address of the client.
  async #follow(url, response) {
    for (let hops = 0; hops < 15; hops += 1) {
      const location = response.headers.get("location");
      if (!location) return { url, html: await response.text(), status: response.status };
      url = new URL(location, url);
      if ([REDIRECT_URI, SIGNED_OUT_URI].some((end) => url.href.startsWith(end))) return { url };
      response = await this.#send(url);
    }
    throw new Error(`the redirects do not end at ${url}`);
  }

  async open(address) {
    const url = new URL(address);
    return this.#follow(url, await this.#send(url));
  }

  async submit(page, fields) {
    const unescape = (text) => text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code)).replace(/&quot;/g, '"').replace(/&amp;/g, "&");
    const attribute = (tag, name) => unescape(new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1] ?? "");
    const form = new URLSearchParams();
    for (const [tag] of page.html.matchAll(/<input [^>]*type="hidden"[^>]*>/g)) form.append(attribute(tag, "name"), attribute(tag, "value"));
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    const url = new URL(attribute(/<form [^>]*>/.exec(page.html)[0], "action"), page.url);
    return this.#follow(url, await this.#send(url, { method: "POST", body: form }));
  }

  /// Goes from an authorization request to the client's address, through the pages that come.
  async go(address) {
    let page = await this.open(address);
    if (page.html?.includes('id="login-submit"')) page = await this.submit(page, { email: EMAIL, password: PASSWORD });
    if (page.html?.includes('id="consent-allow"')) page = await this.submit(page, { "consent-allow": "yes", offline_access: "true" });
    if (page.html?.includes('id="logout-confirm"')) page = await this.submit(page, {});
    if (page.html !== undefined) throw new Error(`stopped at ${page.url} (${page.status}): ${page.html}`);
    return page.url;
  }
}
