// A server with one of everything, of the TypeScript SDK: the same as the server
// "versatile" of matrix_peers_test.go.
//
//   node versatile.mjs v1|v2 stdio
//   node versatile.mjs v1|v2 PORT    on HTTP
//
// v1 is @modelcontextprotocol/sdk, which speaks the eras up to 2025-11-25, over HTTP with
// sessions; v2 is @modelcontextprotocol/server, held to 2026-07-28.

import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';

const [, , generation, where] = process.argv;
const info = { name: 'versatile', version: '1.0.0' };
const capabilities = {
  tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true },
  completions: {}, logging: {},
};
const grown = [];
const text = t => ({ type: 'text', text: t });

// What the server asks, by name.
const object = { type: 'object' };
const questions = {
  form: { method: 'elicitation/create', params: { mode: 'form', message: 'your name', requestedSchema: { type: 'object', properties: { who: { type: 'string' } } } } },
  url: { method: 'elicitation/create', params: { mode: 'url', message: 'go there', url: 'https://example.com/pay', ...(generation === 'v1' && { elicitationId: 'e1' }) } },
  sampling: { method: 'sampling/createMessage', params: { maxTokens: 9, systemPrompt: 'be brief', messages: [{ role: 'user', content: text('ping') }] } },
  tools: { method: 'sampling/createMessage', params: {
    maxTokens: 9, toolChoice: { mode: 'required' }, tools: [{ name: 'add', inputSchema: object }, { name: 'sub', inputSchema: object }],
    messages: [
      { role: 'user', content: text('what is 1+2 and 3+4?') },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'add', input: { x: 1 } }, { type: 'tool_use', id: 'b', name: 'add', input: { x: 3 } }] },
      { role: 'user', content: [{ type: 'tool_result', toolUseId: 'a', content: [text('3')] }, { type: 'tool_result', toolUseId: 'b', content: [text('7')] }] },
    ],
  } },
  roots: { method: 'roots/list', params: {} },
};

// An answer of the client as the server has understood it, in the words of the Go server.
const map = o => `map[${Object.entries(o ?? {}).map(([k, v]) => `${k}:${v}`).join(' ')}]`;
function inWords(answer) {
  if (answer.action) return `${answer.action} ${map(answer.content)}`;
  if (answer.roots) return answer.roots.map(r => `${r.name} ${r.uri}`).join(', ');
  const parts = [answer.content].flat().map(c => (c.type === 'text' ? c.text : `use ${c.id} ${c.name} ${map(c.input)}`));
  return `${answer.model}, ${answer.stopReason}: ${parts.join('; ')}`;
}

// The tools: arguments and what of the SDK they need → text of the result.
const tools = {
  echo: (a, sdk) => `${a} over ${sdk.version}`,
  ask: async (a, sdk) => inWords(await sdk.ask(a)),
  async talk(a, sdk) {
    for (let i = 0; i < 3; i++) {
      if (sdk.token !== undefined) await sdk.notify({ method: 'notifications/progress', params: { progressToken: sdk.token, progress: i + 1 } });
      await sdk.log('warning', `${a}${i}`);
    }
    return 'said';
  },
  hang: (a, sdk) => new Promise((resolve, reject) => {
    writeFileSync(`${a}.hung`, '');
    sdk.signal.addEventListener('abort', () => {
      writeFileSync(`${a}.ended`, '');
      reject(new Error('cancelled'));
    });
  }),
  async touch(a, sdk) {
    await sdk.updated(a);
    return 'touched';
  },
  async grow(a, sdk) {
    grown.push(a);
    tools[a] = () => 'new';
    await sdk.changed();
    return 'grown';
  },
};

// The requests: params and what of the SDK they need → result.
const handlers = {
  'tools/list': () => ({ tools: Object.keys(tools).map(name => ({ name, inputSchema: { type: 'object', properties: { text: { type: 'string' } } } })) }),
  'tools/call': async (p, sdk) => ({ content: [text(await tools[p.name](p.arguments?.text, sdk))] }),
  'prompts/list': () => ({ prompts: [{ name: 'greet', arguments: [{ name: 'who' }] }, { name: 'ask' }, ...grown.map(name => ({ name }))] }),
  'prompts/get': async (p, sdk) => {
    const who = p.name === 'ask' ? inWords(await sdk.ask('form')) : p.arguments?.who;
    return { messages: [{ role: 'user', content: text(`hello ${who}`) }] };
  },
  'resources/list': () => ({ resources: ['one', 'ask', ...grown].map(name => ({ uri: `r://${name}`, name })) }),
  'resources/templates/list': () => ({ resourceTemplates: [{ uriTemplate: 'r://number/{n}', name: 'number' }] }),
  'resources/read': async (p, sdk) => ({ contents: [{ uri: p.uri, text: p.uri === 'r://ask' ? inWords(await sdk.ask('form')) : `at ${p.uri}` }] }),
  'completion/complete': p => ({ completion: {
    values: [p.ref.name ?? p.ref.uri, `${p.argument.name}=${p.argument.value}`, JSON.stringify(p.context)], total: 7, hasMore: true } }),
};

