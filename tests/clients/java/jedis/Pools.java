package jedis;

import static checks.Checks.ask;
import static checks.Checks.atOnce;
import static checks.Checks.errorsEnd;
import static checks.Checks.expect;
import static checks.Checks.groups;
import static checks.Checks.runAll;
import static checks.Checks.tellVersion;

import checks.Checks.Check;
import checks.Checks.Lacks;
import checks.Exchange;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.KeyValue;

/**
 * Jedis, as an application that knows one server, against every kind of pool behind respool.
 *
 * <p>Arguments: GROUP=HOST:PORT…; the groups, the checks and the questions to the runner are those of
 * ../../python/pools.py.
 */
public final class Pools {
    private static final int SPREAD = 100;
    private static final int WRITERS = 4;
    private static final int INCREMENTS = 10;

    private final String group;
    private final HostAndPort address;
    private final RedisClient client;

    private Pools(String group, HostAndPort address) {
        this.group = group;
        this.address = address;
        this.client = RedisClient.create(address);
    }

    public static void main(String[] args) {
        tellVersion(RedisClient.class);
        groups(args, (group, addresses) -> {
            Pools pools = new Pools(group, HostAndPort.from(addresses.get(0)));
            runAll(group + ":", pools.checks());
            pools.client.close();
        });
        System.out.println("end");
        // A check that failed may have left a thread that listens.
        System.exit(0);
    }

    private Map<String, Check> checks() {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("connect", this::connect);
        checks.put("resp2", () -> speaks(RedisProtocol.RESP2));
        checks.put("resp3", () -> speaks(RedisProtocol.RESP3));
        checks.put("pipeline", this::pipeline);
        checks.put("transaction", this::transaction);
        checks.put("watch", this::watch);
        checks.put("subscribe", () -> new Subscription(client, "").run(key("channel")));
        checks.put("psubscribe", () -> new Subscription(client, "*").run(key("pattern")));
        checks.put("ssubscribe", () -> {
            throw new Lacks("the library has sharded channels in cluster mode only");
        });
        checks.put("blocking", this::blocking);
        checks.put("scripts", this::scripts);
        checks.put("reconnect_server", () -> reconnect("server"));
        checks.put("reconnect_respool", () -> reconnect("respool"));
        checks.put("resubscribe", () -> {
            throw new Lacks("the library's subscription ends with an exception");
        });
        return checks;
    }

    private String key(Object word) {
        return "jedis-pools:" + group + ":" + word;
    }

    private void connect() {
        expect(client.ping(), "PONG");
        expect(client.set(key("s"), "value"), "OK");
        expect(client.get(key("s")), "value");
    }

    private void speaks(RedisProtocol protocol) throws Exception {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
        String name = key(protocol);
        try (Jedis one = new Jedis(address, config)) {
            one.hset(name, Map.of("a", "1", "b", "2"));
            expect(one.hgetAll(name), Map.of("a", "1", "b", "2"));
            // The library shows both protocols' replies alike.
            expect(one.clientInfo().contains("resp=" + protocol.version()), true);
            expect(one.blpop(0.05, key("none")), null);
        }
        try (RedisClient mine = RedisClient.builder().hostAndPort(address).clientConfig(config).build()) {
            new Subscription(mine, "").run(key("channel" + protocol));
        }
    }

    private void pipeline() {
        client.set(key("text"), "x");
        List<Response<String>> answers = new ArrayList<>();
        try (Pipeline pipe = client.pipelined()) {
            for (int i = 0; i < SPREAD; i++) {
                pipe.set(key(i), String.valueOf(i));
                answers.add(pipe.get(key(i)));
            }
            Response<Long> wrong = pipe.incr(key("text"));
            Response<String> right = pipe.get(key("text"));
            pipe.sync();
            for (int i = 0; i < SPREAD; i++) {
                expect(answers.get(i).get(), String.valueOf(i));
            }
            expect(right.get(), "x");
            wrong.get();
            throw new IllegalStateException("INCR of a text answered");
        } catch (JedisDataException error) {
            expect(error.getMessage().contains("not an integer"), true);
        }
    }

