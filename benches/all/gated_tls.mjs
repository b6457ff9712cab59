// Gated requests over TLS, with client connections that are kept alive: Sealgate, HAProxy and Envoy
// verify the same kind of token, with the same certificate and cipher.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { measured, root, start, work } from "../bed.mjs";
import { processorTime, wrk } from "../measure.mjs";

const CIPHER = "TLS_AES_128_GCM_SHA256";
/// The streams of each connection over HTTP/2.
const STREAMS = 10;

// wrk has no option for ciphers, but OpenSSL reads them from its configuration.
const openssl = `${work}/openssl.cnf`;
writeFileSync(openssl, `openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = client\n[client]\nCiphersuites = ${CIPHER}\nMinProtocol = TLSv1.3\n`);

/// Starts HAProxy with the token checks of benches/gate/haproxy.cfg, over TLS. `words` replaces the
/// configuration's words in capitals.
export function haproxyGate(words) {
  let text = readFileSync(`${root}/benches/gate/haproxy.cfg`, "utf8").replace("bind 127.0.0.1:HAPROXY", "$& ssl crt WORK/pair.pem alpn h2,http/1.1");
  for (const [word, value] of Object.entries({ WORK: work, ...words })) text = text.replaceAll(new RegExp(`\\b${word}\\b`, "g"), value);
  const file = `${work}/haproxy-gate-tls.cfg`;
  writeFileSync(file, text);
  return start("haproxy", ["-f", file]);
}

/// Measures the cases over both protocols. Returns the results of each, by protocol. A case has `port`,
/// `child`, `path`, the file `tokens`, and a `token` of it if it verifies tokens.
export function gatedOverTls({ cases, host, certificate, connections, rounds, seconds }) {
  for (const server of Object.values(cases)) checkServer(server, host);
  const http1 = ({ port, child, path, tokens }, duration = seconds) => {
    const before = process.env.OPENSSL_CONF;
    process.env.OPENSSL_CONF = openssl;
    try {
      return wrk({ url: `https://127.0.0.1:${port}${path}`, host, tokens, pid: child.pid, connections, duration });
    } finally {
      if (before === undefined) delete process.env.OPENSSL_CONF;
      else process.env.OPENSSL_CONF = before;
    }
  };
  const http2 = ({ port, child, path, tokens }, duration = seconds) => {
    const before = processorTime(child.pid);
    const words = [`127.0.0.1:${port}`, certificate, host, path, tokens, connections, STREAMS, duration].map(String);
    const [accepted, others] = execFileSync(process.env.H2_LOAD ?? `${root}/target/dist/examples/h2_load`, words, { encoding: "utf8" }).split(" ").map(Number);
    const cpu = processorTime(child.pid) - before;
    assert.ok(accepted > 0 && others === 0, `port ${port}: ${accepted} accepted, ${others} others`);
    return { rate: accepted / duration, cpu: cpu / accepted / 1000 };
  };
  return { http1: measured(cases, rounds, http1), http2: measured(cases, rounds, http2) };
}

/// Checks over both protocols that a server uses the cipher, answers as the application, and, if it
/// verifies tokens, refuses a forged one and a request without one.
function checkServer({ port, path, token }, host) {
  const client = execFileSync("sh", ["-c", `openssl s_client -connect 127.0.0.1:${port} -ciphersuites ${CIPHER} </dev/null 2>&1`], { encoding: "utf8" });
  assert.match(client, new RegExp(`Cipher is ${CIPHER}`), `port ${port}`);
  const sent = token ? [[`Bearer ${token}`, "200"], [`Bearer ${token.slice(0, -8)}AAAAAAAA`, "401"], ["", "401"]] : [["", "200"]];
  for (const protocol of ["1.1", "2"]) {
    for (const [authorization, status] of sent) {
      const field = authorization ? ["-H", `Authorization: ${authorization}`] : [];
      const said = execFileSync("curl", ["-sk", `--http${protocol}`, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "-H", `Host: ${host}`, ...field, `https://127.0.0.1:${port}${path}`], { encoding: "utf8" });
      assert.equal(said, `${protocol} ${status}`, `port ${port}`);
    }
  }
}
