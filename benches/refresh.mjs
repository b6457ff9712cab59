// Clients that refresh, and the maximum rate of the token device.

import { execFileSync } from "node:child_process";
import { Agent, request as httpRequest } from "node:http";

/// Refreshes families of refresh tokens, each by its own client without a pause. Returns responses
/// a second and latencies in milliseconds. The clients use the ports in turn. Adds the access
/// tokens to `tokens`.
export async function refreshing({ families, host, ports, tokens = [] }, seconds) {
  const until = performance.now() + seconds * 1000;
  const times = [];
  const agent = new Agent({ keepAlive: true });
  const began = performance.now();
  await Promise.all(
    families.map(async (family, number) => {
      while (performance.now() < until) {
        const sent = performance.now();
        const answer = await token(agent, host, ports[number % ports.length], { grant_type: "refresh_token", refresh_token: family.token });
        times.push(performance.now() - sent);
        family.token = answer.refresh_token;
        tokens.push(answer.access_token);
      }
    }),
  );
  agent.destroy();
  const milliseconds = [...times].sort((a, b) => a - b);
  return { rate: (times.length * 1000) / (performance.now() - began), p50: milliseconds[times.length >> 1], p99: milliseconds[Math.floor(times.length * 0.99)] };
}

/// Requests a token response from the server at a port of this machine.
export function token(agent, host, at, fields) {
  const body = new URLSearchParams({ client_id: "bench", ...fields }).toString();
  const headers = { host, "content-type": "application/x-www-form-urlencoded", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port: at, path: "/oauth/token", method: "POST", headers, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => (response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(`${response.statusCode}: ${text}`))));
    });
    request.on("error", reject);
    request.end(body);
  });
}

/// Signatures a second of threads that only sign, one per session of a server. `module`: SoftHSM by
/// default.
export function signatures(root, module) {
  const env = { ...process.env, ...(module && { SIGNER_MODULE: module }), SIGNER_ROUNDS: "3", SIGNER_SECONDS: "2" };
  const out = execFileSync("cargo", ["bench", "--locked", "--profile", "dist", "--bench", "signer"], { cwd: root, env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return Number(/^median +(\d+)/m.exec(out)[1]);
}
