// A client of the TypeScript SDK that tries every feature of the server "versatile" behind
// an aggregator, under the prefix s__, and prints what came of each as one JSON object:
// feature → what it saw, and last what it was asked.
//
//   node visitor.mjs v1|v2 '{"url": …} or {"command": …, "args": […]}' MARK
//
// MARK is a path for the server to write down under what becomes of a cancelled call. v1 is
// @modelcontextprotocol/sdk, which speaks the eras up to 2025-11-25; v2 is
// @modelcontextprotocol/client, held to 2026-07-28.

import { existsSync } from 'node:fs';

const [, , generation, targetJSON, mark] = process.argv;
const target = JSON.parse(targetJSON);
const info = { name: 'visitor', version: '1.0.0' };
const capabilities = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: { listChanged: true } };
const asked = [], came = [], progress = [], logged = [];

const text = content => [content].flat().map(c => c.text ?? (c.type === 'tool_use' ? `use ${c.id} ${c.name} ${JSON.stringify(c.input)}`
  : `result of ${c.toolUseId} ${text(c.content)}`)).join('; ');

const answers = {
  'elicitation/create': ({ params }) => {
    asked.push(`${params.mode}: ${params.message} ${params.url ?? JSON.stringify(params.requestedSchema.properties)}`);
    return params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { who: 'Vera' } };
  },
  'sampling/createMessage': ({ params: p }) => {
    asked.push([p.systemPrompt ?? '', ...p.messages.map(m => `${m.role} ${text(m.content)}`), ...(p.tools ?? []).map(t => `tool ${t.name}`),
      ...(p.toolChoice ? [`choose ${p.toolChoice.mode}`] : [])].join(' | '));
    if (!p.toolChoice) return { role: 'assistant', model: 'm1', stopReason: 'endTurn', content: { type: 'text', text: 'pong' } };
    return { role: 'assistant', model: 'm1', stopReason: 'toolUse', content: [{ type: 'text', text: 'both' },
      { type: 'tool_use', id: 'c', name: 'sub', input: { x: 7 } }, { type: 'tool_use', id: 'd', name: 'add', input: { y: 3 } }] };
  },
  'roots/list': () => ({ roots: [{ uri: 'file:///home/v', name: 'home' }, { uri: 'file:///tmp', name: 'tmp' }] }),
};

// Notifications are taken as they come: the SDK's own handler of progress loses what comes
// right before the result.
const heard = {
  'notifications/progress': n => progress.push(n.params.progress),
  'notifications/message': n => logged.push(`${n.params.level} ${n.params.data}`),
  'notifications/tools/list_changed': () => came.push('tools'),
  'notifications/prompts/list_changed': () => came.push('prompts'),
  'notifications/resources/list_changed': () => came.push('resources'),
  'notifications/resources/updated': n => came.push(n.params.uri),
};

async function connectV1() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client(info, { capabilities });
  client.setRequestHandler(types.ElicitRequestSchema, answers['elicitation/create']);
  client.setRequestHandler(types.CreateMessageRequestSchema, answers['sampling/createMessage']);
  client.setRequestHandler(types.ListRootsRequestSchema, answers['roots/list']);
  for (const schema of [types.ProgressNotificationSchema, types.LoggingMessageNotificationSchema, types.ToolListChangedNotificationSchema,
    types.PromptListChangedNotificationSchema, types.ResourceListChangedNotificationSchema, types.ResourceUpdatedNotificationSchema]) {
    client.setNotificationHandler(schema, n => heard[n.method](n));
  }
  await client.connect(target.url
    ? new StreamableHTTPClientTransport(new URL(target.url))
    : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));
  return {
    client,
    call: (params, options) => client.callTool(params, undefined, options),
    level: async level => { await client.setLoggingLevel(level); return {}; },
    listen: async () => client.subscribeResource({ uri: 'r://one' }),
  };
}

