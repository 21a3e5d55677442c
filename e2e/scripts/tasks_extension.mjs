// Calls a tool of a 2026-07-28 server that makes a task of the call, with the client of the
// tasks extension, and prints the text of the result and what was asked as a JSON object.
//
//   node tasks_extension.mjs URL TOOL

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';

const [, , url, tool] = process.argv;
const extension = 'io.modelcontextprotocol/tasks';
const info = { name: 'tim', version: '1.0.0' };
const capabilities = { elicitation: { form: {} }, extensions: { [extension]: {} } };
const methods = [];
const questions = [];

const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

let last = 0;
async function rawDispatch(request) {
  methods.push(request.method);
  const { name, taskId } = request.params;
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': info,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
  };
  const params = { ...request.params, _meta: { ...meta, ...request.params._meta } };
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28', 'mcp-method': request.method, 'mcp-name': name ?? taskId,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: ++last, method: request.method, params }),
  });
  const { result, error } = JSON.parse((await response.text()).replace(/^data: /, ''));
  return error ? { kind: 'error', error } : { kind: 'result', result };
}

const session = createTaskSessionFromClient(client, {
  endpointId: 'behind', rawDispatch,
  v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo: info, clientCapabilities: capabilities },
  onInputRequest: async request => {
    questions.push(request.params.message);
    return { action: 'accept', content: { who: 'tim' } };
  },
});
try {
  const execution = await session.callTool(tool, {});
  const { outcome } = await execution.settle();
  console.log(JSON.stringify({ text: resultFromTaskOutcome(outcome).content[0].text, questions, methods }));
} finally {
  await session.close();
  await client.close();
}