    private void transaction() {
        String name = key("t");
        try (AbstractTransaction tx = client.multi()) {
            tx.set(name, "1");
            Response<Long> number = tx.incr(name);
            expect(tx.exec(), List.of("OK", 2L));
            expect(number.get(), 2L);
        }
        try (AbstractTransaction tx = client.multi()) {
            tx.set(name, "discarded");
            expect(tx.discard(), "OK");
        }
        expect(client.get(name), "2");
    }

    private void watch() throws Exception {
        String name = key("w");
        client.set(name, "0");
        atOnce(WRITERS, () -> {
            int done = 0;
            while (done < INCREMENTS) {
                done += increment(name) ? 1 : 0;
            }
        });
        expect(client.get(name), String.valueOf(WRITERS * INCREMENTS));
    }

    /** Whether nobody was faster. */
    private boolean increment(String name) {
        try (AbstractTransaction tx = client.transaction(false)) {
            tx.watch(name);
            int value = Integer.parseInt(client.get(name));
            tx.multi();
            tx.set(name, String.valueOf(value + 1));
            return tx.exec() != null;
        }
    }

    /** The library's call to subscribe returns when nothing is subscribed any more. */
    private static final class Subscription extends Exchange {
        private final RedisClient client;
        private final boolean patterns;
        private CompletableFuture<Void> listening;

        private final JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String name, int count) {
                heard("joined", name);
            }

            @Override
            public void onPSubscribe(String name, int count) {
                heard("joined", name);
            }

            @Override
            public void onUnsubscribe(String name, int count) {
                heard("left", name);
            }

            @Override
            public void onPUnsubscribe(String name, int count) {
                heard("left", name);
            }

            @Override
            public void onMessage(String name, String text) {
                heard(name, text);
            }

            @Override
            public void onPMessage(String pattern, String name, String text) {
                heard(pattern, name, text);
            }
        };

        Subscription(RedisClient client, String suffix) {
            super(suffix);
            this.client = client;
            this.patterns = !suffix.isEmpty();
        }

        @Override
        protected void join(String name) {
            if (listening == null) {
                listening = CompletableFuture.runAsync(() -> listen(name));
            } else if (patterns) {
                listener.psubscribe(name);
            } else {
                listener.subscribe(name);
            }
        }

        private void listen(String name) {
            try {
                if (patterns) {
                    client.psubscribe(listener, name);
                } else {
                    client.subscribe(listener, name);
                }
            } catch (JedisException error) {
                heard(error.toString());
                throw error;
            }
        }

        @Override
        protected void leave(String name) {
            if (patterns) {
                listener.punsubscribe(name);
            } else {
                listener.unsubscribe(name);
            }
        }

        @Override
        protected void publish(String name, String text) {
            client.publish(name, text);
        }
    }

    private void blocking() throws Exception {
        String name = key("list");
        var got = CompletableFuture.supplyAsync(() -> client.blpop(10.0, name));
        client.rpush(name, "x");
        expect(got.get(10, TimeUnit.SECONDS), new KeyValue<>(name, "x"));
        expect(client.blpop(0.1, key("none")), null);
    }

    /** The library has no helper that asks by digest first. */
    private void scripts() {
        String text = "return {KEYS[1], ARGV[1]} -- " + System.nanoTime();
        String digest = client.scriptLoad(text + " again", key("lua"));
        for (int i = 0; i < 10; i++) {
            String name = key("lua" + i);
            expect(client.eval(text, List.of(name), List.of("in")), List.of(name, "in"));
            expect(client.evalsha(digest, List.of(name), List.of("sha")), List.of(name, "sha"));
        }
    }

    private void reconnect(String what) throws Exception {
        ask("restart " + what + " " + group);
        errorsEnd(JedisException.class, () -> {
            for (int i = 0; i < SPREAD; i++) {
                client.set(key(i), String.valueOf(i));
                expect(client.get(key(i)), String.valueOf(i));
            }
        });
    }
}
