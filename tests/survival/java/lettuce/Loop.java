package survival.lettuce;

import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisListCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import survival.Tasks;

/** Lettuce with its defaults: one connection that comes back, and a worker that waits with BLPOP. */
public final class Loop extends Tasks {
    private final RedisListCommands<String, String> commands = commands();

    public static void main(String[] words) throws Exception {
        new Loop().run(words, RedisClient.class);
    }

    private static RedisListCommands<String, String> commands() {
        Place place = Place.given();
        RedisURI node = RedisURI.create(place.host(), place.port());
        return switch (place.kind()) {
            case "redis-sentinel" -> RedisClient.create(
                            RedisURI.Builder.sentinel(place.host(), place.port(), place.group()).build())
                    .connect()
                    .sync();
            case "redis-cluster" -> RedisClusterClient.create(node).connect().sync();
            default -> RedisClient.create(node).connect().sync();
        };
    }

    @Override
    protected void add(String task) {
        commands.rpush(QUEUE, task);
    }

    @Override
    protected String take() {
        KeyValue<String, String> taken = commands.blpop(WAIT_S, QUEUE);
        return taken == null ? null : taken.getValue();
    }

    @Override
    protected boolean isReply(Throwable error) {
        return error instanceof RedisCommandExecutionException;
    }
}