async function connectV2() {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
  for (const [method, hear] of Object.entries(heard)) client.setNotificationHandler(method, hear);
  await client.connect(target.url
    ? new StreamableHTTPClientTransport(new URL(target.url))
    : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));
  return {
    client,
    call: (params, options) => client.callTool(params, options),
    level: async level => ({ 'io.modelcontextprotocol/logLevel': level }),
    listen: () => client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ['r://one'] }),
  };
}

// until tries again every few milliseconds until something is true.
async function until(what, ready) {
  for (const end = Date.now() + 8000; ;) {
    if (await ready()) return;
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

const { client, call, level, listen } = await (generation === 'v1' ? connectV1() : connectV2());
const tool = async (name, argument, _meta, options) =>
  text((await call({ name: `s__${name}`, arguments: { text: argument }, ...(_meta && { _meta }) }, options)).content);
const read = async uri => (await client.readResource({ uri })).contents[0].text;
const get = async (name, args) => (await client.getPrompt({ name: `s__${name}`, arguments: args })).messages[0].content.text;
const listed = {
  tools: async () => (await client.listTools()).tools.map(t => t.name),
  prompts: async () => (await client.listPrompts()).prompts.map(p => p.name),
  resources: async () => (await client.listResources()).resources.map(r => r.uri),
};

const features = {
  tools: async () => [...(await listed.tools()).sort(), await tool('echo', 'é😀')],
  resources: async () => [...(await listed.resources()).sort(), await read('r://one'), await read('r://number/5')],
  prompts: async () => [...(await listed.prompts()).sort(), await get('greet', { who: 'you' })],
  async completion() {
    const all = [];
    for (const ref of [{ type: 'ref/prompt', name: 's__greet' }, { type: 'ref/resource', uri: 'r://number/{n}' }]) {
      const { completion } = await client.complete({ ref, argument: { name: 'n', value: '4' }, context: { arguments: { before: '3' } } });
      all.push(...completion.values, `${completion.total} ${completion.hasMore}`);
    }
    return all;
  },
  async 'list changes'() {
    await listen();
    came.length = 0;
    await tool('grow', 'grown');
    for (const [kind, name] of [['tools', 's__grown'], ['prompts', 's__grown'], ['resources', 'r://grown']]) {
      await until(`${kind} announced and listed`, async () => came.includes(kind) && (await listed[kind]()).includes(name));
    }
    return [await tool('grown')];
  },
  async 'resource updates'() {
    // The subscription at the server may take a moment.
    await until('the update', async () => { await tool('touch', 'r://one'); return came.includes('r://one'); });
    return [];
  },
  async progress() {
    await tool('talk', 'unwanted', { progressToken: 'mine' });
    await until('three steps', () => progress.length >= 3);
    return progress.map(String);
  },
  async logging() {
    const meta = await level('info');
    // A legacy server is told of the level while the first call may be on its way.
    await until('log messages', async () => { await tool('talk', 'x', meta); return logged.includes('warning x2'); });
    return generation === 'v1' ? [] : logged.filter(l => l.includes('unwanted'));
  },
  'elicitation form': async () => [await tool('ask', 'form'), await get('ask'), await read('r://ask')],
  'elicitation URL': async () => [await tool('ask', 'url')],
  sampling: async () => [await tool('ask', 'sampling')],
  'sampling with tools': async () => [await tool('ask', 'tools')],
  roots: async () => [await tool('ask', 'roots')],
  async cancellation() {
    const stop = new AbortController();
    const hanging = tool('hang', mark, undefined, { signal: stop.signal }).then(r => [r], () => []);
    await until('the call arrives', () => existsSync(`${mark}.hung`));
    stop.abort();
    await until('the work of the server ends', () => existsSync(`${mark}.ended`));
    return [...(await hanging), await tool('echo', 'next')];
  },
};

const seen = {};
try {
  await until('the server is listed', async () => (await listed.tools()).includes('s__echo'));
  for (const [name, feature] of Object.entries(features)) {
    seen[name] = await feature().catch(e => [`failed: ${e.message}`]);
    if (asked.length > 0) seen[name].push(...asked.splice(0));
  }
  console.log(JSON.stringify(seen));
} finally {
  await client.close();
}
