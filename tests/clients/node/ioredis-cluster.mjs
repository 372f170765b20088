// ioredis in cluster mode against respool that shows itself as a cluster.
import { Cluster } from 'ioredis';
import { ask, assert, binary, range, sleep, within } from './checks.mjs';
import { allAnswer, big, comesTrue, runGroups, spread } from './cluster.mjs';

const key = (word) => `ioredis-cluster:${word}`;
const at = (address) => ({ host: address.split(':')[0], port: Number(address.split(':')[1]) });
const sorted = (items) => [...items].sort();

async function connect(address, options = {}) {
  const cluster = new Cluster([at(address)], options);
  cluster.on('error', (error) => console.error(error));
  return cluster;
}

const masters = (cluster) =>
  cluster.nodes('master').map(({ options }) => `${options.host}:${options.port}`);

const checks = {
  async nodes(cluster, { addresses }) {
    assert.equal(await cluster.ping(), 'PONG');
    assert.deepEqual(sorted(masters(cluster)), sorted(addresses));
  },
  async keys_of_many_slots(cluster) {
    for (const i of range(spread)) {
      assert.equal(await cluster.set(key(i), i), 'OK');
      assert.equal(await cluster.get(key(i)), String(i));
    }
    assert.equal(await cluster.get(key('absent')), null);
  },
  // A pipeline of this library must be of one node; many requests at once go to all.
  async pipeline(cluster) {
    const pipe = cluster.pipeline();
    range(spread).forEach((i) => pipe.set(key(`{p}${i}`), i).get(key(`{p}${i}`)));
    const answers = await pipe.exec();
    range(spread).forEach((i) => assert.deepEqual(answers[2 * i + 1], [null, String(i)]));
    await cluster.del(range(spread).map((i) => key(`{p}${i}`)));
    const got = await Promise.all(range(spread).map((i) => cluster.get(key(i))));
    assert.deepEqual(got, range(spread).map(String));
  },
  async auto_pipelining(_, { addresses }) {
    const auto = await connect(addresses[0], { enableAutoPipelining: true });
    const got = await Promise.all(range(spread).map((i) => auto.get(key(i))));
    assert.deepEqual(got, range(spread).map(String));
    await auto.quit();
  },
  async error_in_a_pipeline(cluster) {
    await cluster.set(key('text'), 'x');
    const [wrong, right] = await cluster.pipeline().incr(key('text')).get(key('text')).exec();
    assert.match(String(wrong[0]), /not an integer/);
    assert.deepEqual(right, [null, 'x']);
  },
  async one_slot(cluster) {
    const [a, b, absent] = ['a', 'b', 'absent'].map((word) => key(`{tag}${word}`));
    await cluster.mset(a, '1', b, '2');
    assert.deepEqual(await cluster.mget(a, absent, b), ['1', null, '2']);
    assert.equal(await cluster.del(a, b), 2);
  },
  // The library sends these to the node of the first key and splits nothing: an error of a real
  // cluster, while respool splits them.
  async several_slots(cluster, { real }) {
    const names = range(40).map((i) => key(`split:${i}`));
    const set = () => cluster.mset(names.flatMap((name, i) => [name, i]));
    if (real) {
      await assert.rejects(set(), /CROSSSLOT/);
      return;
    }
    await set();
    assert.deepEqual(await cluster.mget(names), range(40).map(String));
    assert.equal(await cluster.exists(names), 40);
    assert.equal(await cluster.del(names), 40);
  },
  async scripts(cluster) {
    // A defined command is sent as EVALSHA first and as EVAL when the server does not know it.
    cluster.defineCommand('pair', { numberOfKeys: 1, lua: 'return {KEYS[1], ARGV[1]}' });
    for (const i of range(10)) {
      const name = key(`lua${i}`);
      const script = "return {redis.call('set', KEYS[1], ARGV[1]), 7}";
      assert.deepEqual(await cluster.eval(script, 1, name, 'in'), ['OK', 7]);
      assert.deepEqual(await cluster.pair(name, 'sha'), [name, 'sha']);
    }
  },
  // A node of the facade answers for all keys, so asking each gives them from each.
  async scan_and_dbsize(cluster, { addresses, real }) {
    const seen = [];
    const sizes = [];
    for (const node of cluster.nodes('master')) {
      sizes.push(await node.dbsize());
      for await (const keys of node.scanStream({ match: key('[0-9]*'), count: 50 })) {
        seen.push(...keys);
      }
    }
    assert.deepEqual(sorted(new Set(seen)), sorted(range(spread).map(key)));
    if (!real) {
      assert.ok(seen.length >= spread * addresses.length, `${seen.length} keys`);
      assert.equal(new Set(sizes).size, 1);
    }
  },
  async expiry(cluster) {
    await cluster.set(key('e'), 'x', 'EX', 100);
    const left = await cluster.ttl(key('e'));
    assert.ok(left > 0 && left <= 100, `TTL ${left}`);
    await cluster.set(key('short'), 'x', 'PX', 20);
    await sleep(100);
    assert.equal(await cluster.get(key('short')), null);
  },
  async binary_and_large_values(cluster) {
    await cluster.set(key('binary'), binary);
    assert.deepEqual(await cluster.getBuffer(key('binary')), binary);
    await cluster.set(binary, 'as a key');
    assert.equal(await cluster.get(binary), 'as a key');
    await cluster.set(key('big'), big);
    assert.ok(big.equals(await cluster.getBuffer(key('big'))));
  },
  async refresh(cluster, { addresses }) {
    await new Promise((done, failed) =>
      cluster.refreshSlotsCache((error) => (error ? failed(error) : done())));
    assert.deepEqual(sorted(masters(cluster)), sorted(addresses));
    assert.equal(await cluster.get(key(1)), '1');
  },
  // By itself the library refreshes at no fixed times; here five times a second.
  async periodic_refresh(_, { addresses }) {
    const often = await connect(addresses[0], { slotsRefreshInterval: 200 });
    let refreshed = 0;
    often.on('refresh', () => { refreshed += 1; });
    for (const i of range(10)) {
      assert.equal(await often.get(key(i)), String(i));
      await sleep(80);
    }
    assert.ok(refreshed >= 2, `refreshed ${refreshed} times`);
    await often.quit();
  },
  async cluster_commands(cluster, { addresses }) {
    assert.equal(await cluster.cluster('KEYSLOT', 'foo'), 12182);
    assert.match(await cluster.cluster('INFO'), /cluster_state:ok/);
    assert.equal((await cluster.cluster('SLOTS')).length, addresses.length);
    assert.equal((await cluster.cluster('SHARDS')).length, addresses.length);
    const lines = (await cluster.cluster('NODES')).trim().split('\n');
    assert.equal(lines.length, addresses.length);
    const ids = new Set();
    for (const node of cluster.nodes('master')) ids.add(await node.cluster('MYID'));
    assert.deepEqual(sorted(ids), sorted(lines.map((line) => line.split(' ')[0])));
  },
  // With this setting the library sends READONLY on its connections.
  async reads_from_replicas(_, { addresses }) {
    const reader = await connect(addresses[0], { scaleReads: 'all' });
    for (const i of range(20)) assert.equal(await reader.get(key(i)), String(i));
    await reader.quit();
  },
};

