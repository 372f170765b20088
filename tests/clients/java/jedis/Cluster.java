package jedis;

import static checks.Checks.ask;
import static checks.Checks.attempt;
import static checks.Checks.errorsEnd;
import static checks.Checks.expect;
import static checks.Checks.groups;
import static checks.Checks.runAll;
import static checks.Checks.tellVersion;
import static checks.Checks.until;

import checks.Checks.Check;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ClusterShardInfo;

/**
 * Jedis in cluster mode against respool that shows itself as a cluster.
 *
 * <p>Arguments: GROUP=HOST:PORT[,HOST:PORT…]…; the groups and the questions to the runner ("ask
 * WORDS" on stdout, a line on stdin) are those of ../../python/cluster.py.
 */
public class Cluster {
    private static final int SPREAD = 300;

    private final List<String> addresses;
    /** Whether it is a real cluster. */
    private final boolean real;
    private final RedisClusterClient client;

    private Cluster(List<String> addresses, boolean real) {
        this.addresses = addresses;
        this.real = real;
        // One address is enough: the library finds the others.
        this.client = RedisClusterClient.create(HostAndPort.from(addresses.get(0)));
    }

    public static void main(String[] args) {
        tellVersion(RedisClusterClient.class);
        groups(args, (group, addresses) -> {
            if (group.equals("off")) {
                for (int i = 0; i < addresses.size(); i++) {
                    String address = addresses.get(i);
                    attempt("off:" + i, () -> withoutFacade(address));
                }
                return;
            }
            Cluster cluster = new Cluster(addresses, group.equals("real"));
            runAll(group + ":", cluster.checks(group));
            cluster.client.close();
        });
        System.out.println("end");
    }

