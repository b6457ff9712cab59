// Generates a file for `sealgate import` with any number of users, each with a session, a grant, a
// consent and an event.

import { createHash, randomBytes } from "node:crypto";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";

const DAY = 86_400;

/// Adds users to an export with one user, whose password all get, and the client `bench`. Returns
/// refresh tokens of users that are evenly distributed.
///
/// `groups`: number of groups that the users are in, one each.
export function people({ exported, file, count, tokens, groups = 0 }) {
  const lines = readFileSync(exported, "utf8").trimEnd().split("\n");
  const found = (table) => lines.map((line) => JSON.parse(line)).find((record) => record.table === table);
  const [model, { version }] = [found("user").value, found("user")];
  const { incarnation } = found("client").value;
  const now = Math.floor(Date.now() / 1000);
  const out = openSync(file, "w");
  const digest = createHash("sha256");
  let records = 0;
  let text = "";
  const flush = () => {
    digest.update(text);
    writeSync(out, text);
    text = "";
  };
  const say = (line) => {
    text += `${line}\n`;
    if (text.length > 1 << 20) flush();
  };
  const write = (table, key, value) => {
    const name = Buffer.concat(key.map((part) => Buffer.from(part))).toString("base64url");
    say(JSON.stringify(value === undefined ? { table, key: name } : { table, key: name, version, value }));
    records += 1;
  };
  const expiry = (at, record) => {
    const minute = Buffer.alloc(4);
    minute.writeUInt32BE(Math.floor(at / 60) + 10);
    write("expiry", [minute, ...record]);
  };

  say(lines[0]);
  for (const line of lines.slice(1, -1)) {
    say(line);
    records += 1;
  }
  const kept = [];
  for (let number = 0; number < count; number += 1) {
    const subject = uuid();
    const sub = subject.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    const email = `person.${number}@example.test`;
    write("user", [subject], { ...model, sub, email, name: `Person ${number}`, groups: groups ? [`group-${number % groups}`] : [], created_at: now, updated_at: now });
    write("email", [sha256(email)], sub);

    const session = randomBytes(16);
    const [sid, expires_at] = [session.toString("base64url"), now + 7 * DAY];
    const steps = [{ at: now, method: "password" }];
    write("session", [session], {
      address: "192.0.2.1", cookie: randomBytes(32).toString("base64url"), created_at: now, expires_at, id: sid, idle_seconds: 7 * DAY,
      last_seen_at: now, previous: null, sign_ins: [{ steps, subject: sub }], user_agent: "Firefox",
    });
    write("index", ["u", subject, "s", session]);
    expiry(expires_at, ["s", session]);

    const key = randomBytes(16);
    const grant = sha256(key).subarray(0, 16);
    const wire = `RT_${Buffer.concat([key, Buffer.alloc(4), randomBytes(32)]).toString("base64url")}`;
    const scope = "openid offline_access";
    const until = now + 30 * DAY;
    write("grant", [grant], {
      acr: "1", amr: ["pwd"], auth_time: now, client: "bench", created_at: now, expires_at: until, id: grant.toString("base64url"),
      refresh: { current: sha256(wire).toString("base64url"), expires_at: until, generation: 0 }, scope, session: sid,
      state: { state: "active" }, subject: sub,
    });
    write("index", ["u", subject, "g", grant]);
    write("index", ["c", "bench", [0], "g", grant]);
    expiry(until, ["g", grant]);
    write("consent", [subject, "bench"], { at: now, client: "bench", incarnation, scope, subject: sub });

    // The newest events sort first.
    const event = Buffer.concat([complement(time(now)), randomBytes(8)]);
    write("audit", [event], { actor: "person", address: "192.0.2.1", at: now, client: "bench", count: 1, detail: "password", kind: "signed_in", session: sid, subject: sub });
    write("index", ["u", subject, "j", event]);
    write("index", ["c", "bench", [0], "j", event]);
    write("index", ["a", "p", complement(event)]);
    if (number % Math.max(1, Math.floor(count / tokens)) === 0 && kept.length < tokens) kept.push(wire);
  }
  flush();
  writeSync(out, `${JSON.stringify({ records, sha256: digest.digest("hex") })}\n`);
  closeSync(out);
  return kept;
}

function sha256(what) {
  return createHash("sha256").update(what).digest();
}

function uuid() {
  const bytes = randomBytes(16);
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  return bytes;
}

function time(seconds) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(seconds));
  return bytes;
}

function complement(bytes) {
  return bytes.map((byte) => 255 - byte);
}
