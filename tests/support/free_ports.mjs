// Ports that nobody uses, for servers that are yet to start: below those that the kernel deals out to outgoing connections
// (32768 on, on Linux), of which one may be gone by the time that the server binds it.
//
//   node free_ports.mjs COUNT

import { once } from "node:events";
import { createServer } from "node:net";

const [FIRST, SPAN] = [10_000, 22_000];

export async function freePorts(count) {
  // All are held until the last is found, so that no two are the same.
  const held = [];
  while (held.length < count) {
    const server = createServer();
    try {
      await once(server.listen(FIRST + Math.floor(Math.random() * SPAN), "127.0.0.1"), "listening");
      held.push(server);
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
  const ports = held.map((server) => server.address().port);
  for (const server of held) server.close();
  return ports;
}

if (new URL(import.meta.url).pathname === process.argv[1]) console.log((await freePorts(Number(process.argv[2]))).join(" "));
