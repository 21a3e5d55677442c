// Runs a tool as a task (2025-11-25) with the TypeScript SDK, twice: the first task asks
// its user something and is waited for, the second is cancelled. What came of it is
// printed as one JSON object.
//
//   node tasks.mjs '{"url": …} or {"command": …, "args": […]}' TOOL

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [, , targetJSON, tool] = process.argv;
const target = JSON.parse(targetJSON);
const questions = [];

const client = new Client({ name: 'tim', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  questions.push({ message: params.message, task: params._meta?.['io.modelcontextprotocol/related-task']?.taskId });
  return { action: 'accept', content: { interpretation: 'snake' } };
});
await client.connect(target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport({ ...target, stderr: 'inherit', env: process.env }));

async function awaitTool() {
  for (let attempt = 0; ; attempt++) {
    if ((await client.listTools({})).tools.some(t => t.name === tool)) return;
    if (attempt > 100) throw new Error(`not listed: ${tool}`);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

const refused = async promise => promise.then(() => 0, err => err.code);

try {
  await awaitTool();
  const tasks = client.experimental.tasks;
  const out = { questions, statuses: [] };
  for await (const message of tasks.callToolStream({ name: tool, arguments: { topic: 'python', ambiguous: true } }, CallToolResultSchema)) {
    if (message.type === 'taskCreated') out.task = message.task.taskId;
    if (message.type === 'taskStatus') out.statuses.push(message.task.status);
    if (message.type === 'result') out.text = message.result.content[0].text;
    if (message.type === 'error') throw message.error;
  }
  const { taskId, status } = await tasks.getTask(out.task);
  Object.assign(out, { got: taskId, end: status });

  const params = { name: tool, arguments: { topic: 'go' } };
  const stream = tasks.callToolStream(params, CallToolResultSchema);
  out.second = (await stream.next()).value.task.taskId;
  await stream.return();
  out.listed = (await tasks.listTasks()).tasks.map(t => t.taskId);
  out.cancelled = (await tasks.cancelTask(out.second)).status;
  out.again = await refused(tasks.cancelTask(out.second));
  out.forged = await refused(tasks.getTask(out.second.replace(/.$/, c => (c === 'A' ? 'B' : 'A'))));
  out.unknown = await refused(tasks.getTask('nothing'));
  console.log(JSON.stringify(out));
} finally {
  await client.close();
}
