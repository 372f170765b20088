// ioredis with its default settings: commands on data of all kinds.
import Redis from 'ioredis';
import { big, host, port, run } from './basic.mjs';
import { assert, binary, range } from './checks.mjs';

const redis = new Redis(port, host);
redis.on('error', (error) => console.error(error));
const key = (word) => `ioredis:${word}`;

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
    assert.equal(await redis.incrby(key('n'), 41), 42);
  },
  async mget_mset_del() {
    await redis.mset(key('m1'), '1', key('m2'), '2');
    assert.deepEqual(await redis.mget(key('m1'), key('absent'), key('m2')), ['1', null, '2']);
    assert.equal(await redis.del(key('m1'), key('m2')), 2);
  },
  async hashes() {
    assert.equal(await redis.hset(key('h'), { a: 1, b: 'zwei' }), 2);
    assert.deepEqual({ ...(await redis.hgetall(key('h'))) }, { a: '1', b: 'zwei' });
  },
  async lists() {
    assert.equal(await redis.rpush(key('l'), 'a', 'b', 'c'), 3);
    assert.deepEqual(await redis.lrange(key('l'), 1, -1), ['b', 'c']);
  },
  async sorted_sets() {
    await redis.zadd(key('z'), 1, 'one', 2, 'two');
    assert.deepEqual(await redis.zrange(key('z'), 0, -1), ['one', 'two']);
  },
  async streams() {
    const id = await redis.xadd(key('x'), '*', 'field', 'value');
    assert.deepEqual(await redis.xrange(key('x'), '-', '+'), [[id, ['field', 'value']]]);
  },
  async scan_stream() {
    await redis.mset(range(100).flatMap((i) => [key(`scan:${i}`), 'x']));
    const seen = new Set();
    for await (const keys of redis.scanStream({ match: key('scan:*'), count: 10 })) {
      keys.forEach((name) => seen.add(name));
    }
    assert.equal(seen.size, 100);
  },
  async wrong_type_keeps_the_connection() {
    await redis.rpush(key('list'), 'x');
    await assert.rejects(redis.get(key('list')), /WRONGTYPE/);
    assert.equal(await redis.llen(key('list')), 1);
  },
  async unicode_and_binary() {
    await redis.set(key('ключ 鍵'), 'значение 🦀');
    assert.equal(await redis.get(key('ключ 鍵')), 'значение 🦀');
    await redis.set(binary, binary);
    assert.deepEqual(await redis.getBuffer(binary), binary);
  },
  async large_value() {
    await redis.set(key('big'), big);
    assert.ok(big.equals(await redis.getBuffer(key('big'))));
  },
  async databases() {
    const other = new Redis(port, host, { db: 3 });
    await other.set(key('db'), 'three');
    assert.equal(await redis.get(key('db')), null);
    assert.equal(await other.get(key('db')), 'three');
    await other.quit();
  },
  async many_connections() {
    const work = async (number) => {
      const mine = new Redis(port, host);
      for (const turn of range(50)) {
        const own = `${number}:${turn}`;
        await Promise.all([mine.incr(key('shared')), mine.set(key(`own:${number}`), own)]);
        assert.equal(await mine.get(key(`own:${number}`)), own);
      }
      await mine.quit();
    };
    await Promise.all(range(20).map(work));
    assert.equal(await redis.get(key('shared')), '1000');
  },
  async auto_pipelining() {
    const auto = new Redis(port, host, { enableAutoPipelining: true });
    const answers = await Promise.all(range(200).map((i) => auto.set(key(`auto:${i}`), i)));
    assert.ok(answers.every((answer) => answer === 'OK'));
    await auto.quit();
  },
};

await run('ioredis', checks);
