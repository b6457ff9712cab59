// HTTP/2 over TLS, frame by frame (RFC 9113): each request has one header block, whose fields are
// literals without compression, or references to one entry of the dynamic table (RFC 7541).

import { once } from "node:events";
import tls from "node:tls";

const TIMEOUT = 20_000;
const FRAME_BYTES = 16_384;
const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION] = [0, 1, 3, 4, 6, 7, 9];
const [END_STREAM, END_HEADERS, ACK] = [1, 4, 1];
/// Fields of one connection, which HTTP/2 does not have (RFC 9113 §8.2.2).
const OF_CONNECTION = new Set(["connection", "upgrade", "te", "proxy-connection", "keep-alive", "transfer-encoding", "host"]);
/// Maximum size of the decoded fields, with 32 bytes for each field (RFC 9113 §6.5.2).
const LIST_BYTES = 40_960;

/// Returns the header block and the body of a request, and the size of its DATA frames.
export function http2({ method, target, fields, body = "", chunk = 0 }) {
  const host = fields.find(([name]) => name === "Host")?.[1] ?? "localhost";
  const all = [[":method", method], [":scheme", "https"], [":authority", host], [":path", target]];
  for (const [name, value] of fields) if (!OF_CONNECTION.has(name.toLowerCase())) all.push([name.toLowerCase(), value]);
  let size = 0;
  const block = [];
  for (const [name, value] of all) {
    size += name.length + value.length + 32;
    if (size > LIST_BYTES) break;
    // Literal without indexing, with a new name.
    block.push(Buffer.from([0]), string(name), string(value));
  }
  return { block: Buffer.concat(block), body: Buffer.from(body, "latin1"), size: chunk || FRAME_BYTES };
}

/// Encodes a string without Huffman coding (RFC 7541 §5.2).
function string(text) {
  const bytes = Buffer.from(text, "latin1");
  const length = [Math.min(bytes.length, 127)];
  if (bytes.length >= 127) {
    let rest = bytes.length - 127;
    for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

function frame(type, flags, stream, payload) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/// Connection that is opened again after the server has closed it.
export class Http2Client {
  #port;
  #socket;
  #buffer;
  #closed = true;
  #stream;
  #status;
  #ended;
  #wake = () => {};

  constructor(port) {
    this.#port = port;
  }

  get closed() {
    return this.#closed;
  }

  /// Opens the connection.
  async ready() {
    if (!this.#closed) return;
    const socket = tls.connect({ host: "127.0.0.1", port: this.#port, servername: "localhost", rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    [this.#socket, this.#buffer, this.#closed, this.#stream] = [socket, Buffer.alloc(0), false, -1];
    socket.on("data", (more) => socket === this.#socket && this.#read(more));
    socket.on("error", () => {});
    socket.on("close", () => {
      if (socket !== this.#socket) return;
      this.#closed = true;
      this.#wake();
    });
    await Promise.race([once(socket, "secureConnect"), once(socket, "close")]);
    // An initial window of the maximum size, so that no window update is necessary for a stream.
    const settings = Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]);
    socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(SETTINGS, 0, 0, settings), frame(8, 0, 0, Buffer.from([0x7f, 0, 0, 0]))]));
    await this.send(http2({ method: "GET", target: "/", fields: [["Host", "b.localhost"]] }));
  }

  /// Sends a request, with DATA frames of `size` bytes, and returns the status of the response; 0 if
  /// there is none.
  async send({ block, body, size = FRAME_BYTES }) {
    this.#stream += 2;
    [this.#status, this.#ended] = [0, false];
    const frames = [];
    const last = body.length ? 0 : END_STREAM;
    for (let at = 0; at === 0 || at < block.length; at += FRAME_BYTES) {
      const flags = (at + FRAME_BYTES >= block.length ? END_HEADERS : 0) | (at ? 0 : last);
      frames.push(frame(at ? CONTINUATION : HEADERS, flags, this.#stream, block.subarray(at, at + FRAME_BYTES)));
    }
    for (let at = 0; at < body.length; at += size) frames.push(frame(DATA, at + size >= body.length ? END_STREAM : 0, this.#stream, body.subarray(at, at + size)));
    this.#socket.write(Buffer.concat(frames));
    const deadline = setTimeout(() => this.#socket.destroy(), TIMEOUT);
    while (!this.#ended && !this.#closed) await new Promise((resolve) => (this.#wake = resolve));
    clearTimeout(deadline);
    return { status: this.#status };
  }

  close() {
    this.#socket?.destroy();
    this.#closed = true;
  }

  #read(more) {
    this.#buffer = Buffer.concat([this.#buffer, more]);
    while (this.#buffer.length >= 9) {
      const length = this.#buffer.readUIntBE(0, 3);
      if (this.#buffer.length < 9 + length) break;
      const [type, flags, stream] = [this.#buffer[3], this.#buffer[4], this.#buffer.readUInt32BE(5)];
      const payload = this.#buffer.subarray(9, 9 + length);
      this.#buffer = this.#buffer.subarray(9 + length);
      if (type === SETTINGS && !(flags & ACK)) this.#socket.write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)));
      if (type === PING && !(flags & ACK)) this.#socket.write(frame(PING, ACK, 0, payload));
      if (type === GOAWAY) this.close();
      if (stream !== this.#stream || stream === 0) continue;
      // The status is the first field: one of the static table, or a literal with an indexed name.
      if (type === HEADERS) this.#status = status(payload);
      if (type === RST_STREAM || (flags & END_STREAM && (type === DATA || type === HEADERS))) this.#ended = true;
    }
    this.#wake();
  }
}

function status(block) {
  // Size updates of the dynamic table come first.
  let at = 0;
  while ((block[at] & 0xe0) === 0x20) at += 1;
  const known = [200, 204, 206, 304, 400, 404, 500][(block[at] & 0x7f) - 8];
  if (block[at] & 0x80) return known ?? 1;
  // Three digits, with or without Huffman coding.
  const text = block.subarray(at + 2, at + 2 + (block[at + 1] & 0x7f));
  return block[at + 1] & 0x80 ? 1 : Number(text.toString("latin1"));
}
