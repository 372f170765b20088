package lettuce;

import static checks.Checks.ask;
import static checks.Checks.atOnce;
import static checks.Checks.errorsEnd;
import static checks.Checks.expect;
import static checks.Checks.groups;
import static checks.Checks.runAll;
import static checks.Checks.tellVersion;

import checks.Checks.Check;
import checks.Exchange;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.pubsub.api.sync.RedisPubSubCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Lettuce, as an application that knows one server, against every kind of pool behind respool.
 *
 * <p>Arguments: GROUP=HOST:PORT…; the groups, the checks and the questions to the runner are those of
 * ../../python/pools.py.
 */
public final class Pools {
    private static final int SPREAD = 100;
    private static final int WRITERS = 4;
    private static final int INCREMENTS = 10;

    private final String group;
    private final RedisURI uri;
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;
    private final RedisCommands<String, String> sync;

    private Pools(String group, String address) {
        this.group = group;
        this.uri = RedisURI.create("redis://" + address);
        // While a node is away the library keeps requests for it, by default for a minute.
        uri.setTimeout(Duration.ofSeconds(5));
        this.client = RedisClient.create(uri);
        this.connection = client.connect();
        this.sync = connection.sync();
    }

    public static void main(String[] args) {
        tellVersion(RedisClient.class);
        groups(args, (group, addresses) -> {
            Pools pools = new Pools(group, addresses.get(0));
            runAll(group + ":", pools.checks());
            close(pools.client);
        });
        System.out.println("end");
    }

    private static void close(RedisClient client) {
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    private Map<String, Check> checks() {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("connect", this::connect);
        checks.put("resp2", () -> speaks(ProtocolVersion.RESP2));
        checks.put("resp3", () -> speaks(ProtocolVersion.RESP3));
        checks.put("pipeline", this::pipeline);
        checks.put("transaction", this::transaction);
        checks.put("watch", this::watch);
        checks.put("subscribe", () -> exchange(client, Kind.CHANNEL, key("channel")));
        checks.put("psubscribe", () -> exchange(client, Kind.PATTERN, key("pattern")));
        checks.put("ssubscribe", () -> exchange(client, Kind.SHARD, key("shard")));
        checks.put("blocking", this::blocking);
        checks.put("scripts", this::scripts);
        checks.put("reconnect_server", () -> reconnect("server"));
        checks.put("reconnect_respool", () -> reconnect("respool"));
        checks.put("resubscribe", this::resubscribe);
        return checks;
    }

    private String key(Object word) {
        return "lettuce-pools:" + group + ":" + word;
    }

    private void connect() {
        expect(sync.ping(), "PONG");
        expect(sync.set(key("s"), "value"), "OK");
        expect(sync.get(key("s")), "value");
    }

    private void speaks(ProtocolVersion protocol) throws Exception {
        RedisClient mine = RedisClient.create(uri);
        mine.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        try (var one = mine.connect()) {
            String name = key(protocol);
            one.sync().hset(name, Map.of("a", "1", "b", "2"));
            expect(one.sync().hgetall(name), Map.of("a", "1", "b", "2"));
            // The library shows both protocols' replies alike.
            String version = protocol == ProtocolVersion.RESP2 ? "resp=2" : "resp=3";
            expect(one.sync().clientInfo().contains(version), true);
            expect(one.sync().blpop(0.05, key("none")), null);
            exchange(mine, Kind.CHANNEL, key("channel" + protocol));
        } finally {
            close(mine);
        }
    }

    /** Requests whose answers nobody waits for yet are a pipeline. */
    private void pipeline() throws Exception {
        sync.set(key("text"), "x");
        var async = connection.async();
        List<RedisFuture<String>> answers = new ArrayList<>();
        for (int i = 0; i < SPREAD; i++) {
            async.set(key(i), String.valueOf(i));
            answers.add(async.get(key(i)));
        }
        RedisFuture<Long> wrong = async.incr(key("text"));
        expect(async.get(key("text")).get(5, TimeUnit.SECONDS), "x");
        for (int i = 0; i < SPREAD; i++) {
            expect(answers.get(i).get(5, TimeUnit.SECONDS), String.valueOf(i));
        }
        try {
            wrong.get(5, TimeUnit.SECONDS);
            throw new IllegalStateException("INCR of a text answered");
        } catch (ExecutionException error) {
            expect(error.getMessage().contains("not an integer"), true);
        }
    }

    private void transaction() {
        String name = key("t");
        sync.multi();
        sync.set(name, "1");
        sync.incr(name);
        expect(sync.exec().stream().toList(), List.of("OK", 2L));
        sync.multi();
        sync.set(name, "discarded");
        expect(sync.discard(), "OK");
        expect(sync.get(name), "2");
    }

    private void watch() throws Exception {
        String name = key("w");
        sync.set(name, "0");
        atOnce(WRITERS, () -> {
            try (var mine = client.connect()) {
                int done = 0;
                while (done < INCREMENTS) {
                    done += increment(mine.sync(), name) ? 1 : 0;
                }
            }
        });
        expect(sync.get(name), String.valueOf(WRITERS * INCREMENTS));
    }

    /** Whether nobody was faster. */
    private static boolean increment(RedisCommands<String, String> mine, String name) {
        mine.watch(name);
        int value = Integer.parseInt(mine.get(name));
        mine.multi();
        mine.set(name, String.valueOf(value + 1));
        return !mine.exec().wasDiscarded();
    }

    private enum Kind {
        CHANNEL,
        PATTERN,
        SHARD
    }

    private static void exchange(RedisClient client, Kind kind, String channel) throws Exception {
        try (var listening = client.connectPubSub();
                var publishing = client.connect()) {
            new Subscription(kind, listening, publishing.sync()).run(channel);
        }
    }

    private static final class Subscription extends Exchange {
        private final Kind kind;
        private final RedisPubSubCommands<String, String> listening;
        private final RedisCommands<String, String> publishing;

        Subscription(
                Kind kind,
                StatefulRedisPubSubConnection<String, String> connection,
                RedisCommands<String, String> publishing) {
            super(kind == Kind.PATTERN ? "*" : "");
            this.kind = kind;
            this.listening = connection.sync();
            this.publishing = publishing;
            connection.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void subscribed(String name, long count) {
                    heard("joined", name);
                }

                @Override
                public void psubscribed(String name, long count) {
                    heard("joined", name);
                }

                @Override
                public void ssubscribed(String name, long count) {
                    heard("joined", name);
                }

                @Override
                public void unsubscribed(String name, long count) {
                    heard("left", name);
                }

                @Override
                public void punsubscribed(String name, long count) {
                    heard("left", name);
                }

                @Override
                public void sunsubscribed(String name, long count) {
                    heard("left", name);
                }

                @Override
                public void message(String name, String text) {
                    heard(name, text);
                }

                @Override
                public void message(String pattern, String name, String text) {
                    heard(pattern, name, text);
                }

                @Override
                public void smessage(String name, String text) {
                    heard(name, text);
                }
            });
        }

