// TLS and HTTP/2 compared with other proxies in front of the same upstream. Cases alternate; prints
// ratios within a round.
//
//   make bench-tls [ROUNDS=7] [SECONDS=3] [THREADS=2] [ONLY=handshakes]
//
// ONLY=handshakes leaves out the other proxies, which concern HTTP.
//
// The load generator, the upstream and the measured program share the machine, so absolute figures
// mean less than ratios. All serve a public path with a P-256 certificate and write no log.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { certificate as makeCertificate, filled, listens, measured, printMedians, printRatios, root, run, runAt, softHsm, start, work } from "../bed.mjs";
import { h2load, processorTime, wrk } from "../measure.mjs";

const here = new URL(".", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 7);
const seconds = Number(process.env.SECONDS ?? 3);
const threads = Number(process.env.THREADS ?? availableParallelism());
const CONNECTIONS = 64;
let tokenHandshakes = 0;

const [issuerPort, adminPort, tokenPort, tokenAdminPort, upstream, bare, haproxy, nginx] = await freePorts(8);

const { certificate, key } = makeCertificate();
writeFileSync(`${work}/tokens`, "none");

const values = { UPSTREAM: upstream, HAPROXY: haproxy, NGINX: nginx, THREADS: threads, BODY: "x".repeat(1024) };
start("nginx", ["-p", work, "-c", filled(`${root}/benches/gate/nginx.conf`, values)]);
const servers = {
  Sealgate: { port: issuerPort, child: startSealgate() },
  "bare Pingora": { port: bare, child: start(`${root}/target/dist/examples/bare_proxy`, [`127.0.0.1:${bare}`, `127.0.0.1:${upstream}`, String(threads), certificate, key]) },
  HAProxy: { port: haproxy, child: start("haproxy", ["-f", filled(`${here}/haproxy.cfg`, values)]) },
  nginx: { port: nginx, child: start("nginx", ["-p", work, "-c", filled(`${here}/nginx-tls.conf`, values)]) },
};
const token = { port: tokenPort, child: startSealgateWithTokenKey() };
for (const { port } of [...Object.values(servers), token]) await listens(port, "https");
for (const { port } of [...Object.values(servers), token]) answers(port);

const kinds = {
  "HTTP/1.1": ({ port, child }, duration) => wrk({ url: `https://127.0.0.1:${port}/`, host: "app.localhost", tokens: `${work}/tokens`, pid: child.pid, connections: CONNECTIONS, duration }),
  "HTTP/2": ({ port, child }, duration) => h2load({ url: `https://127.0.0.1:${port}/`, host: "app.localhost", pid: child.pid, connections: CONNECTIONS, duration }),
  "a handshake a request": ({ port, child }, duration) =>
    wrk({ url: `https://127.0.0.1:${port}/`, host: "app.localhost", tokens: `${work}/tokens`, pid: child.pid, connections: CONNECTIONS, duration, headers: ["Connection: close"] }),
};
console.log(`${new Date().toISOString().slice(0, 10)}, make bench-tls ROUNDS=${rounds} SECONDS=${seconds} THREADS=${threads}, release with counts`);
const shown = process.env.ONLY === "handshakes" ? {} : kinds;
console.log(`${rounds} rounds of ${seconds} s, ${CONNECTIONS} connections (10 streams each over HTTP/2), ${availableParallelism()} cores shared with the load and the upstream`);
for (const [kind, load] of Object.entries(shown)) {
  const results = measured(servers, rounds, (server, duration = seconds) => load(server, duration));
  console.log(`\n${kind}\n`);
  printMedians(results, [["requests/s", "rate", 0], ["processor time per request, µs", "cpu", 1]]);
  printRatios(results, Object.keys(servers).slice(1).map((peer) => ["Sealgate", peer]));
}

// The clients of the case above resume sessions, for which the server needs no signature.
const signed = signatures();
const full = measured({ "key in a file": servers.Sealgate, "key in SoftHSM": token }, rounds, (server, duration = seconds) => handshakes(server, duration));
const share = (signatures() - signed) / tokenHandshakes;
assert.ok(share > 0.99, `the token signed ${share} of the handshakes`);
console.log("\na full handshake a request (openssl s_time -new)\n");
printMedians(full, [["handshakes/s", "rate", 0], ["processor time per handshake, µs", "cpu", 1]]);
printRatios(full, [["key in SoftHSM", "key in a file"]]);

const groups = measured({ X25519MLKEM768: "X25519MLKEM768", X25519: "X25519" }, rounds, (group, duration = seconds) => exchanges(servers.Sealgate, group, duration));
console.log("\na full handshake a request, by key exchange group (Go)\n");
printMedians(groups, [["handshakes/s", "rate", 0], ["processor time per handshake, µs", "cpu", 1]]);
printRatios(groups, [["X25519MLKEM768", "X25519"]]);
process.exit(0);

