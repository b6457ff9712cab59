// Prints unused ports for servers that will be started. They are below the kernel's range for outgoing
// connections (from 32768 on Linux), whose ports may be taken before the server binds them.
//
//   node free_ports.mjs COUNT

import { once } from "node:events";
import { createServer } from "node:net";

const [FIRST, SPAN] = [10_000, 22_000];

export async function freePorts(count) {
  // Keep all of them bound until the last one is found, so that they differ.
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
