// What the programs for ioredis and node-redis in cluster mode share.
//
// Arguments: GROUP=HOST:PORT[,HOST:PORT…]…; the groups and the questions to the runner ("ask WORDS"
// on stdout, a line on stdin) are those of ../python/cluster.py.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export { assert };
export const spread = 300;
export const range = (count) => Array.from({ length: count }, (_, i) => i);
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const alsoBalanced = ['nodes', 'keys_of_many_slots', 'pipeline', 'refresh'];

// All byte values, and what looks like protocol.
export const binary = Buffer.from([...range(256), ...Buffer.from('\r\n$3\r\n*1\r\n')]);
export const big = Buffer.alloc(1 << 20, 'some text that repeats itself; ');

// How long a client may see errors after one of several nodes has died.
const recoveryMs = 10_000;
const runner = createInterface({ input: process.stdin });

export async function ask(words) {
  const answer = once(runner, 'line');
  console.log(`ask ${words}`);
  return (await answer)[0].split(' ');
}

export const setAndGet = (client) => [
  (name, value) => client.set(name, value),
  (name) => client.get(name),
];

// Waits for a round over these keys without an error. `set` and `get` are the library's.
export async function errorsEnd(names, set, get) {
  const deadline = Date.now() + recoveryMs;
  for (;;) {
    try {
      for (const name of names) {
        await within(2_000, set(name, name));
        assert.equal(await within(2_000, get(name)), name);
      }
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      console.error(String(error));
    }
    await sleep(100);
  }
}

// Waits until a condition holds, which may be a promise.
export async function comesTrue(condition) {
  const deadline = Date.now() + recoveryMs;
  while (!(await within(recoveryMs, condition()))) {
    assert.ok(Date.now() < deadline, `not within ${recoveryMs} ms: ${condition}`);
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

async function attempt(name, check, ...words) {
  try {
    await check(...words);
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAIL ${name}: ${String(error?.stack ?? error).replaceAll('\n', '\\n')}`);
  }
}

// Runs `checks` for each group, with `several` also `withSeveral`, with `balanced` only those of
// that name and what happens when the connection's respool dies. A check is given the client and
// { addresses, real }: those of the group, and whether it is a real cluster.
export async function runGroups({ connect, key, close, checks, withSeveral, withoutFacade }) {
  for (const argument of process.argv.slice(2)) {
    const [group, list] = argument.split('=');
    const addresses = list.split(',');
    if (group === 'off') {
      for (const [i, address] of addresses.entries()) {
        await attempt(`off:${i}`, withoutFacade, address);
      }
      continue;
    }
    // One address is enough: the library finds the others.
    const client = await connect(addresses[0]);
    const balanced = {
      ...Object.fromEntries(alsoBalanced.map((name) => [name, checks[name]])),
      all_keys_go_on_when_a_respool_dies: async () => {
        await ask('kill balanced');
        await errorsEnd(range(spread).map(key), ...setAndGet(client));
      },
    };
    const chosen = { several: { ...checks, ...withSeveral }, balanced }[group] ?? checks;
    for (const [name, check] of Object.entries(chosen)) {
      await attempt(`${group}:${name}`, check, client, { addresses, real: group === 'real' });
    }
    await close(client);
  }
  runner.close();
  console.log('end');
}
