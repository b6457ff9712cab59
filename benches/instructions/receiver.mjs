// Accepts traces by OTLP on a port of loopback, and discards them: node receiver.mjs PORT
import { createServer } from "node:http";

createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(200, { "Content-Type": "application/json" }).end("{}"));
}).listen(Number(process.argv[2]), "127.0.0.1");