async function legacy() {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const results = { 'elicitation/create': types.ElicitResultSchema, 'sampling/createMessage': types.CreateMessageResultWithToolsSchema, 'roots/list': types.ListRootsResultSchema };
  const requests = {
    'tools/list': types.ListToolsRequestSchema, 'tools/call': types.CallToolRequestSchema,
    'prompts/list': types.ListPromptsRequestSchema, 'prompts/get': types.GetPromptRequestSchema,
    'resources/list': types.ListResourcesRequestSchema, 'resources/read': types.ReadResourceRequestSchema,
    'resources/templates/list': types.ListResourceTemplatesRequestSchema, 'completion/complete': types.CompleteRequestSchema,
  };
  const servers = [];
  const serve = async transport => {
    const server = new Server(info, { capabilities });
    servers.push(server);
    const everywhere = async f => { for (const s of servers) await f(s); };
    for (const [method, schema] of Object.entries(requests)) {
      server.setRequestHandler(schema, (request, extra) => handlers[method](request.params ?? {}, {
        version: '2025-11-25', token: extra._meta?.progressToken, signal: extra.signal, notify: extra.sendNotification,
        ask: name => extra.sendRequest(questions[name], results[questions[name].method]),
        log: (level, data) => extra.sendNotification({ method: 'notifications/message', params: { level, data } }),
        updated: uri => everywhere(s => s.sendResourceUpdated({ uri })),
        changed: () => everywhere(async s => { await s.sendToolListChanged(); await s.sendPromptListChanged(); await s.sendResourceListChanged(); }),
      }));
    }
    for (const schema of [types.SubscribeRequestSchema, types.UnsubscribeRequestSchema]) server.setRequestHandler(schema, () => ({}));
    await server.connect(transport);
  };
  if (where === 'stdio') return serve(new StdioServerTransport());
  const sessions = {};
  createServer(async (req, res) => {
    let transport = sessions[req.headers['mcp-session-id']];
    if (!transport) {
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: id => { sessions[id] = transport; } });
      await serve(transport);
    }
    await transport.handleRequest(req, res);
  }).listen(Number(where), '127.0.0.1');
}

async function modern() {
  const { Server, createMcpHandler, inputRequired } = await import('@modelcontextprotocol/server');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  let http;
  const factory = () => {
    const server = new Server(info, { capabilities });
    for (const [method, handle] of Object.entries(handlers)) {
      server.setRequestHandler(method, async (request, { mcpReq }) => {
        // What has not been answered yet ends the request for now.
        let open;
        const ask = async name => {
          const answer = mcpReq.inputResponses?.[name];
          if (answer) return answer;
          open = { [name]: questions[name] };
          throw new Error('the client has to be asked');
        };
        const stream = http?.notify;
        return Promise.resolve(handle(request.params ?? {}, {
          version: '2026-07-28', token: mcpReq._meta?.progressToken, signal: mcpReq.signal, notify: mcpReq.notify, ask, log: mcpReq.log,
          updated: uri => (stream ? stream.resourceUpdated(uri) : server.sendResourceUpdated({ uri })),
          changed: async () => {
            if (stream) return [stream.toolsChanged(), stream.promptsChanged(), stream.resourcesChanged()];
            await server.sendToolListChanged();
            await server.sendPromptListChanged();
            await server.sendResourceListChanged();
          },
        })).catch(e => {
          if (open) return inputRequired({ inputRequests: open });
          throw e;
        });
      });
    }
    return server;
  };
  if (where === 'stdio') return serveStdio(factory, { legacy: 'reject' });
  http = createMcpHandler(factory, { legacy: 'reject' });
  createServer(async (req, res) => {
    const gone = new AbortController();
    res.on('close', () => gone.abort());
    const body = ['GET', 'HEAD'].includes(req.method) ? undefined : Readable.toWeb(req);
    const response = await http.fetch(new Request(`http://${req.headers.host}${req.url}`, {
      method: req.method, headers: req.headers, body, duplex: 'half', signal: gone.signal }));
    res.writeHead(response.status, Object.fromEntries(response.headers));
    if (!response.body) return res.end();
    Readable.fromWeb(response.body).on('error', () => {}).pipe(res);
  }).listen(Number(where), '127.0.0.1');
}

await (generation === 'v1' ? legacy() : modern());
