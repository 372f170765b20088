// node-redis with its default settings: commands on data of all kinds.
import { RESP_TYPES, createClient } from 'redis';
import { big, host, port, run } from './basic.mjs';
import { assert, binary, range } from './checks.mjs';

const url = `redis://${host}:${port}`;
const connect = async (options = {}) => {
  const client = createClient({ url, ...options });
  client.on('error', (error) => console.error(error));
  await client.connect();
  return client;
};
const redis = await connect();
const buffers = redis.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
const key = (word) => `node-redis:${word}`;

const checks = {
  async ping() {
    assert.equal(await redis.ping(), 'PONG');
  },
  async set_get() {
    assert.equal(await redis.set(key('s'), 'value'), 'OK');
    assert.equal(await redis.get(key('s')), 'value');
    assert.equal(await redis.get(key('absent')), null);
  },
  async incr() {
    assert.equal(await redis.incr(key('n')), 1);
    assert.equal(await redis.incrBy(key('n'), 41), 42);
  },
  async mget_mset_del() {
    await redis.mSet({ [key('m1')]: '1', [key('m2')]: '2' });
    assert.deepEqual(await redis.mGet([key('m1'), key('absent'), key('m2')]), ['1', null, '2']);
    assert.equal(await redis.del([key('m1'), key('m2')]), 2);
  },
  async hashes() {
    assert.equal(await redis.hSet(key('h'), { a: '1', b: 'zwei' }), 2);
    assert.deepEqual({ ...(await redis.hGetAll(key('h'))) }, { a: '1', b: 'zwei' });
  },
  async lists() {
    assert.equal(await redis.rPush(key('l'), ['a', 'b', 'c']), 3);
    assert.deepEqual(await redis.lRange(key('l'), 1, -1), ['b', 'c']);
  },
  async sorted_sets() {
    await redis.zAdd(key('z'), [
      { score: 1, value: 'one' },
      { score: 2.5, value: 'two' },
    ]);
    const rows = await redis.zRangeWithScores(key('z'), 0, -1);
    assert.deepEqual(rows.map(({ score, value }) => [value, score]), [['one', 1], ['two', 2.5]]);
  },
  async streams() {
    const id = await redis.xAdd(key('x'), '*', { field: 'value' });
    const [entry] = await redis.xRange(key('x'), '-', '+');
    assert.equal(entry.id, id);
    assert.equal(entry.message.field, 'value');
  },
  async scan_iterator() {
    await redis.mSet(Object.fromEntries(range(100).map((i) => [key(`scan:${i}`), 'x'])));
    const seen = new Set();
    for await (const keys of redis.scanIterator({ MATCH: key('scan:*'), COUNT: 10 })) {
      [keys].flat().forEach((name) => seen.add(name));
    }
    assert.equal(seen.size, 100);
  },
  async wrong_type_keeps_the_connection() {
    await redis.rPush(key('list'), 'x');
    await assert.rejects(redis.get(key('list')), /WRONGTYPE/);
    assert.equal(await redis.lLen(key('list')), 1);
  },
  async unicode_and_binary() {
    await redis.set(key('ключ 鍵'), 'значение 🦀');
    assert.equal(await redis.get(key('ключ 鍵')), 'значение 🦀');
    await redis.set(binary, binary);
    assert.deepEqual(await buffers.get(binary), binary);
  },
  async large_value() {
    await redis.set(key('big'), big);
    assert.ok(big.equals(await buffers.get(key('big'))));
  },
  async databases() {
    const other = await connect({ database: 3 });
    await other.set(key('db'), 'three');
    assert.equal(await redis.get(key('db')), null);
    assert.equal(await other.get(key('db')), 'three');
    await other.close();
  },
  async many_connections() {
    const work = async (number) => {
      const mine = await connect();
      for (const turn of range(50)) {
        const own = `${number}:${turn}`;
        await Promise.all([mine.incr(key('shared')), mine.set(key(`own:${number}`), own)]);
        assert.equal(await mine.get(key(`own:${number}`)), own);
      }
      await mine.close();
    };
    await Promise.all(range(20).map(work));
    assert.equal(await redis.get(key('shared')), '1000');
  },
};

await run('redis', checks);
