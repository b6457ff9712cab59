// A server of the Model Context Protocol, made with the official SDK: a tool that returns the user's name, and a tool whose
// answer is an endless stream. GET /ended returns the time at which the last stream ended before its answer.

import { randomUUID } from "node:crypto";
import http from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const sessions = new Map();
let ended = null;

function newServer() {
  const server = new McpServer({ name: "notes", version: "1.0.0" });
  server.registerTool("whoami", { description: "Returns the user of the request." }, ({ requestInfo }) => {
    const { "x-forwarded-user": user, authorization } = requestInfo.headers;
    return { content: [{ type: "text", text: JSON.stringify({ user, authorization }) }] };
  });
  server.registerTool("watch", { description: "Sends progress until the request ends." }, async ({ _meta, signal, sendNotification }) => {
    for (let progress = 1; !signal.aborted && ended === null; progress += 1) {
      await sendNotification({ method: "notifications/progress", params: { progressToken: _meta.progressToken, progress } });
      await new Promise((done) => setTimeout(done, 20));
    }
    return { content: [] };
  });
  return server;
}

async function transport(id) {
  if (id) return sessions.get(id);
  const created = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (session) => sessions.set(session, created),
  });
  await newServer().connect(created);
  return created;
}

http
  .createServer(async (request, response) => {
    if (request.url === "/ended") return response.end(JSON.stringify({ ended }));
    if (request.url === "/reset") return response.end(String((ended = null)));
    const isStream = request.method === "POST";
    response.on("close", () => {
      if (isStream && !response.writableFinished) ended = Date.now();
    });
    const handler = await transport(request.headers["mcp-session-id"]);
    if (!handler) return response.writeHead(404).end();
    return handler.handleRequest(request, response);
  })
  .listen(Number(process.env.MCP_PORT), "127.0.0.1");