/// Runs eight clients that offer one key exchange group and never resume a session.
function exchanges({ port, child }, group, duration) {
  const before = processorTime(child.pid);
  const client = `${process.env.CARGO_TARGET_DIR ?? `${root}/target`}/tools/bin/handshakes`;
  const count = Number(execFileSync(client, [`127.0.0.1:${port}`, group, "8", String(duration)], { encoding: "utf8" }));
  return { rate: count / duration, cpu: (processorTime(child.pid) - before) / count / 1000 };
}

/// Runs eight clients that never resume a session.
function handshakes({ port, child }, duration) {
  const CLIENTS = 8;
  const before = processorTime(child.pid);
  const client = `openssl s_time -connect 127.0.0.1:${port} -new -time ${duration} -www "$HEAD" 2>&1 &`;
  // s_time puts the path into an HTTP/1.0 request line, so the path contains the rest of the head.
  const HEAD = "/ HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\nX-Rest: ";
  const out = execFileSync("sh", ["-c", `${client.repeat(CLIENTS)} wait`], { encoding: "utf8", env: { ...process.env, HEAD } });
  const spent = processorTime(child.pid) - before;
  const all = [...out.matchAll(/(\d+) connections in \d+ real seconds, (\d+) bytes/g)];
  assert.ok(all.length === CLIENTS && all.every(([, , bytes]) => bytes > 1024), `port ${port}: ${out.slice(-500)}`);
  const count = all.reduce((sum, [, connections]) => sum + Number(connections), 0);
  if (port === tokenPort) tokenHandshakes += count;
  return { rate: count / duration, cpu: spent / count / 1000 };
}

/// Returns the number of handshakes that the token has signed.
function signatures() {
  const metrics = execFileSync("curl", ["-s", `http://127.0.0.1:${tokenAdminPort}/metrics`], { encoding: "utf8" });
  return Number(/^sealgate_tls_sign_seconds_count (\d+)/m.exec(metrics)[1]);
}

/// Checks that a server returns the application's response over both protocols.
function answers(port) {
  for (const protocol of ["1.1", "2"]) {
    const out = execFileSync("curl", ["-sk", `--http${protocol}`, "-w", " %{http_version} %{http_code}", "-H", "Host: app.localhost", `https://127.0.0.1:${port}/`], { encoding: "utf8" });
    assert.equal(out, `${values.BODY} ${protocol} 200`, `port ${port}`);
  }
}

function startSealgate() {
  configure(work, issuerPort, adminPort, `{ certificate = "${certificate}", key = "${key}" }`);
  run("key", "generate");
  return start(`${root}/target/optimized/sealgate`, ["serve", "--config", `${work}/sealgate.toml`]);
}

/// Starts another Sealgate, with a TLS key in SoftHSM. The certificate of the first one signs its
/// certificate.
function startSealgateWithTokenKey() {
  const directory = `${work}/token-key`;
  mkdirSync(directory);
  configure(directory, tokenPort, tokenAdminPort, `{ certificate = "${directory}/tls.pem", key = "pkcs11:object=tls" }`);
  // Every command checks the file; the certificate is issued below.
  copyFileSync(certificate, `${directory}/tls.pem`);
  runAt(directory, "key", "generate");
  runAt(directory, "key", "generate-tls-key", "tls");
  const request = execFileSync(`${root}/target/optimized/sealgate`, ["key", "request-certificate", "tls", "app.localhost", "--config", `${directory}/sealgate.toml`]);
  const issue = ["x509", "-req", "-days", "2", "-copy_extensions", "copy", "-CA", certificate, "-CAkey", key, "-CAcreateserial", "-out", `${directory}/tls.pem`];
  execFileSync("openssl", issue, { input: request, stdio: ["pipe", "ignore", "ignore"] });
  return start(`${root}/target/optimized/sealgate`, ["serve", "--config", `${directory}/sealgate.toml`]);
}

// The load has one address. The other proxies have no limit for one client.
function configure(directory, port, admin, tls) {
  writeFileSync(
    `${directory}/sealgate.toml`,
    `issuer = "https://localhost:${port}"
[server]
listen = ["127.0.0.1:${port}"]
threads = ${threads}
tls = ${tls}
[admin]
listen = "127.0.0.1:${admin}"
socket = "${directory}/admin.sock"
${softHsm(directory)}[store]
path = "${directory}/store"
[log]
filter = "warn"
[[app]]
name = "application"
host = "app.localhost"
upstreams = ["http://127.0.0.1:${upstream}"]
max_requests_per_client = 1024
[[app.route]]
path = "/"
access = "public"
`,
  );
}
