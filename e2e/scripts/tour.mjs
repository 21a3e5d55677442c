// Takes a tour of the servers behind an aggregator with the TypeScript SDK and
// prints what it saw as one JSON object.
//
//   node tour.mjs v1|v2 '{"url": …} or {"command": …, "args": […]}' '{"everything": PREFIX, "files": PREFIX, "memory": PREFIX, "folder": PATH}'
//
// v1 is @modelcontextprotocol/sdk, which speaks the eras up to 2025-11-25; v2 is
// @modelcontextprotocol/client, held to 2026-07-28.

const [, , generation, targetJSON, whereJSON] = process.argv;
const target = JSON.parse(targetJSON);
const where = JSON.parse(whereJSON);
const info = { name: 'tour', version: '1.0.0' };

async function connect() {
  if (generation === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const client = new Client(info);
    await client.connect(target.url
      ? new StreamableHTTPClientTransport(new URL(target.url))
      : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await client.connect(target.url
    ? new StreamableHTTPClientTransport(new URL(target.url))
    : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));
  return client;
}

async function all(list, key) {
  const found = [];
  let cursor;
  do {
    const page = await list(cursor ? { cursor } : {});
    found.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor);
  return found;
}

const text = result => result.content.map(c => c.text ?? c.type).join('|');

// The servers behind may still be starting: wait until all have listed.
async function awaitTools(client) {
  for (let attempt = 0; ; attempt++) {
    const names = (await all(p => client.listTools(p), 'tools')).map(t => t.name);
    const missing = ['everything', 'files', 'memory'].filter(s => where[s] !== undefined && !names.some(n => n.startsWith(where[s])));
    if (missing.length === 0) return names.sort();
    if (attempt > 100) throw new Error(`no tools of ${missing}`);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

async function tourEverything(client, prefix, report) {
  const call = (name, args = {}, options) => client.callTool({ name: prefix + name, arguments: args },
    ...(generation === 'v1' ? [undefined, options] : [options]));
  report.echo = text(await call('echo', { message: 'héllo 😀' }));
  report.sum = text(await call('get-sum', { a: 2, b: 40 }));
  report.structured = (await call('get-structured-content', { location: 'Chicago' })).structuredContent;
  report.image = (await call('get-tiny-image')).content.map(c => c.type);
  report.links = (await call('get-resource-links', { count: 2 })).content.map(c => c.type);
  report.progress = [];
  report.long = text(await call('trigger-long-running-operation', { duration: 0.5, steps: 5 },
    { onprogress: p => report.progress.push(p.progress) }));
  report.wrongArguments = (await call('echo', {}).catch(e => ({ isError: true, code: e.code }))).isError === true;

  const resources = await all(p => client.listResources(p), 'resources');
  report.resources = resources.map(r => r.uri).filter(u => u.startsWith('demo://')).length;
  report.resource = (await client.readResource({ uri: 'demo://resource/static/document/features.md' })).contents[0].text.length > 100;
  const templates = await all(p => client.listResourceTemplates(p), 'resourceTemplates');
  report.templates = templates.map(t => t.uriTemplate).sort();
  report.template = (await client.readResource({ uri: 'demo://resource/dynamic/text/7' })).contents[0].text.includes('7');

  report.prompts = (await all(p => client.listPrompts(p), 'prompts')).length;
  report.prompt = (await client.getPrompt({ name: prefix + 'args-prompt', arguments: { city: 'Graz' } })).messages[0].content.text;
  report.completion = (await client.complete({
    ref: { type: 'ref/prompt', name: prefix + 'completable-prompt' },
    argument: { name: 'department', value: 'S' },
  })).completion.values;
}

async function tourFiles(client, prefix, report) {
  const path = `${where.folder}/${generation}-${process.pid}.txt`;
  const call = (name, args) => client.callTool({ name: prefix + name, arguments: args });
  await call('write_file', { path, content: 'line 1\nline 2 é' });
  report.file = text(await call('read_text_file', { path }));
  report.outside = (await call('read_text_file', { path: '/etc/hostname' })).isError === true;
}

async function tourMemory(client, prefix, report) {
  const name = `e-${generation}-${process.pid}`;
  const call = (tool, args) => client.callTool({ name: prefix + tool, arguments: args });
  await call('create_entities', { entities: [{ name, entityType: 'test', observations: ['o'] }] });
  report.memory = text(await call('open_nodes', { names: [name] })).includes(name);
}

const client = await connect();
const report = {};
try {
  report.tools = await awaitTools(client);
  if (where.everything !== undefined) await tourEverything(client, where.everything, report);
  if (where.files !== undefined) await tourFiles(client, where.files, report);
  if (where.memory !== undefined) await tourMemory(client, where.memory, report);
  report.unknown = await client.callTool({ name: 'no_such_tool', arguments: {} }).then(r => (r.isError ? 'error result' : 'result'), e => e.code);
  console.log(JSON.stringify(report));
} finally {
  await client.close();
}
