// What all programs of this folder share: how a check is run and shown, how the runner is asked.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export { assert };
export const range = (count) => Array.from({ length: count }, (_, i) => i);
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// All byte values, and what looks like protocol.
export const binary = Buffer.from([...range(256), ...Buffer.from('\r\n$3\r\n*1\r\n')]);

// How long a library may show errors after something it was connected to went away.
export const recoveryMs = 10_000;

// A check throws this when the library has no means for what it is about.
export class Lacks extends Error {}

const runner = createInterface({ input: process.stdin });

// A question to the runner, answered by a line.
export async function ask(words) {
  const answer = once(runner, 'line');
  console.log(`ask ${words}`);
  return (await answer)[0].split(' ');
}

// [group, addresses] of each argument GROUP=HOST:PORT[,HOST:PORT…].
export const groups = () => process.argv.slice(2).map((argument) => {
  const [group, list] = argument.split('=');
  return [group, list.split(',')];
});

// Runs a check and prints its line.
export async function attempt(name, check, ...words) {
  try {
    await check(...words);
    console.log(`ok ${name}`);
  } catch (error) {
    const kind = error instanceof Lacks ? 'none' : 'FAIL';
    const why = error instanceof Lacks ? error.message : String(error?.stack ?? error);
    console.log(`${kind} ${name}: ${why.replaceAll('\n', '\\n')}`);
  }
}

// The version of a library of this folder.
export function tellVersion(library) {
  const manifest = new URL(`node_modules/${library}/package.json`, import.meta.url);
  console.log(`version ${JSON.parse(readFileSync(manifest)).version}`);
}

// Ends the program, whatever connections a check that failed has left open.
export function end() {
  console.log('end');
  process.exit();
}

// Repeats what is given until it raises no error.
export async function errorsEnd(attempted) {
  const deadline = Date.now() + recoveryMs;
  for (;;) {
    try {
      return await attempted();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      console.error(String(error));
    }
    await sleep(100);
  }
}

// A promise that fails after a time: these libraries may hold a request while a node is away.
export function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
