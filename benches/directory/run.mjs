// Processor time of a sign-in with the password of a directory (OpenLDAP over TLS), compared with one
// of a local user. The two alternate in each round.
//
//   make bench-directory [ROUNDS=9] [SIGN_INS=20] [PROGRAM=target/optimized/sealgate]

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { Agent, request as httpRequest } from "node:http";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { listens, root, softHsm, start, work } from "../bed.mjs";
import { median, processorTime } from "../measure.mjs";

const rounds = Number(process.env.ROUNDS ?? 9);
const signIns = Number(process.env.SIGN_INS ?? 20);
const program = process.env.PROGRAM ?? `${root}/target/optimized/sealgate`;
const BASE = "dc=example,dc=test";
const [port, adminPort, ldapPort] = await freePorts(3);
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

const directory = startDirectory();
const hsm = softHsm();
writeFileSync(`${work}/ldap.password`, "service password", { mode: 0o600 });
writeFileSync(`${work}/sealgate.toml`, `issuer = "http://localhost:${port}"
[server]
listen = ["127.0.0.1:${port}"]
[admin]
listen = "127.0.0.1:${adminPort}"
socket = "${work}/admin.sock"
${hsm}[store]
path = "${work}/store"
[rate_limits]
pages = "none"
sign_ins = "none"
[[directory]]
name = "corp"
kind = "ldap"
servers = ["ldaps://localhost:${ldapPort}"]
ca_file = "${work}/slapd.pem"
default = true
[directory.bind]
dn = "cn=sealgate,${BASE}"
password_file = "${work}/ldap.password"
[directory.users]
base = "${BASE}"
[directory.groups]
base = "${BASE}"
`);
const run = (words, input) => execFileSync(program, [...words, "--config", `${work}/sealgate.toml`], { input, stdio: ["pipe", "ignore", "inherit"] });
run(["key", "generate"]);
run(["user", "add", "local@example.org", "--name", "Local", "--username", "local", "--password-stdin"], "correct horse battery staple");
const server = start(program, ["serve", "--config", `${work}/sealgate.toml`]);
await listens(port);

const cases = { local: ["local", "correct horse battery staple"], directory: ["anna", "password of anna"] };
const results = { local: [], directory: [], slapd: [] };
for (const name of Object.keys(cases)) await signInSome(name, 5);
for (let round = 0; round < rounds; round += 1) {
  const order = round % 2 ? ["directory", "local"] : ["local", "directory"];
  for (const name of order) {
    const { own, other } = await signInSome(name, signIns);
    results[name].push(own);
    if (name === "directory") results.slapd.push(other);
  }
}
const ratios = results.directory.map((cpu, round) => cpu / results.local[round]);
console.log(`${new Date().toISOString().slice(0, 10)}, make bench-directory ROUNDS=${rounds} SIGN_INS=${signIns}, ${program.replace(root, "")}\n`);
console.log("| sign-in, with its pages | processor time of Sealgate, ms |\n|-|-|");
console.log(`| local user | ${median(results.local).toFixed(2)} |`);
console.log(`| user of a directory | ${median(results.directory).toFixed(2)} (and ${median(results.slapd).toFixed(2)} of slapd) |`);
console.log(`\nratio within a round: median ${median(ratios).toFixed(3)} (${Math.min(...ratios).toFixed(3)} to ${Math.max(...ratios).toFixed(3)})`);
process.exit(0);

/// Signs in sequentially, each time in a new browser. Returns milliseconds of processor time per
/// sign-in of the server and of slapd.
async function signInSome(name, count) {
  const [own, other] = [processorTime(server.pid), processorTime(directory.pid)];
  for (let number = 0; number < count; number += 1) await signIn(...cases[name]);
  const each = (now, before) => (now - before) / count / 1e6;
  return { own: each(processorTime(server.pid), own), other: each(processorTime(directory.pid), other) };
}

async function signIn(name, password) {
  const cookies = new Map();
  const ask = async (path, body) => {
    const answer = await exchange(path, [...cookies].map(([key, value]) => `${key}=${value}`).join("; "), body);
    for (const cookie of answer.headers["set-cookie"] ?? []) {
      const [, key, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(key, value);
    }
    return answer;
  };
  const pathOf = (address) => new URL(address, `http://localhost:${port}`).href.replace(/^http:\/\/[^/]+/, "");
  let answer = await ask("/account");
  while (answer.headers.location) answer = await ask(pathOf(answer.headers.location));
  const action = /<form [^>]*action="([^"]*)"/.exec(answer.text)[1].replaceAll("&#38;", "&");
  const fields = [...answer.text.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, key, value]) => [key, value]);
  answer = await ask(pathOf(action), new URLSearchParams([...fields, ["email", name], ["password", password]]).toString());
  assert.equal(answer.status, 303, answer.text);
}

function exchange(path, cookie, body) {
  const form = body === undefined ? {} : { "content-type": "application/x-www-form-urlencoded", "content-length": Buffer.byteLength(body) };
  const headers = { host: `localhost:${port}`, accept: "text/html", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "same-origin", ...form };
  if (cookie) headers.cookie = cookie;
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, path, method: body === undefined ? "GET" : "POST", headers, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => { text += chunk; });
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

/// Starts OpenLDAP with one user and one group.
function startDirectory() {
  const slapd = execFileSync("sh", ["-c", "command -v slapd"], { encoding: "utf8" }).trim();
  // The package may be unpacked in a directory.
  const unpacked = dirname(dirname(dirname(realpathSync(slapd))));
  const files = existsSync(`${unpacked}/etc/ldap/schema`) ? unpacked : "";
  const env = { LD_LIBRARY_PATH: `${files}/usr/lib/x86_64-linux-gnu` };
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
    "-addext", "subjectAltName=DNS:localhost", "-keyout", `${work}/slapd.key`, "-out", `${work}/slapd.pem`], { stdio: "ignore" });
  chmodSync(`${work}/slapd.key`, 0o600);
  mkdirSync(`${work}/ldap`);
  const schemas = ["core", "cosine", "inetorgperson"].map((name) => `include ${files}/etc/ldap/schema/${name}.schema\n`).join("");
  writeFileSync(`${work}/slapd.conf`, `${schemas}modulepath ${files}/usr/lib/ldap
moduleload back_mdb
TLSCertificateFile ${work}/slapd.pem
TLSCertificateKeyFile ${work}/slapd.key
database mdb
suffix "${BASE}"
directory ${work}/ldap
dbnosync
index uid,mail,member,entryUUID eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=sealgate,${BASE}" read by * none
`);
  writeFileSync(`${work}/entries.ldif`, `dn: ${BASE}
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: cn=sealgate,${BASE}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: sealgate
userPassword: service password

dn: uid=anna,${BASE}
objectClass: inetOrgPerson
uid: anna
cn: anna
sn: anna
mail: anna@example.test
userPassword: password of anna

dn: cn=staff,${BASE}
objectClass: groupOfNames
cn: staff
member: uid=anna,${BASE}
`);
  execFileSync(slapd, ["-Ta", "-q", "-f", `${work}/slapd.conf`, "-l", `${work}/entries.ldif`], { env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "inherit"] });
  return start(slapd, ["-d", "0", "-h", `ldaps://127.0.0.1:${ldapPort}/`, "-f", `${work}/slapd.conf`], env);
}
