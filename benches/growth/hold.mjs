// Opens connections and keeps them until its input ends. Prints `ready` when all are open and have
// received a response.
//
//   node hold.mjs http|https|websocket PORT COUNT

import net from "node:net";
import tls from "node:tls";

const [kind, port, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const request = `GET /open/ HTTP/1.1\r\nHost: app.localhost\r\n${kind === "websocket" ? upgrade : ""}\r\n`;
const expected = kind === "websocket" ? "HTTP/1.1 101 " : "HTTP/1.1 200 ";
const sockets = [];

async function some(most) {
  while (sockets.length < most) await connection();
}

function connection() {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, servername: "app.localhost", rejectUnauthorized: false };
    const socket = kind === "https" ? tls.connect(options) : net.connect(options);
    sockets.push(socket);
    socket.write(request);
    socket.once("data", (answer) => (answer.toString("latin1").startsWith(expected) ? resolve() : reject(new Error(answer.toString("latin1").slice(0, 300)))));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed")));
  });
}

await Promise.all(Array.from({ length: 16 }, () => some(count)));
console.log("ready");
process.stdin.on("end", () => process.exit(0)).resume();
