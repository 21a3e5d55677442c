// Calls tools with large results, with the TypeScript SDK, reads the originals and
// prints what came of it as one JSON object. Texts are printed as their SHA-256.
//
//   node results.mjs v1|v2 URL '[{"tool": NAME, "arguments": {…}, "read": BOOLEAN}, …]'
//
// The client offers its own model, which answers with the length of what it was asked.
// v1 is @modelcontextprotocol/sdk, which speaks the eras up to 2025-11-25; v2 is
// @modelcontextprotocol/client, held to 2026-07-28.

import { createHash } from 'node:crypto';

const [, , generation, url, callsJSON] = process.argv;
const calls = JSON.parse(callsJSON);
const info = { name: 'reader', version: '1.0.0' };
const capabilities = { sampling: {} };
const questions = [];

const sample = ({ params }) => {
  const text = [params.messages[0].content].flat()[0].text;
  questions.push({ characters: text.length, maxTokens: params.maxTokens });
  return { role: 'assistant', model: 'tim', stopReason: 'endTurn', content: { type: 'text', text: `Tim has read ${text.length} characters.` } };
};

async function connect() {
  if (generation === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const client = new Client(info, { capabilities });
    client.setRequestHandler(types.CreateMessageRequestSchema, sample);
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  client.setRequestHandler('sampling/createMessage', sample);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

// The servers behind may still be starting: wait until each tool is listed. The client
// learns the output schemas meanwhile and checks results by them.
async function awaitTools(client, wanted) {
  for (let attempt = 0; ; attempt++) {
    const tools = (await client.listTools({})).tools;
    const missing = wanted.filter(w => !tools.some(t => t.name === w));
    if (missing.length === 0) return tools;
    if (attempt > 100) throw new Error(`not listed: ${missing}`);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

const sum = data => createHash('sha256').update(data).digest('hex');

async function readOriginal(client, handle) {
  const pieces = [];
  for (let args = { handle }; args;) {
    const result = await client.callTool({ name: 'result_read', arguments: args });
    const { text } = result.content[0];
    const note = text.match(/\n\[[^\n]*?bytes (\d+)-(\d+) of \d+[^\n]*\]$/);
    if (result.isError || !note) throw new Error(`result_read: ${text.slice(0, 300)}`);
    pieces.push(Buffer.from(text).subarray(0, note[2] - note[1]));
    const next = text.match(/; continue with (\{.*\})\]$/);
    args = next && { ...JSON.parse(next[1]), handle };
  }
  return { original: sum(Buffer.concat(pieces)), answers: pieces.length };
}

const client = await connect();
try {
  const tools = await awaitTools(client, calls.map(c => c.tool));
  const results = {};
  for (const { tool, arguments: args = {}, read } of calls) {
    const result = await client.callTool({ name: tool, arguments: args });
    const note = result._meta?.['mcp-aggregator/result'] ?? {};
    const out = {
      text: result.content[0].text,
      policy: note.policy,
      uri: note.uri,
      link: result.content.find(c => c.type === 'resource_link')?.uri,
      structured: result.structuredContent !== undefined,
      schema: tools.find(t => t.name === tool).outputSchema !== undefined,
      isError: result.isError === true,
    };
    if (read) {
      Object.assign(out, await readOriginal(client, note.handle));
      out.resource = sum((await client.readResource({ uri: note.uri })).contents[0].text);
    }
    results[tool] = out;
  }
  console.log(JSON.stringify({ results, questions }));
} finally {
  await client.close();
}
