// ioredis, as an application that knows one server, against every kind of pool.
import Redis from 'ioredis';
import { assert, range } from './checks.mjs';
import { exchange, increments, runPools, spread, watchLoops, writers } from './pools.mjs';

async function connect(host, port, options = {}) {
  const redis = new Redis(port, host, options);
  redis.on('error', (error) => console.error(error));
  return redis;
}

// A connection of this library that subscribes can do nothing else with RESP2, so there are two.
const exchanges = (kind, event, suffix = '') => async (pool, options = {}, word = event) => {
  const [listener, publisher] = [await pool.open(options), await pool.open(options)];
  await exchange(pool.key(word), {
    async join(name, put) {
      if (listener.listenerCount(event) === 0) listener.on(event, (...words) => put(...words));
      await listener[`${kind}subscribe`](name + suffix);
    },
    leave: (name) => listener[`${kind}unsubscribe`](name + suffix),
    publish: (name, text) => publisher[kind === 's' ? 'spublish' : 'publish'](name, text),
    sees: (name, text) => (suffix ? [name + suffix, name, text] : [name, text]),
  });
  await listener.quit();
  await publisher.quit();
};
const channels = exchanges('', 'message');

const speaks = (protocol) => async (pool) => {
  const redis = await pool.open({ protocol });
  const name = pool.key(`map${protocol}`);
  await redis.hset(name, { a: '1', b: '2' });
  assert.deepEqual({ ...(await redis.hgetall(name)) }, { a: '1', b: '2' });
  // The library shows both protocols' replies alike.
  assert.match(await redis.client('INFO'), new RegExp(`resp=${protocol}`));
  await channels(pool, { protocol }, `channel${protocol}`);
  assert.equal(await redis.blpop(pool.key('none'), 0.05), null);
  await redis.quit();
};

const checks = {
  async connect({ client, key }) {
    assert.equal(await client.ping(), 'PONG');
    assert.equal(await client.set(key('s'), 'value'), 'OK');
    assert.equal(await client.get(key('s')), 'value');
  },
  resp2: speaks(2),
  resp3: speaks(3),
  // The library sends a pipeline over one connection, wherever its keys lie.
  async pipeline({ client, key }) {
    await client.set(key('text'), 'x');
    const pipe = client.pipeline();
    range(spread).forEach((i) => pipe.set(key(i), i).get(key(i)));
    const answers = await pipe.incr(key('text')).get(key('text')).exec();
    range(spread).forEach((i) => assert.deepEqual(answers[2 * i + 1], [null, String(i)]));
    assert.match(String(answers.at(-2)[0]), /not an integer/);
    assert.deepEqual(answers.at(-1), [null, 'x']);
  },
  async transaction({ client, key }) {
    const name = key('t');
    assert.deepEqual(await client.multi().set(name, 1).incr(name).exec(), [[null, 'OK'], [null, 2]]);
    await client.multi({ pipeline: false });
    assert.equal(await client.set(name, 'discarded'), 'QUEUED');
    assert.equal(await client.discard(), 'OK');
    assert.equal(await client.get(name), '2');
  },
  async watch({ client, key, open }) {
    const name = key('w');
    await client.set(name, 0);
    await watchLoops(open, async (mine) => {
      await mine.watch(name);
      return mine.multi().set(name, Number(await mine.get(name)) + 1).exec();
    }, (mine) => mine.quit());
    assert.equal(await client.get(name), String(writers * increments));
  },
  subscribe: (pool) => channels(pool),
  psubscribe: (pool) => exchanges('p', 'pmessage', '*')(pool),
  ssubscribe: (pool) => exchanges('s', 'smessage')(pool),
  async blocking({ client, key, open }) {
    const waiting = await open();
    const got = waiting.blpop(key('list'), 10);
    await client.rpush(key('list'), 'x');
    assert.deepEqual(await got, [key('list'), 'x']);
    assert.equal(await waiting.blpop(key('none'), 0.1), null);
    await waiting.quit();
  },
  async scripts({ client, key, group }) {
    // Never seen before by the server. A defined command is sent as EVALSHA first.
    const lua = `return {KEYS[1], ARGV[1]} -- ${Date.now()} ${group}`;
    client.defineCommand('pair', { numberOfKeys: 1, lua: `${lua} again` });
    for (const i of range(10)) {
      const name = key(`lua${i}`);
      assert.deepEqual(await client.eval(lua, 1, name, 'in'), [name, 'in']);
      assert.deepEqual(await client.pair(name, 'sha'), [name, 'sha']);
    }
  },
};

const methods = ({ open }) => ({
  async listen(channel, put) {
    const listener = await open();
    listener.on('message', put);
    await listener.subscribe(channel);
    return () => listener.disconnect();
  },
});

await runPools({
  library: 'ioredis', name: 'ioredis', connect, close: (redis) => redis.quit(), checks, methods,
});