    private Map<String, Check> checks(String group) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("nodes", this::nodes);
        checks.put("keys_of_many_slots", this::keysOfManySlots);
        checks.put("pipeline", this::pipeline);
        if (group.equals("balanced")) {
            checks.put("refresh", this::refresh);
            checks.put("all_keys_go_on_when_a_respool_dies", this::allGoOn);
            return checks;
        }
        checks.put("wrong_type_keeps_the_connection", this::wrongType);
        checks.put("one_slot", this::oneSlot);
        checks.put("several_slots", this::severalSlots);
        checks.put("scripts", this::scripts);
        checks.put("scan_and_dbsize", this::scanAndDbSize);
        checks.put("expiry", this::expiry);
        checks.put("binary_and_large_values", this::binaryAndLargeValues);
        checks.put("refresh", this::refresh);
        checks.put("periodic_refresh_and_both_protocols", this::periodicRefresh);
        checks.put("the_older_class", this::olderClass);
        checks.put("cluster_commands", this::clusterCommands);
        if (group.equals("several")) {
            checks.put("every_node_is_used", this::everyNodeIsUsed);
            checks.put("goes_on_when_a_node_dies_and_comes_back", this::goesOn);
        }
        return checks;
    }

    private static String key(Object word) {
        return "jedis-cluster:" + word;
    }

    private static Set<String> allKeys() {
        Set<String> keys = new HashSet<>();
        for (int i = 0; i < SPREAD; i++) {
            keys.add(key(i));
        }
        return keys;
    }

    private void nodes() {
        expect(new TreeSet<>(client.getClusterNodes().keySet()), new TreeSet<>(addresses));
    }

    private void keysOfManySlots() {
        for (int i = 0; i < SPREAD; i++) {
            expect(client.set(key(i), "value " + i), "OK");
            expect(client.get(key(i)), "value " + i);
        }
        expect(client.get(key("absent")), null);
    }

    private void pipeline() {
        List<Response<String>> answers = new ArrayList<>();
        try (AbstractPipeline pipe = client.pipelined()) {
            for (int i = 0; i < SPREAD; i++) {
                pipe.set(key(i), "piped " + i);
                answers.add(pipe.get(key(i)));
            }
            pipe.sync();
        }
        for (int i = 0; i < SPREAD; i++) {
            expect(answers.get(i).get(), "piped " + i);
        }
    }

    private void wrongType() {
        client.del(key("list"));
        client.rpush(key("list"), "x");
        try {
            client.get(key("list"));
            throw new IllegalStateException("GET of a list answered");
        } catch (JedisDataException error) {
            expect(error.getMessage().startsWith("WRONGTYPE"), true);
        }
        expect(client.llen(key("list")), 1L);
    }

    private void oneSlot() {
        String a = key("{tag}a");
        String b = key("{tag}b");
        client.mset(a, "1", b, "2");
        expect(client.mget(a, key("{tag}absent"), b), Arrays.asList("1", null, "2"));
        expect(client.del(a, b), 2L);
    }

    /** The library splits these itself. */
    private void severalSlots() {
        String[] names = new String[40];
        String[] pairs = new String[80];
        List<String> values = new ArrayList<>();
        for (int i = 0; i < names.length; i++) {
            names[i] = key("split:" + i);
            pairs[2 * i] = names[i];
            pairs[2 * i + 1] = "value " + i;
            values.add("value " + i);
        }
        expect(client.mset(pairs), "OK");
        expect(client.mget(names), values);
        expect(client.exists(names), 40L);
        expect(client.del(names), 40L);
    }

    private void scripts() {
        String script = "return {redis.call('set', KEYS[1], ARGV[1]), 7}";
        String sha = client.scriptLoad("return {KEYS[1], ARGV[1]}", key("lua"));
        expect(client.evalsha(sha, List.of(key("lua")), List.of("sha")), List.of(key("lua"), "sha"));
        for (int i = 0; i < 10; i++) {
            Object got = client.eval(script, List.of(key("lua" + i)), List.of("in"));
            expect(got, Arrays.asList("OK", 7L));
        }
    }

    /** A node of the facade answers for all keys, so asking each gives them from each. */
    private void scanAndDbSize() {
        List<String> seen = new ArrayList<>();
        var scan = client.scanIteration(50, key("[0-9]*"));
        while (!scan.isIterationCompleted()) {
            seen.addAll(scan.nextBatch().getResult());
        }
        expect(new HashSet<>(seen), allKeys());
        if (!real) {
            expect(seen.size() >= SPREAD * addresses.size(), true);
            long whole;
            try (Jedis node = new Jedis(HostAndPort.from(addresses.get(0)))) {
                whole = node.dbSize();
            }
            // The library asks every node and adds up.
            expect(client.dbSize(), whole * addresses.size());
        }
    }

    private void expiry() throws InterruptedException {
        client.setex(key("e"), 100, "x");
        long left = client.ttl(key("e"));
        expect(left > 0 && left <= 100, true);
        client.set(key("short"), "x", new SetParams().px(20));
        Thread.sleep(100);
        expect(client.get(key("short")), null);
    }

    private void binaryAndLargeValues() {
        byte[] every = new byte[1 << 20];
        for (int i = 0; i < every.length; i++) {
            every[i] = (byte) i;
        }
        System.arraycopy("\r\n$3\r\n*1\r\n".getBytes(StandardCharsets.US_ASCII), 0, every, 256, 10);
        for (byte[] name : List.of(key("big").getBytes(StandardCharsets.UTF_8), Arrays.copyOf(every, 266))) {
            client.set(name, every);
            expect(Arrays.equals(client.get(name), every), true);
        }
    }

    private void refresh() {
        client.refreshClusterTopology();
        nodes();
        expect(client.get(key(1)), "piped 1");
    }

    private void periodicRefresh() throws InterruptedException {
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            try (RedisClusterClient often = RedisClusterClient.builder()
                    .nodes(Set.of(HostAndPort.from(addresses.get(0))))
                    .clientConfig(DefaultJedisClientConfig.builder().protocol(protocol).build())
                    .topologyRefreshPeriod(Duration.ofMillis(100))
                    .build()) {
                for (int i = 0; i < 10; i++) {
                    expect(often.get(key(i)), "piped " + i);
                    Thread.sleep(40);
                }
            }
        }
    }

    /** What most programs still use. */
    private void olderClass() {
        try (JedisCluster older = new JedisCluster(HostAndPort.from(addresses.get(0)))) {
            for (int i = 0; i < 20; i++) {
                expect(older.get(key(i)), "piped " + i);
            }
            expect(new TreeSet<>(older.getClusterNodes().keySet()), new TreeSet<>(addresses));
        }
    }

    private void clusterCommands() {
        int nodes = addresses.size();
        Set<String> ids = new HashSet<>();
        for (String address : addresses) {
            try (Jedis node = new Jedis(HostAndPort.from(address))) {
                expect(node.clusterKeySlot("foo"), 12182L);
                expect(node.clusterInfo().contains("cluster_state:ok"), true);
                expect(node.clusterSlots().size(), nodes);
                String mine = node.clusterMyId();
                ids.add(mine);
                String[] lines = node.clusterNodes().trim().split("\n");
                expect(lines.length, nodes);
                long myself = Arrays.stream(lines)
                        .filter(line -> line.startsWith(mine + " " + address) && line.contains("myself"))
                        .count();
                expect(myself, 1L);
                Set<String> shown = new HashSet<>();
                for (ClusterShardInfo shard : node.clusterShards()) {
                    var first = shard.getNodes().get(0);
                    expect(first.getRole(), "master");
                    shown.add(first.getIp() + ":" + first.getPort());
                }
                expect(shown, new HashSet<>(addresses));
            }
        }
        expect(ids.size(), nodes);
    }

    private void everyNodeIsUsed() throws IOException {
        keysOfManySlots();
        List<String> counts = ask("clients");
        expect(counts.size(), addresses.size());
        expect(counts.contains("0"), false);
    }

    /** The others take its share over, and give it back. The library asks for nodes after an error. */
    private void goesOn() throws Exception {
        ask("kill 0");
        allAnswer();
        expect(client.getClusterNodes().containsKey(addresses.get(0)), false);
        ask("start 0");
        until(() -> {
            client.refreshClusterTopology();
            return client.getClusterNodes().containsKey(addresses.get(0));
        });
        allAnswer();
    }

    private void allGoOn() throws Exception {
        ask("kill balanced");
        allAnswer();
    }

    /** Waits for a round over all keys without an error. */
    private void allAnswer() throws Exception {
        errorsEnd(JedisException.class, () -> {
            for (String name : allKeys()) {
                client.set(name, name);
                expect(client.get(name), name);
            }
        });
    }

    /** Of a server that is no cluster the library only says that it found no cluster. */
    private static void withoutFacade(String address) {
        try (RedisClusterClient off = RedisClusterClient.create(HostAndPort.from(address))) {
            off.get(key("off"));
        } catch (JedisException error) {
            StringBuilder said = new StringBuilder(error.toString());
            for (Throwable other : error.getSuppressed()) {
                said.append(other);
            }
            expect(said.toString().contains("cluster support disabled"), true);
            return;
        }
        throw new IllegalStateException("took a server for a cluster that says it is none");
    }
}
