// What the programs for ioredis and node-redis in cluster mode share.
//
// Arguments: GROUP=HOST:PORT[,HOST:PORT…]…; the groups and the questions to the runner ("ask WORDS"
// on stdout, a line on stdin) are those of ../python/cluster.py.
import {
  ask, assert, attempt, end, errorsEnd, groups, range, recoveryMs, sleep, tellVersion, within,
} from './checks.mjs';

export const spread = 300;
export const big = Buffer.alloc(1 << 20, 'some text that repeats itself; ');

const alsoBalanced = ['nodes', 'keys_of_many_slots', 'pipeline', 'refresh'];

// Waits for a round over these keys without an error.
export const allAnswer = (client, names) => errorsEnd(async () => {
  for (const name of names) {
    await within(2_000, client.set(name, name));
    assert.equal(await within(2_000, client.get(name)), name);
  }
});

// Waits until a condition holds, which may be a promise.
export async function comesTrue(condition) {
  const deadline = Date.now() + recoveryMs;
  while (!(await within(recoveryMs, condition()))) {
    assert.ok(Date.now() < deadline, `not within ${recoveryMs} ms: ${condition}`);
    await sleep(100);
  }
}

// Runs `checks` for each group, with `several` also `withSeveral`, with `balanced` only those of
// that name and what happens when the connection's respool dies. A check is given the client and
// { addresses, real }: those of the group, and whether it is a real cluster.
export async function runGroups({
  library, connect, key, close, checks, withSeveral, withoutFacade,
}) {
  tellVersion(library);
  for (const [group, addresses] of groups()) {
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
        await allAnswer(client, range(spread).map(key));
      },
    };
    const chosen = { several: { ...checks, ...withSeveral }, balanced }[group] ?? checks;
    for (const [name, check] of Object.entries(chosen)) {
      await attempt(`${group}:${name}`, check, client, { addresses, real: group === 'real' });
    }
    await close(client);
  }
  end();
}