const withSeveral = {
  async every_node_is_used(cluster, { addresses }) {
    await Promise.all(range(spread).map((i) => cluster.set(key(i), i)));
    const counts = await ask('clients');
    assert.equal(counts.length, addresses.length);
    assert.ok(!counts.includes('0'), `connections at each node: ${counts}`);
  },
  async goes_on_when_a_node_dies_and_comes_back(cluster, { addresses }) {
    // The others take its share over, and give it back when the library asks for the nodes again.
    const names = range(spread).map(key);
    await ask('kill 0');
    await allAnswer(cluster, names);
    await comesTrue(() => !masters(cluster).includes(addresses[0]));
    await allAnswer(cluster, names);
    await ask('start 0');
    await allAnswer(cluster, names);
    await comesTrue(async () => {
      await new Promise((done) => cluster.refreshSlotsCache(done));
      return masters(cluster).includes(addresses[0]);
    });
    await allAnswer(cluster, names);
  },
};

// Whatever is asked of it, the library fails at once when no node tells slots.
async function withoutFacade(address) {
  const cluster = new Cluster([at(address)], { clusterRetryStrategy: null });
  const told = new Promise((resolve) => cluster.on('error', resolve));
  await assert.rejects(within(5_000, cluster.set(key('off'), 'x')));
  const error = await within(5_000, told);
  assert.match(String(error.lastNodeError ?? error), /cluster support disabled/);
  cluster.disconnect();
}

await runGroups({
  library: 'ioredis', connect, key, checks, withSeveral, withoutFacade,
  close: (cluster) => cluster.quit(),
});
