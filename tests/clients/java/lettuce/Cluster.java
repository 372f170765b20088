package lettuce;

import static checks.Checks.ask;
import static checks.Checks.attempt;
import static checks.Checks.errorsEnd;
import static checks.Checks.expect;
import static checks.Checks.groups;
import static checks.Checks.runAll;
import static checks.Checks.tellVersion;
import static checks.Checks.until;

import checks.Checks.Check;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

/**
 * Lettuce in cluster mode against respool that shows itself as a cluster.
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
    private final StatefulRedisClusterConnection<String, String> connection;
    private final RedisAdvancedClusterCommands<String, String> sync;

    private Cluster(List<String> addresses, boolean real) {
        this.addresses = addresses;
        this.real = real;
        // One address is enough: the library finds the others.
        this.client = RedisClusterClient.create(uri(addresses.get(0)));
        this.connection = client.connect();
        this.sync = connection.sync();
    }

    private void close() {
        connection.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    /** While a node is away the library keeps requests for it, by default for a minute. */
    private static RedisURI uri(String address) {
        RedisURI uri = RedisURI.create("redis://" + address);
        uri.setTimeout(Duration.ofSeconds(5));
        return uri;
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
            cluster.close();
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
        checks.put("reads_from_replicas", this::readsFromReplicas);
        checks.put("cluster_commands", this::clusterCommands);
        if (group.equals("several")) {
            checks.put("every_node_is_used", this::everyNodeIsUsed);
            checks.put("goes_on_when_a_node_dies_and_comes_back", this::goesOn);
        }
        return checks;
    }

    private static String key(Object word) {
        return "lettuce-cluster:" + word;
    }

    private static Set<String> allKeys() {
        Set<String> keys = new HashSet<>();
        for (int i = 0; i < SPREAD; i++) {
            keys.add(key(i));
        }
        return keys;
    }

    private static Set<String> known(RedisClusterClient client) {
        Set<String> known = new TreeSet<>();
        for (RedisClusterNode node : client.getPartitions()) {
            expect(node.is(RedisClusterNode.NodeFlag.MASTER), true);
            known.add(node.getUri().getHost() + ":" + node.getUri().getPort());
        }
        return known;
    }

    private void nodes() {
        expect(sync.ping(), "PONG");
        expect(known(client), new TreeSet<>(addresses));
    }

    private void keysOfManySlots() {
        for (int i = 0; i < SPREAD; i++) {
            expect(sync.set(key(i), "value " + i), "OK");
            expect(sync.get(key(i)), "value " + i);
        }
        expect(sync.get(key("absent")), null);
    }

    /** Requests whose answers nobody waits for yet are a pipeline to each node. */
    private void pipeline() throws Exception {
        var async = connection.async();
        List<RedisFuture<String>> answers = new ArrayList<>();
        for (int i = 0; i < SPREAD; i++) {
            async.set(key(i), "piped " + i);
            answers.add(async.get(key(i)));
        }
        for (int i = 0; i < SPREAD; i++) {
            expect(answers.get(i).get(5, TimeUnit.SECONDS), "piped " + i);
        }
    }

    private void wrongType() {
        sync.del(key("list"));
        sync.rpush(key("list"), "x");
        try {
            sync.get(key("list"));
            throw new IllegalStateException("GET of a list answered");
        } catch (RedisException error) {
            expect(error.getMessage().startsWith("WRONGTYPE"), true);
        }
        expect(sync.llen(key("list")), 1L);
    }

    private void oneSlot() {
        String a = key("{tag}a");
        String b = key("{tag}b");
        String absent = key("{tag}absent");
        sync.mset(Map.of(a, "1", b, "2"));
        expect(
                sync.mget(a, absent, b),
                List.of(KeyValue.just(a, "1"), KeyValue.empty(absent), KeyValue.just(b, "2")));
        expect(sync.del(a, b), 2L);
    }

    /** The library splits these itself. */
    private void severalSlots() {
        String[] names = new String[40];
        Map<String, String> pairs = new HashMap<>();
        for (int i = 0; i < names.length; i++) {
            names[i] = key("split:" + i);
            pairs.put(names[i], "value " + i);
        }
        expect(sync.mset(pairs), "OK");
        List<KeyValue<String, String>> got = sync.mget(names);
        expect(got.size(), names.length);
        for (int i = 0; i < names.length; i++) {
            expect(got.get(i), KeyValue.just(names[i], "value " + i));
        }
        expect(sync.exists(names), 40L);
        expect(sync.del(names), 40L);
    }

    private void scripts() {
        String script = "return {redis.call('set', KEYS[1], ARGV[1]), 7}";
        String sha = sync.scriptLoad("return {KEYS[1], ARGV[1]}");
        for (int i = 0; i < 10; i++) {
            String[] keys = {key("lua" + i)};
            expect(sync.eval(script, ScriptOutputType.MULTI, keys, "in"), Arrays.asList("OK", 7L));
            expect(sync.evalsha(sha, ScriptOutputType.MULTI, keys, "sha"), List.of(keys[0], "sha"));
        }
    }

    /** A node of the facade answers for all keys, so asking each gives them from each. */
    private void scanAndDbSize() {
        List<String> seen = new ArrayList<>();
        ScanArgs args = ScanArgs.Builder.limit(50).match(key("[0-9]*"));
        KeyScanCursor<String> cursor = sync.scan(ScanCursor.INITIAL, args);
        seen.addAll(cursor.getKeys());
        while (!cursor.isFinished()) {
            cursor = sync.scan(cursor, args);
            seen.addAll(cursor.getKeys());
        }
        expect(new HashSet<>(seen), allKeys());
        expect(new HashSet<>(sync.keys(key("[0-9]*"))), allKeys());
        if (!real) {
            expect(seen.size() >= SPREAD * addresses.size(), true);
            String[] first = addresses.get(0).split(":");
            long whole = sync.getConnection(first[0], Integer.parseInt(first[1])).dbsize();
            // The library asks every node and adds up.
            expect(sync.dbsize(), whole * addresses.size());
        }
    }

    private void expiry() throws InterruptedException {
        sync.setex(key("e"), 100, "x");
        long left = sync.ttl(key("e"));
        expect(left > 0 && left <= 100, true);
        sync.set(key("short"), "x", SetArgs.Builder.px(20));
        Thread.sleep(100);
        expect(sync.get(key("short")), null);
    }

    private void binaryAndLargeValues() {
        byte[] every = new byte[1 << 20];
        for (int i = 0; i < every.length; i++) {
            every[i] = (byte) i;
        }
        System.arraycopy("\r\n$3\r\n*1\r\n".getBytes(StandardCharsets.US_ASCII), 0, every, 256, 10);
        try (var bytes = client.connect(ByteArrayCodec.INSTANCE)) {
            for (byte[] name : List.of(key("big").getBytes(StandardCharsets.UTF_8), Arrays.copyOf(every, 266))) {
                bytes.sync().set(name, every);
                expect(Arrays.equals(bytes.sync().get(name), every), true);
            }
        }
    }

    private void refresh() {
        client.refreshPartitions();
        nodes();
        expect(sync.get(key(1)), "piped 1");
    }

    private void periodicRefresh() throws InterruptedException {
        for (ProtocolVersion protocol : ProtocolVersion.values()) {
            RedisClusterClient often = RedisClusterClient.create(uri(addresses.get(0)));
            often.setOptions(ClusterClientOptions.builder()
                    .protocolVersion(protocol)
                    .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                            .enablePeriodicRefresh(Duration.ofMillis(100))
                            .enableAllAdaptiveRefreshTriggers()
                            .build())
                    .build());
            try (var mine = often.connect()) {
                for (int i = 0; i < 10; i++) {
                    expect(mine.sync().get(key(i)), "piped " + i);
                    Thread.sleep(40);
                }
            }
            expect(known(often), new TreeSet<>(addresses));
            often.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    /** With this setting the library sends READONLY on its connections for reads. */
    private void readsFromReplicas() {
        try (var reader = client.connect()) {
            reader.setReadFrom(ReadFrom.ANY);
            for (int i = 0; i < 20; i++) {
                expect(reader.sync().get(key(i)), "piped " + i);
            }
        }
    }

    private void clusterCommands() {
        int nodes = addresses.size();
        Set<String> ids = new HashSet<>();
        for (String address : addresses) {
            String[] parts = address.split(":");
            var node = sync.getConnection(parts[0], Integer.parseInt(parts[1]));
            expect(node.clusterKeyslot("foo"), 12182L);
            expect(node.clusterInfo().contains("cluster_state:ok"), true);
            expect(node.clusterSlots().size(), nodes);
            expect(node.clusterShards().size(), nodes);
            String mine = node.clusterMyId();
            ids.add(mine);
            String[] lines = node.clusterNodes().trim().split("\n");
            expect(lines.length, nodes);
            long myself = Arrays.stream(lines)
                    .filter(line -> line.startsWith(mine + " " + address) && line.contains("myself"))
                    .count();
            expect(myself, 1L);
        }
        expect(ids.size(), nodes);
    }

    private void everyNodeIsUsed() throws IOException {
        keysOfManySlots();
        List<String> counts = ask("clients");
        expect(counts.size(), addresses.size());
        expect(counts.contains("0"), false);
    }

    /**
     * The others take its share over, and give it back. By itself the library never asks for the
     * nodes again; its documentation recommends both kinds of refresh.
     */
    private void goesOn() throws Exception {
        RedisClusterClient refreshing = RedisClusterClient.create(uri(addresses.get(0)));
        refreshing.setOptions(ClusterClientOptions.builder()
                .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enablePeriodicRefresh(Duration.ofSeconds(2))
                        .enableAllAdaptiveRefreshTriggers()
                        .build())
                .build());
        try (var mine = refreshing.connect()) {
            expect(share(refreshing) > 0, true);
            ask("kill 0");
            allAnswer(mine.sync());
            expect(share(refreshing), 0);
            ask("start 0");
            until(() -> share(refreshing) > 0);
            allAnswer(mine.sync());
        } finally {
            refreshing.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    /** How many slots the library takes for those of the first node. */
    private int share(RedisClusterClient client) {
        int slots = 0;
        for (RedisClusterNode node : client.getPartitions()) {
            if (addresses.get(0).equals(node.getUri().getHost() + ":" + node.getUri().getPort())) {
                slots = node.getSlots().size();
            }
        }
        return slots;
    }

    private void allGoOn() throws Exception {
        ask("kill balanced");
        allAnswer(sync);
    }

    /** Waits for a round over all keys without an error. */
    private static void allAnswer(RedisAdvancedClusterCommands<String, String> sync) throws Exception {
        errorsEnd(RedisException.class, () -> {
            for (String name : allKeys()) {
                sync.set(name, name);
                expect(sync.get(name), name);
            }
        });
    }

    private static void withoutFacade(String address) {
        RedisClusterClient off = RedisClusterClient.create(uri(address));
        try {
            off.connect().close();
        } catch (RedisException error) {
            StringBuilder said = new StringBuilder();
            tell(error, said);
            expect(said.toString().contains("cluster support disabled") ? "told" : said.toString(), "told");
            return;
        } finally {
            off.shutdown(0, 1, TimeUnit.SECONDS);
        }
        throw new IllegalStateException("took a server for a cluster that says it is none");
    }

    /** Everything that an exception says, with its causes and what it suppressed. */
    private static void tell(Throwable error, StringBuilder said) {
        said.append(error).append("; ");
        for (Throwable other : error.getSuppressed()) {
            tell(other, said);
        }
        if (error.getCause() != null) {
            tell(error.getCause(), said);
        }
    }
}
