// The official TypeScript SDK's clients: run the interop script against one target and print what they saw as JSON.
//
// usage: typescript_client.mjs ERA SCRIPT TARGET...   (ERA: legacy | 2026-07-28; TARGET: a URL, or a command)
// The legacy era is spoken by the first generation of the SDK, the modern one by the second.
const [era, script, ...target] = process.argv.slice(2);

async function connect() {
  const info = { name: "typescript-sdk", version: "1" };
  if (era === "legacy") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { CallToolResultSchema } = await import("@modelcontextprotocol/sdk/types.js");
    const client = new Client(info);
    await client.connect(transport(StdioClientTransport, StreamableHTTPClientTransport));
    return [client, (params, options) => client.callTool(params, CallToolResultSchema, options)];
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const client = new Client(info, { versionNegotiation: { mode: { pin: era } } });
  await client.connect(transport(StdioClientTransport, StreamableHTTPClientTransport));
  return [client, (params, options) => client.callTool(params, options)];
}

function transport(Stdio, Http) {
  if (target[0].includes("://")) return new Http(new URL(target[0]));
  return new Stdio({ command: target[0], args: target.slice(1), stderr: "inherit" });
}

async function cutShort(call, step) {
  const abort = new AbortController();
  setTimeout(() => abort.abort("the caller changed its mind"), step.cancel_after * 1000);
  try {
    await call({ name: step.tool, arguments: step.arguments }, { signal: abort.signal });
    return { cancelled: false };
  } catch (error) {
    return { cancelled: abort.signal.aborted, error: String(error) };
  }
}

function filled(given, answers) {
  const value = (each) => (each?.id_of === undefined ? each : answers[each.id_of].structuredContent.delta.id);
  return Object.fromEntries(Object.entries(given).map(([key, each]) => [key, value(each)]));
}

const [client, call] = await connect();
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const answers = [];
for (const step of JSON.parse(script)) {
  if (step.cancel_after !== undefined) answers.push(await cutShort(call, step));
  else answers.push(await call({ name: step.tool, arguments: filled(step.arguments, answers) }));
}
await client.close();
console.log(JSON.stringify({ tools, answers }));
