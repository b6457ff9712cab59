// Two mail servers that accept no mail: one accepts connections and stays silent, one answers every
// mail with 451.

import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { workerData } from "node:worker_threads";

createServer((socket) => socket.on("error", () => {})).listen(workerData.silent, "127.0.0.1");

createServer((socket) => {
  const say = (line) => socket.write(`${line}\r\n`);
  socket.on("error", () => {});
  say("220 mail.test ESMTP");
  createInterface({ input: socket }).on("line", (line) => {
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === "EHLO") say("250 mail.test");
    else if (verb === "NOOP") say("250 ok");
    else if (verb === "QUIT") socket.end("221 bye\r\n");
    else say("451 4.7.1 come again later");
  }).on("error", () => {});
}).listen(workerData.later, "127.0.0.1");
