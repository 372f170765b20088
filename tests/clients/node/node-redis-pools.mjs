// node-redis, as an application that knows one server, against every kind of pool.
import { WatchError, createClient, defineScript } from 'redis';
import { assert, range } from './checks.mjs';
import { exchange, increments, runPools, spread, watchLoops, writers } from './pools.mjs';

// Parsed into EVALSHA, and into EVAL when the server does not know it.
const pair = (lua) => defineScript({
  SCRIPT: lua,
  NUMBER_OF_KEYS: 1,
  parseCommand(parser, key, word) {
    parser.pushKey(key);
    parser.push(word);
  },
  transformReply: (reply) => reply,
});

async function connect(host, port, options = {}) {
  const client = createClient({ url: `redis://${host}:${port}`, ...options });
  client.on('error', (error) => console.error(error));
  await client.connect();
  return client;
}

const exchanges = (join, leave, publish, suffix = '') => async (pool, options = {}, word = join) => {
  const [listener, publisher] = [await pool.open(options), await pool.open(options)];
  await exchange(pool.key(word), {
    join: (name, put) => listener[join](name + suffix, (text, channel) => put(channel, text)),
    leave: (name) => listener[leave](name + suffix),
    publish: (name, text) => publisher[publish](name, text),
    sees: (name, text) => [name, text],
  });
  listener.destroy();
  publisher.destroy();
};
const channels = exchanges('subscribe', 'unsubscribe', 'publish');

const speaks = (RESP) => async (pool) => {
  const client = await pool.open({ RESP });
  const name = pool.key(`map${RESP}`);
  await client.hSet(name, { a: '1', b: '2' });
  assert.deepEqual({ ...(await client.hGetAll(name)) }, { a: '1', b: '2' });
  // Without the library's conversion: a list of names and values, or a map.
  const raw = await client.sendCommand(['HGETALL', name]);
  assert.equal(Array.isArray(raw), RESP === 2);
  await channels(pool, { RESP }, `channel${RESP}`);
  assert.equal(await client.blPop(pool.key('none'), 0.05), null);
  await client.close();
};

const checks = {
  async connect({ client, key }) {
    assert.equal(await client.ping(), 'PONG');
    assert.equal(await client.set(key('s'), 'value'), 'OK');
    assert.equal(await client.get(key('s')), 'value');
  },
  resp2: speaks(2),
  resp3: speaks(3),
  // The library sends what is asked for in one tick as one pipeline.
  async pipeline({ client, key }) {
    await client.set(key('text'), 'x');
    const work = range(spread).flatMap((i) => [client.set(key(i), `${i}`), client.get(key(i))]);
    const [wrong, right] = [client.incr(key('text')), client.get(key('text'))];
    await assert.rejects(wrong, /not an integer/);
    assert.equal(await right, 'x');
    const answers = await Promise.all(work);
    range(spread).forEach((i) => assert.equal(answers[2 * i + 1], `${i}`));
  },
  // The library sends a transaction at once, so DISCARD is sent by hand.
  async transaction({ client, key }) {
    const name = key('t');
    assert.deepEqual(await client.multi().set(name, '1').incr(name).exec(), ['OK', 2]);
    await Promise.all(
      [['MULTI'], ['SET', name, 'discarded'], ['DISCARD']].map((words) => client.sendCommand(words)));
    assert.equal(await client.get(name), '2');
  },
  async watch({ client, key, open }) {
    const name = key('w');
    await client.set(name, '0');
    await watchLoops(open, async (mine) => {
      await mine.watch(name);
      const value = Number(await mine.get(name)) + 1;
      return mine.multi().set(name, `${value}`).exec().catch((error) => {
        if (error instanceof WatchError) return null;
        throw error;
      });
    }, (mine) => mine.close());
    assert.equal(await client.get(name), `${writers * increments}`);
  },
  subscribe: (pool) => channels(pool),
  psubscribe: (pool) => exchanges('pSubscribe', 'pUnsubscribe', 'publish', '*')(pool),
  ssubscribe: (pool) => exchanges('sSubscribe', 'sUnsubscribe', 'sPublish')(pool),
  async blocking({ client, key, open }) {
    const waiting = await open();
    const got = waiting.blPop(key('list'), 10);
    await client.rPush(key('list'), 'x');
    assert.deepEqual({ ...(await got) }, { key: key('list'), element: 'x' });
    assert.equal(await waiting.blPop(key('none'), 0.1), null);
    await waiting.close();
  },
  async scripts({ client, key, group, open }) {
    // Never seen before by the server, so that the digest is unknown at first.
    const lua = `return {KEYS[1], ARGV[1]} -- ${Date.now()} ${group}`;
    const mine = await open({ scripts: { pair: pair(`${lua} again`) } });
    for (const i of range(10)) {
      const name = key(`lua${i}`);
      const options = { keys: [name], arguments: ['in'] };
      assert.deepEqual(await client.eval(lua, options), [name, 'in']);
      assert.deepEqual(await mine.pair(name, 'sha'), [name, 'sha']);
    }
    await mine.close();
  },
};

const methods = ({ open }) => ({
  async listen(channel, put) {
    const listener = await open();
    await listener.subscribe(channel, put);
    return () => listener.destroy();
  },
});

await runPools({
  library: 'redis', name: 'node-redis', connect, close: (client) => client.close(), checks, methods,
});
