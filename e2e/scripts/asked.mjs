// Calls tools that ask the client, with the TypeScript SDK, and prints what came of it
// as one JSON object: the texts of the results and the questions in order.
//
//   node asked.mjs v1|v2 '{"url": …} or {"command": …, "args": […]}' NAME '[["tool", {arguments}], …]'
//
// v1 is @modelcontextprotocol/sdk, which speaks the eras up to 2025-11-25; v2 is
// @modelcontextprotocol/client, held to 2026-07-28.

const [, , generation, targetJSON, name, callsJSON] = process.argv;
const target = JSON.parse(targetJSON);
const calls = JSON.parse(callsJSON);
const info = { name, version: '1.0.0' };
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };
const questions = [];

const answers = {
  'elicitation/create': ({ params }) => {
    questions.push(params.message);
    return params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { who: name, name } };
  },
  'sampling/createMessage': ({ params }) => {
    const text = [params.messages[0].content].flat()[0].text;
    questions.push(text);
    return { role: 'assistant', model: name, content: { type: 'text', text } };
  },
  'roots/list': () => ({ roots: [{ uri: `file:///home/${name}`, name }] }),
};

async function connect() {
  if (generation === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const client = new Client(info, { capabilities });
    client.setRequestHandler(types.ElicitRequestSchema, answers['elicitation/create']);
    client.setRequestHandler(types.CreateMessageRequestSchema, answers['sampling/createMessage']);
    client.setRequestHandler(types.ListRootsRequestSchema, answers['roots/list']);
    await client.connect(target.url
      ? new StreamableHTTPClientTransport(new URL(target.url))
      : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
  await client.connect(target.url
    ? new StreamableHTTPClientTransport(new URL(target.url))
    : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));
  return client;
}

// The servers behind may still be starting: wait until each tool is listed.
async function awaitTools(client, wanted) {
  for (let attempt = 0; ; attempt++) {
    const names = (await client.listTools({})).tools.map(t => t.name);
    const missing = wanted.filter(w => !names.includes(w));
    if (missing.length === 0) return;
    if (attempt > 100) throw new Error(`not listed: ${missing}`);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

const client = await connect();
try {
  await awaitTools(client, calls.map(([tool]) => tool));
  const results = {};
  for (const [tool, args] of calls) {
    const result = await client.callTool({ name: tool, arguments: args });
    results[tool] = result.content.map(c => c.text ?? c.type).join('|');
  }
  console.log(JSON.stringify({ results, questions }));
} finally {
  await client.close();
}
