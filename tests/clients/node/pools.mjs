// What the programs named pools share: those of applications that know one server.
//
// Arguments: GROUP=HOST:PORT…; the groups, the checks and the questions to the runner are those of
// ../python/pools.py.
import { assert, attempt, ask, end, errorsEnd, groups, range, tellVersion, within } from './checks.mjs';

export const spread = 100;
export const writers = 4;
export const increments = 10;
const messageMs = 5_000;

// Messages in the order of their arrival: `put` is a library's listener, `next` waits.
export class Mailbox {
  #came = [];
  #waiting = [];

  put = (...message) => {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(message);
    else this.#came.push(message);
  };

  next = (ms = messageMs) => {
    if (this.#came.length > 0) return Promise.resolve(this.#came.shift());
    let resolve;
    const message = new Promise((found) => { resolve = found; });
    this.#waiting.push(resolve);
    return within(ms, message).catch((error) => {
      this.#waiting.splice(this.#waiting.indexOf(resolve), 1);
      throw error;
    });
  };
}

// Two channels: after leaving the first, its message must not come before that of the second.
// `join`, `leave` and `publish` are the library's; `sees` is what its listener is given.
export async function exchange(channel, { join, leave, publish, sees }) {
  const [first, second] = [1, 2].map((number) => `${channel}:${number}`);
  const mailbox = new Mailbox();
  await join(first, mailbox.put);
  await join(second, mailbox.put);
  await publish(first, 'one');
  assert.deepEqual(await mailbox.next(), sees(first, 'one'));
  await leave(first);
  await publish(first, 'nobody');
  await publish(second, 'two');
  assert.deepEqual(await mailbox.next(), sees(second, 'two'));
}

// Many at once add to one number; `add` returns null when somebody else was faster.
export async function watchLoops(open, add, close) {
  await Promise.all(range(writers).map(async () => {
    const client = await open();
    for (let done = 0; done < increments;) if (await add(client) !== null) done += 1;
    await close(client);
  }));
}

async function roundTrip({ client, key }) {
  for (const i of range(spread)) {
    await within(2_000, client.set(key(i), String(i)));
    assert.equal(await within(2_000, client.get(key(i))), String(i));
  }
}

const reconnects = (what) => async (pool) => {
  await ask(`restart ${what} ${pool.group}`);
  await errorsEnd(() => roundTrip(pool));
};

const shared = {
  reconnect_server: reconnects('server'),
  reconnect_respool: reconnects('respool'),
  // `listen` is the library's: it subscribes to a channel and returns what leaves it.
  async resubscribe(pool) {
    const channel = pool.key('again');
    const mailbox = new Mailbox();
    const leave = await pool.listen(channel, mailbox.put);
    await ask(`restart respool ${pool.group}`);
    await errorsEnd(async () => {
      await within(2_000, pool.client.publish(channel, 'after'));
      await mailbox.next(200);
    });
    await leave();
  },
};

// Runs `checks` and those that all libraries share for each group. A check is given the pool: its
// `group`, `host` and `port`, the `client` with default settings, `key`, and what `methods` adds.
export async function runPools({ library, name, connect, close, checks, methods }) {
  tellVersion(library);
  for (const [group, [address]] of groups()) {
    const [host, port] = [address.split(':')[0], Number(address.split(':')[1])];
    const key = (word) => `${name}-pools:${group}:${word}`;
    const open = (options) => connect(host, port, options);
    const pool = { group, key, open, client: await open() };
    Object.assign(pool, methods(pool));
    for (const [check, body] of Object.entries({ ...checks, ...shared })) {
      await attempt(`${group}:${check}`, body, pool);
    }
    await close(pool.client);
  }
  end();
}
