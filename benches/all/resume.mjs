// A client that makes a connection for each request, and resumes the session of the one before. Prints what it did as JSON.
//
//   node resume.mjs PORT SECONDS

import tls from "node:tls";

const [port, seconds] = process.argv.slice(2).map(Number);
const until = performance.now() + seconds * 1000;
const counts = { requests: 0, resumed: 0 };

await Promise.all(Array.from({ length: 16 }, client));
console.log(JSON.stringify(counts));

async function client() {
  let session = await connection(undefined, () => {});
  while (performance.now() < until) {
    session = await connection(session, (resumed) => {
      counts.requests += 1;
      counts.resumed += Number(resumed);
    });
  }
}

/// One request; the session to go on with.
function connection(session, seen) {
  return new Promise((resolve, reject) => {
    let next = session;
    const options = { host: "127.0.0.1", port, servername: "app.localhost", rejectUnauthorized: false, ALPNProtocols: ["http/1.1"], session };
    const socket = tls.connect(options, () => {
      seen(socket.isSessionReused());
      socket.write("GET /open/ HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\n\r\n");
    });
    socket.on("session", (ticket) => (next = ticket));
    socket.on("error", reject);
    socket.on("close", () => resolve(next));
    socket.resume();
  });
}
