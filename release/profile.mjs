// Loads a program that counts its own calls and branches, and merges the counts for the optimized build. Started by
// release/profile.sh. The load is the one of the benchmarks: requests with tokens and to public paths, over HTTP/1.1 and HTTP/2,
// with and without TLS, new connections, refreshes and sign-ins.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { freePorts } from "../tests/support/free_ports.mjs";
import { gatedOverTls } from "../benches/all/gated_tls.mjs";
import { certificate, filled, listens, root, start, work } from "../benches/bed.mjs";
import { h2load, wrk } from "../benches/measure.mjs";
import { accessTokens, provider, signIn } from "../benches/provider.mjs";

const seconds = Number(process.env.SECONDS ?? 4);
const [TOKENS, CONNECTIONS, CLIENTS] = [200, 64, 16];
const host = "app.localhost";
const threads = availableParallelism();
const [upstream] = await freePorts(1);
const files = certificate();

start("nginx", ["-p", work, "-c", filled(`${root}/benches/gate/nginx.conf`, { UPSTREAM: upstream, BODY: "x".repeat(1024) })]);
await listens(upstream);
const plain = await server("plain");
const secure = await server("secure", files);
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
for (const each of [plain, secure]) {
  each.tokens = await accessTokens(each.issuer, TOKENS);
  each.file = `${work}/${each.port}.tokens`;
  writeFileSync(each.file, each.tokens.join("\n"));
}
writeFileSync(`${work}/none`, "none");

const load = { host, pid: process.pid, connections: CONNECTIONS, duration: seconds };
wrk({ ...load, url: `http://127.0.0.1:${plain.port}/api/`, tokens: plain.file });
wrk({ ...load, url: `http://127.0.0.1:${plain.port}/open/`, tokens: `${work}/none` });
const gated = { port: secure.port, child: secure.child, path: "/api/", tokens: secure.file, token: secure.tokens[0] };
gatedOverTls({ cases: { gated }, host, certificate: files.certificate, connections: CONNECTIONS, rounds: 1, seconds });
const open = { ...load, url: `https://127.0.0.1:${secure.port}/open/` };
wrk({ ...open, tokens: `${work}/none` });
h2load(open);
wrk({ ...open, tokens: `${work}/none`, headers: ["Connection: close"] });
const families = [];
while (families.length <= CLIENTS) families.push((await signIn(plain.issuer)).refresh_token);
writeFileSync(`${work}/families`, families.join("\n"));
wrk({ ...load, url: `${plain.issuer}/oauth/token`, host: new URL(plain.issuer).host, tokens: `${work}/families`, script: "refresh.lua", connections: CLIENTS });
for (const { child } of [plain, secure]) {
  const ended = new Promise((resolve) => child.on("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}
process.exit(0);

async function server(name, tls) {
  const [port, adminPort] = await freePorts(2);
  const application = "max_requests_per_client = 1024\n";
  const made = provider({ issuerPort: port, adminPort, upstream, threads, tls, application, directory: `${work}/${name}` });
  return { port, issuer: made.issuer, child: await made.start({ filter: "info" }) };
}
