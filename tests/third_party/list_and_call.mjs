// Lists the tools of an MCP server on stdio and calls each once, with the official TypeScript SDK.
// Arguments: a JSON file with {command, args, env, calls: {tool: arguments}}.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const given = JSON.parse(readFileSync(process.argv[2], "utf8"));
const client = new Client({ name: "typescript", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command: given.command, args: given.args, env: given.env }));
const { tools } = await client.listTools();
const results = {};
for (const tool of tools) {
  const answer = await client.callTool({ name: tool.name, arguments: given.calls[tool.name] ?? {} });
  results[tool.name] = {
    schema: tool.inputSchema?.type,
    described: Boolean(tool.description),
    error: Boolean(answer.isError),
    text: answer.content.map((part) => part.text ?? "").join("\n"),
  };
}
await client.close();
console.log(JSON.stringify(results));
