// Counts the samples of a folder with real tokenizers and prints counts.json.
import { readFileSync, readdirSync } from 'node:fs';
import * as o200k from 'gpt-tokenizer/encoding/o200k_base';
import * as cl100k from 'gpt-tokenizer/encoding/cl100k_base';

const folder = process.argv[2] ?? '.';
const counts = {};
for (const name of readdirSync(folder).filter((n) => n.endsWith('.txt')).sort()) {
  const text = readFileSync(`${folder}/${name}`, 'utf8');
  counts[name.replace(/\.txt$/, '')] = { o200k: o200k.countTokens(text), cl100k: cl100k.countTokens(text) };
}
console.log(JSON.stringify(counts, null, '\t'));
