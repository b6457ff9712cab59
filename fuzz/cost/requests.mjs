// Requests of clients without credentials, and changes that may make them dearer.

/// Pieces of texts that some part of the server treats specially, by the place where they occur.
const PIECES = {
  path: [
    "/", "/a", "/A", "a", ".", "..", "~1", "/se~1", "/SE~1.", ":", "%20", "%2F", "%252F", "%5C", "%3B", ";", "%25", "%41", "%3F", "%23", "/section-9999",
    // Letters that fold to other letters: ş, ﬃ, ﷺ (to 18), full-width /, İ, combining marks.
    "%C5%9F", "%EF%AC%83", "%EF%B7%BA", "%EF%BC%8F", "%C4%B0", "%CC%81", "%E0%A4%95%E0%A4%BC", "%F0%9D%92%9C", "%FE", "%E2%80%8B", "%EF%BC%A1", "/%EF%BC%8E",
  ],
  query: ["&", "a=b&", "=", "%26", "%C5%9F", "%", "%00", "+", "scope=", "&scope=openid", "&resource=https://a.test", "&lang=tr", "&state=x", "&prompt=none", "&acr_values=2", "&claims=%7B%22a%22%3A", "%5B"],
  value: [
    ",", ", ", ";", "; ", "=", "\"", "\\\"", " ", "\t", ".", "a", "A", "-", "_", "/", "*/*,", ";q=0.1,", "q=0.1", "tr-TR,", "en;q=0.9,", "gzip,", "eyJ", "eyJ.", "Bearer ", "Basic ", "a=b; ", "x=; ",
    "__Host-sealgate=", "sealgate=", "close, ", "x-a, ", "https://", "127.0.0.1, ", "[::1], ", "for=1;", "W/\"a\", ", "bytes=0-1,", "%C5%9F", "\xc5\x9f", "\xff", "websocket, ", "{\"a\":", "[", "W10",
  ],
  body: ["&", "a=b&", "=", "%26", "%C5%9F", "+", "&grant_type=", "&client_id=bench", "&scope=openid", "{\"a\":", "[", "\"", "\\u0130", ",", "\n", "\xff", "eyJ", ".", "A"],
};

/// Names of fields that the server reads, removes or compares.
const FIELDS = [
  "Accept", "Accept-Language", "Accept-Encoding", "Authorization", "Cookie", "User-Agent", "Referer", "Origin", "Content-Type", "Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version",
  "Sec-WebSocket-Protocol", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-Site", "X-Requested-With", "DPoP", "Depth", "Destination", "If", "If-None-Match", "Range", "Expect", "Via", "Forwarded",
  "X-Forwarded-For", "X-Forwarded-Host", "X_Forwarded_For", "X-HTTP-Method-Override", "X-Method-Override", "traceparent", "tracestate", "Access-Control-Request-Method", "Access-Control-Request-Headers",
  "X-Original-URL", "X-Remote-User", "Remote_User", "TE", "Trailer", "Priority", "Content-Encoding", "Signature", "X-A", "x_a", "x.a", "Proxy-Authorization", "Pragma", "Date",
];

const METHODS = ["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE", "PROPFIND", "COPY", "MOVE", "LOCK", "PURGE", "get"];
const SIZES = [1, 3, 8, 40, 200, 1000, 4000, 16_000, 31_000];

/// Random numbers from a seed, so that a run can be repeated (mulberry32).
export function random(seed) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit) => Math.floor(next() * limit);
  return { below, pick: (list) => list[below(list.length)] };
}

/// Returns a changed copy of a request.
export function changed(request, { below, pick }) {
  const made = { ...request, fields: request.fields.map((field) => [...field]) };
  for (let steps = 1 + below(3); steps > 0; steps -= 1) change(made, { below, pick });
  return made;
}

function change(request, { below, pick }) {
  const fields = request.fields;
  const [path, query] = split(request.target);
  switch (below(13)) {
    case 0:
      request.method = pick(METHODS);
      return;
    case 1:
    case 2:
      request.target = path.slice(0, 1) + text(path.slice(1), PIECES.path) + (query === undefined ? "" : `?${query}`);
      return;
    case 3:
      request.target = `${path}?${text(query ?? "", PIECES.query)}`;
      return;
    case 4:
      if (request.body) request.body = text(request.body, PIECES.body).slice(0, 65_000);
      return;
    // The framing of the body.
    case 12:
      if (!request.body) return;
      request.chunk = pick([0, 1, 2, 20, 1000]);
      request.extension = pick(["", "", ";a", `;a=${"b".repeat(pick([20, 4000]))}`]);
      return;
    case 5: {
      const field = [pick(FIELDS), text("", PIECES.value)];
      fields.splice(1 + below(fields.length), 0, field);
      return;
    }
    // Many fields: copies of one, or different names.
    case 6: {
      const [name, value] = pick(fields.slice(1).concat([["X-A", "b"]]));
      const numbered = below(2) === 1;
      for (let count = pick([2, 10, 60, 200]); count > 0; count -= 1) fields.push([numbered ? `${name}${pick(["-", "_", ""])}${count}` : name, value]);
      return;
    }
    case 7:
      if (fields.length > 1) fields.splice(1 + below(fields.length - 1), 1 + below(fields.length / 2));
      return;
    default: {
      if (fields.length === 1) return;
      const field = fields[1 + below(fields.length - 1)];
      field[1] = text(field[1], PIECES.value).trim();
    }
  }

  /// Inserts, repeats, removes or replaces a part of a text.
  function text(old, pieces) {
    const at = below(old.length + 1);
    const end = at + below(Math.min(old.length - at, 2000) + 1);
    const some = below(4) === 0 ? old.slice(at, end) || pick(pieces) : pick(pieces) + (below(3) === 0 ? pick(pieces) : "");
    const size = pick(SIZES);
    switch (below(5)) {
      case 0:
        return old.slice(0, at) + old.slice(end);
      case 1:
        return some.repeat(Math.ceil(size / some.length));
      case 2:
        return old.slice(0, at) + some + old.slice(end);
      default:
        return (old.slice(0, at) + some.repeat(Math.ceil(size / some.length)) + old.slice(at)).slice(0, 32_000);
    }
  }
}

function split(target) {
  const at = target.indexOf("?");
  return at < 0 ? [target] : [target.slice(0, at), target.slice(at + 1)];
}

/// Returns the names of a request and its sizes, for the report.
export function described({ method, target, fields, body = "", chunk = 0 }) {
  const short = (value, size = 60) => (value.length > size ? `${value.slice(0, size)}… (${value.length})` : value);
  const counts = new Map();
  for (const [name, value] of fields) {
    const [count, first] = counts.get(name) ?? [0, value];
    counts.set(name, [count + 1, first]);
  }
  const names = [...counts].slice(0, 12).map(([name, [count, value]]) => `${name}${count > 1 ? ` ×${count}` : ""}: ${short(value, 40)}`);
  return `${method} ${short(target, 90)} | ${names.join(" | ")}${counts.size > 12 ? ` | … ${counts.size} names` : ""}${body ? ` | body ${short(body)}` : ""}${chunk ? ` in chunks of ${chunk}` : ""}`;
}
