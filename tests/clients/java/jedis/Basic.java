package jedis;

import static checks.Checks.attempt;
import static checks.Checks.expect;
import static checks.Checks.tellVersion;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;

/**
 * Jedis with its default settings against HOST PORT: commands on data of all kinds. The rest is in
 * Pools and Cluster.
 */
public class Basic {
    private static final int THREADS = 20;
    private static final int INCREMENTS = 100;

    private final String host;
    private final int port;
    private final RedisClient client;

    private Basic(String host, int port) {
        this.host = host;
        this.port = port;
        this.client = RedisClient.create(host, port);
    }

    public static void main(String[] args) {
        tellVersion(RedisClient.class);
        Basic basic = new Basic(args[0], Integer.parseInt(args[1]));
        attempt("ping", basic::ping);
        attempt("set_get", basic::setGet);
        attempt("incr", basic::incr);
        attempt("mget_mset_del", basic::mgetMsetDel);
        attempt("hashes", basic::hashes);
        attempt("lists", basic::lists);
        attempt("sorted_sets", basic::sortedSets);
        attempt("streams", basic::streams);
        attempt("scan", basic::scan);
        attempt("wrong_type_keeps_the_connection", basic::wrongType);
        attempt("unicode_and_binary", basic::unicodeAndBinary);
        attempt("large_value", basic::largeValue);
        attempt("plain_connection_and_databases", basic::databases);
        attempt("many_connections", basic::manyConnections);
        basic.client.close();
        System.out.println("end");
    }

    private static String key(String word) {
        return "jedis:" + word;
    }

    private void ping() {
        expect(client.ping(), "PONG");
    }

    private void setGet() {
        expect(client.set(key("s"), "value"), "OK");
        expect(client.get(key("s")), "value");
        expect(client.get(key("absent")), null);
    }

    private void incr() {
        expect(client.incr(key("n")), 1L);
        expect(client.incrBy(key("n"), 41), 42L);
    }

    private void mgetMsetDel() {
        client.mset(key("m1"), "1", key("m2"), "2");
        expect(client.mget(key("m1"), key("absent"), key("m2")), Arrays.asList("1", null, "2"));
        expect(client.del(key("m1"), key("m2")), 2L);
    }

    private void hashes() {
        expect(client.hset(key("h"), Map.of("a", "1", "b", "zwei")), 2L);
        expect(client.hgetAll(key("h")), Map.of("a", "1", "b", "zwei"));
    }

    private void lists() {
        expect(client.rpush(key("l"), "a", "b", "c"), 3L);
        expect(client.lrange(key("l"), 1, -1), List.of("b", "c"));
    }

    private void sortedSets() {
        client.zadd(key("z"), Map.of("one", 1.0, "two", 2.5));
        expect(
                client.zrangeWithScores(key("z"), 0, -1),
                List.of(new Tuple("one", 1.0), new Tuple("two", 2.5)));
    }

    private void streams() {
        StreamEntryID id = client.xadd(key("x"), StreamEntryID.NEW_ENTRY, Map.of("field", "value"));
        var entries = client.xrange(key("x"), "-", "+");
        expect(entries.size(), 1);
        expect(entries.get(0).getID(), id);
        expect(entries.get(0).getFields(), Map.of("field", "value"));
    }

    private void scan() {
        for (int i = 0; i < 100; i++) {
            client.set(key("scan:" + i), "x");
        }
        Set<String> seen = new HashSet<>();
        ScanParams params = new ScanParams().match(key("scan:*")).count(10);
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> part = client.scan(cursor, params);
            seen.addAll(part.getResult());
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        expect(seen.size(), 100);
    }

    private void wrongType() {
        client.rpush(key("list"), "x");
        try {
            client.get(key("list"));
            throw new IllegalStateException("GET of a list answered");
        } catch (JedisDataException error) {
            expect(error.getMessage().startsWith("WRONGTYPE"), true);
        }
        expect(client.llen(key("list")), 1L);
    }

    private void unicodeAndBinary() {
        client.set(key("ключ 鍵"), "значение 🦀");
        expect(client.get(key("ключ 鍵")), "значение 🦀");
        byte[] tail = "\r\n$3\r\n*1\r\n".getBytes(StandardCharsets.US_ASCII);
        byte[] every = new byte[256 + tail.length];
        for (int i = 0; i < 256; i++) {
            every[i] = (byte) i;
        }
        System.arraycopy(tail, 0, every, 256, tail.length);
        client.set(every, every);
        expect(Arrays.equals(client.get(every), every), true);
    }

    private void largeValue() {
        byte[] name = key("big").getBytes(StandardCharsets.UTF_8);
        byte[] big = "0123456789abcdef".repeat(1 << 18).getBytes(StandardCharsets.US_ASCII);
        client.set(name, big);
        expect(Arrays.equals(client.get(name), big), true);
    }

    /** The older interface: one connection, which selects its database. */
    private void databases() {
        try (Jedis jedis = new Jedis(host, port)) {
            jedis.select(3);
            jedis.set(key("db"), "three");
            expect(jedis.get(key("db")), "three");
        }
        expect(client.get(key("db")), null);
    }

    private void manyConnections() throws InterruptedException {
        Map<Integer, String> wrong = new HashMap<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            int mine = number;
            Thread thread = new Thread(() -> {
                String why = oneConnection(mine);
                if (why != null) {
                    synchronized (wrong) {
                        wrong.put(mine, why);
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        expect(wrong, Map.of());
        expect(client.get(key("shared")), String.valueOf(THREADS * INCREMENTS));
    }

    /** Returns what went wrong, or null. */
    private String oneConnection(int number) {
        try (Jedis jedis = new Jedis(host, port)) {
            for (int turn = 0; turn < INCREMENTS; turn++) {
                String own = number + ":" + turn;
                jedis.incr(key("shared"));
                jedis.set(key("own:" + number), own);
                expect(jedis.get(key("own:" + number)), own);
            }
            return null;
        } catch (RuntimeException error) {
            return error.toString();
        }
    }
}
