// node-redis in cluster mode against respool that shows itself as a cluster.
import { RESP_TYPES, createCluster } from 'redis';
import slotOf from 'cluster-key-slot';
import { ask, assert, binary, range, sleep } from './checks.mjs';
import { allAnswer, big, comesTrue, runGroups, spread } from './cluster.mjs';

const key = (word) => `node-redis-cluster:${word}`;
const sorted = (items) => [...items].sort();

async function connect(address, options = {}) {
  const cluster = createCluster({ rootNodes: [{ url: `redis://${address}` }], ...options });
  // Errors of the nodes' connections come here as well.
  cluster.on('error', (error) => console.error(error));
  cluster.on('node-error', (error) => console.error(error));
  await cluster.connect();
  return cluster;
}

const masters = (cluster) => cluster.masters.map(({ address }) => address);
const buffers = (cluster) => cluster.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });

const checks = {
  async nodes(cluster, { addresses }) {
    assert.deepEqual(sorted(masters(cluster)), sorted(addresses));
  },
  async keys_of_many_slots(cluster) {
    for (const i of range(spread)) {
      assert.equal(await cluster.set(key(i), i), 'OK');
      assert.equal(await cluster.get(key(i)), String(i));
    }
    assert.equal(await cluster.get(key('absent')), null);
  },
  // The library sends what is asked for in one tick as one pipeline a node; a batch is of one slot.
  async pipeline(cluster) {
    const got = await Promise.all(range(spread).map((i) => cluster.get(key(i))));
    assert.deepEqual(got, range(spread).map(String));
    const name = key('batch');
    assert.deepEqual(await cluster.multi().set(name, '1').get(name).execAsPipeline(), ['OK', '1']);
  },
  async wrong_type_keeps_the_connection(cluster) {
    await cluster.del(key('list'));
    await cluster.rPush(key('list'), 'x');
    await assert.rejects(cluster.get(key('list')), /WRONGTYPE/);
    assert.equal(await cluster.lLen(key('list')), 1);
  },
  async one_slot(cluster) {
    const [a, b, absent] = ['a', 'b', 'absent'].map((word) => key(`{tag}${word}`));
    await cluster.mSet({ [a]: '1', [b]: '2' });
    assert.deepEqual(await cluster.mGet([a, absent, b]), ['1', null, '2']);
    assert.equal(await cluster.del([a, b]), 2);
  },
  // The library splits these by slot and puts the replies together.
  async several_slots(cluster) {
    const names = range(40).map((i) => key(`split:${i}`));
    await cluster.mSet(names.map((name, i) => [name, String(i)]));
    assert.deepEqual(await cluster.mGet(names), range(40).map(String));
    assert.equal(await cluster.exists(names), 40);
    assert.equal(await cluster.del(names), 40);
  },
  async scripts(cluster) {
    const script = "return {redis.call('set', KEYS[1], ARGV[1]), 7}";
    const sha = await cluster.scriptLoad('return {KEYS[1], ARGV[1]}');
    for (const i of range(10)) {
      const options = { keys: [key(`lua${i}`)], arguments: ['in'] };
      assert.deepEqual(await cluster.eval(script, options), ['OK', 7]);
      assert.deepEqual(await cluster.evalSha([sha].flat()[0], options), [options.keys[0], 'in']);
    }
  },
  // A node of the facade answers for all keys, so asking each gives them from each.
  async scan_and_dbsize(cluster, { addresses, real }) {
    const seen = [];
    for (const master of cluster.masters) {
      const node = await cluster.nodeClient(master);
      for await (const keys of node.scanIterator({ MATCH: key('[0-9]*'), COUNT: 50 })) {
        seen.push(...[keys].flat());
      }
    }
    assert.deepEqual(sorted(new Set(seen)), sorted(range(spread).map(key)));
    if (!real) {
      assert.ok(seen.length >= spread * addresses.length, `${seen.length} keys`);
      // The library asks every node and adds up. Keys of other checks expire, so a number counts that is the same before and behind it.
      const node = await cluster.nodeClient(cluster.masters[0]);
      let [before, total, behind] = [0, 0, -1];
      for (let tries = 0; before !== behind && tries < 20; tries += 1) {
        before = await node.dbSize();
        total = await cluster.dbSize();
        behind = await node.dbSize();
      }
      assert.equal(total, behind * addresses.length);
    }
  },
  // The library goes over the nodes with one cursor of its own.
  async scan_of_the_cluster(cluster) {
    const seen = new Set();
    let cursor = '0';
    do {
      const part = await cluster.scan(cursor, { MATCH: key('[0-9]*'), COUNT: 50 });
      part.keys.forEach((name) => seen.add(name));
      cursor = String(part.cursor);
    } while (cursor !== '0');
    assert.deepEqual(sorted(seen), sorted(range(spread).map(key)));
  },
  async expiry(cluster) {
    await cluster.set(key('e'), 'x', { EX: 100 });
    const left = await cluster.ttl(key('e'));
    assert.ok(left > 0 && left <= 100, `TTL ${left}`);
    await cluster.set(key('short'), 'x', { PX: 20 });
    await sleep(100);
    assert.equal(await cluster.get(key('short')), null);
  },
  async binary_and_large_values(cluster) {
    await cluster.set(key('binary'), binary);
    assert.deepEqual(await buffers(cluster).get(key('binary')), binary);
    await cluster.set(binary, 'as a key');
    assert.equal(await cluster.get(binary), 'as a key');
    await cluster.set(key('big'), big);
    assert.ok(big.equals(await buffers(cluster).get(key('big'))));
  },
  async refresh(cluster, { addresses }) {
    await cluster._slots.rediscover((await cluster.nodeClient(cluster.masters[0])));
    assert.deepEqual(sorted(masters(cluster)), sorted(addresses));
    assert.equal(await cluster.get(key(1)), '1');
  },
  async cluster_commands(cluster, { addresses }) {
    const node = await cluster.nodeClient(cluster.masters[0]);
    assert.equal(await node.clusterKeySlot('foo'), 12182);
    assert.match(await node.clusterInfo(), /cluster_state:ok/);
    assert.equal((await node.clusterSlots()).length, addresses.length);
    assert.equal((await node.sendCommand(['CLUSTER', 'SHARDS'])).length, addresses.length);
    const lines = (await node.clusterNodes()).trim().split('\n');
    assert.equal(lines.length, addresses.length);
    const ids = new Set();
    for (const master of cluster.masters) {
      ids.add(await (await cluster.nodeClient(master)).clusterMyId());
    }
    assert.deepEqual(sorted(ids), sorted(lines.map((line) => line.split(' ')[0])));
  },
  // With this setting the library sends READONLY where it reads from replicas.
  async reads_from_replicas_and_resp2(_, { addresses }) {
    const reader = await connect(addresses[0], { useReplicas: true, RESP: 2 });
    for (const i of range(20)) assert.equal(await reader.get(key(i)), String(i));
    await reader.close();
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
    // The others take its share over. The library asks for nodes five seconds after it lost one.
    const names = range(spread).map(key);
    const share = () => names.filter(
      (name) => cluster._slots.slots[slotOf(name)].master.address === addresses[0]);
    const first = share();
    assert.ok(first.length > spread / 5 && first.length < spread / 2, `${first.length} keys`);
    await ask('kill 0');
    await allAnswer(cluster, names);
    assert.deepEqual(share(), []);
    // It has no reason to ask again when the node is back, and goes on as it is until it does.
    await ask('start 0');
    await allAnswer(cluster, names);
    const back = async () => {
      await cluster._slots.rediscover(await cluster.nodeClient(cluster.masters[0]));
      return share().length === first.length;
    };
    await comesTrue(back);
    await allAnswer(cluster, names);
  },
};

// The promise says that no node can be used; why, is told by events.
async function withoutFacade(address) {
  const cluster = createCluster({ rootNodes: [{ url: `redis://${address}` }] });
  const told = [];
  cluster.on('error', (error) => told.push(String(error)));
  await assert.rejects(cluster.connect(), /root nodes/);
  assert.match(told.join(), /cluster support disabled/);
}

await runGroups({
  library: 'redis', connect, key, checks, withSeveral, withoutFacade,
  close: (cluster) => cluster.close(),
});
