// Sends requests byte for byte, over one connection as long as the server keeps it, and measures the
// processor time that the server takes for them.

import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import net from "node:net";

const TIMEOUT = 20_000;

/// Maximum size of a head: `server.header_bytes`.
export const HEAD_BYTES = 32_768;

/// Returns the bytes of a request. Drops fields that exceed the maximum size of a head. With `chunk`, the
/// body has chunks of this many bytes, each with the extension.
export function http1({ method, target, fields, body = "", chunk = 0, extension = "" }) {
  const length = method === "GET" && !body ? "" : `Content-Length: ${Buffer.byteLength(body, "latin1")}\r\n`;
  const framing = chunk ? "Transfer-Encoding: chunked\r\n" : length;
  let head = `${method} ${target} HTTP/1.1\r\n`;
  for (const [name, value] of fields) {
    const line = `${name}: ${value}\r\n`;
    if (head.length + line.length + framing.length + 2 > HEAD_BYTES) break;
    head += line;
  }
  const sent = chunk ? `${body.replaceAll(new RegExp(`[^]{1,${chunk}}`, "g"), (data) => `${data.length.toString(16)}${extension}\r\n${data}\r\n`)}0\r\n\r\n` : body;
  return Buffer.from(`${head}${framing}\r\n${sent}`, "latin1");
}

/// Connection to a server without TLS, which is opened again after the server has closed it.
export class Client {
  #port;
  #socket;
  #buffer = Buffer.alloc(0);
  #closed = true;
  #wake = () => {};

  constructor(port) {
    this.#port = port;
  }

  /// Sends a request and returns the status and the head of the response. The status is 0 if the server
  /// closes the connection without a response.
  async send(bytes, method) {
    await this.ready();
    this.#socket.write(bytes);
    const deadline = setTimeout(() => this.#socket.destroy(), TIMEOUT);
    try {
      return await this.#response(method === "HEAD");
    } finally {
      clearTimeout(deadline);
    }
  }

  close() {
    this.#socket?.destroy();
    this.#closed = true;
  }

  get closed() {
    return this.#closed;
  }

  /// Opens the connection.
  async ready() {
    if (!this.#closed) return;
    const socket = net.connect({ host: "127.0.0.1", port: this.#port, noDelay: true });
    this.#socket = socket;
    this.#buffer = Buffer.alloc(0);
    this.#closed = false;
    socket.on("data", (more) => {
      if (socket !== this.#socket) return;
      this.#buffer = Buffer.concat([this.#buffer, more]);
      this.#wake();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (socket !== this.#socket) return;
      this.#closed = true;
      this.#wake();
    });
    await Promise.race([once(socket, "connect"), once(socket, "close")]);
  }

  async #until(found) {
    for (;;) {
      const at = found();
      if (at >= 0) return at;
      if (this.#closed) return -1;
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }

  async #response(headOnly) {
    const end = await this.#until(() => this.#buffer.indexOf("\r\n\r\n"));
    if (end < 0) return { status: 0, head: "", body: "" };
    const head = this.#buffer.toString("latin1", 0, end + 4);
    const status = Number(head.slice(9, 12));
    let from = end + 4;
    const length = /\r\ncontent-length: (\d+)/i.exec(head);
    if (headOnly || status === 204 || status === 304 || status < 200) {
      // No body.
    } else if (length) {
      await this.#until(() => (this.#buffer.length >= from + Number(length[1]) ? 0 : -1));
      from += Number(length[1]);
    } else if (/\r\ntransfer-encoding: chunked/i.test(head)) {
      const last = await this.#until(() => this.#buffer.indexOf("0\r\n\r\n", from));
      from = last < 0 ? this.#buffer.length : last + 5;
    } else {
      await this.#until(() => -1);
      from = this.#buffer.length;
    }
    const body = this.#buffer.toString("latin1", end + 4, from);
    this.#buffer = this.#buffer.subarray(from);
    // An upgraded connection carries no further requests.
    if (/\r\nconnection: close/i.test(head) || status === 101) this.close();
    return { status, head, body };
  }
}

/// Processor time of a process and its children, nanoseconds, without the threads that hash passwords:
/// their queue is bounded.
export function processorTime(pid) {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const at = `/proc/${pid}/task/${thread}`;
      for (const child of readFileSync(`${at}/children`, "utf8").split(" ").filter(Boolean)) sum += processorTime(child);
      if (readFileSync(`${at}/comm`, "utf8").startsWith("password-")) continue;
      sum += Number(readFileSync(`${at}/schedstat`, "utf8").split(" ")[0]);
    } catch (error) {
      if (error.code !== "ENOENT" && error.code !== "ESRCH") throw error;
    }
  }
  return sum;
}