        @Override
        protected void join(String name) {
            switch (kind) {
                case CHANNEL -> listening.subscribe(name);
                case PATTERN -> listening.psubscribe(name);
                case SHARD -> listening.ssubscribe(name);
            }
        }

        @Override
        protected void leave(String name) {
            switch (kind) {
                case CHANNEL -> listening.unsubscribe(name);
                case PATTERN -> listening.punsubscribe(name);
                case SHARD -> listening.sunsubscribe(name);
            }
        }

        @Override
        protected void publish(String name, String text) {
            if (kind == Kind.SHARD) {
                publishing.spublish(name, text);
            } else {
                publishing.publish(name, text);
            }
        }
    }

    private void blocking() throws Exception {
        String name = key("list");
        try (var waiting = client.connect()) {
            var got = waiting.async().blpop(10, name);
            sync.rpush(name, "x");
            expect(got.get(10, TimeUnit.SECONDS), KeyValue.just(name, "x"));
            expect(waiting.sync().blpop(0.1, key("none")), null);
        }
    }

    /** The library has no helper that asks by digest first. */
    private void scripts() {
        String text = "return {KEYS[1], ARGV[1]} -- " + System.nanoTime();
        String digest = sync.scriptLoad(text + " again");
        for (int i = 0; i < 10; i++) {
            String[] keys = {key("lua" + i)};
            expect(sync.eval(text, ScriptOutputType.MULTI, keys, "in"), List.of(keys[0], "in"));
            expect(sync.evalsha(digest, ScriptOutputType.MULTI, keys, "sha"), List.of(keys[0], "sha"));
        }
    }

    private void reconnect(String what) throws Exception {
        ask("restart " + what + " " + group);
        errorsEnd(RedisException.class, () -> {
            for (int i = 0; i < SPREAD; i++) {
                sync.set(key(i), String.valueOf(i));
                expect(sync.get(key(i)), String.valueOf(i));
            }
        });
    }

    private void resubscribe() throws Exception {
        String channel = key("again");
        LinkedBlockingQueue<String> came = new LinkedBlockingQueue<>();
        try (var listening = client.connectPubSub()) {
            listening.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void message(String name, String text) {
                    came.add(text);
                }
            });
            listening.sync().subscribe(channel);
            ask("restart respool " + group);
            errorsEnd(RedisException.class, () -> {
                sync.publish(channel, "after");
                if (came.poll(200, TimeUnit.MILLISECONDS) == null) {
                    throw new RedisException("no message");
                }
            });
        }
    }
}
