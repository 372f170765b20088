package survival.jedis;

import java.util.List;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import survival.Tasks;

/** jedis with its defaults: a pool of connections, and a worker that waits with BLPOP. */
public final class Loop extends Tasks {
    private final UnifiedJedis client = client();

    public static void main(String[] words) throws Exception {
        new Loop().run(words, UnifiedJedis.class);
    }

    private static UnifiedJedis client() {
        Place place = Place.given();
        HostAndPort node = new HostAndPort(place.host(), place.port());
        return switch (place.kind()) {
            case "redis-sentinel" -> RedisSentinelClient.builder()
                    .masterName(place.group())
                    .sentinels(Set.of(node))
                    .clientConfig(DefaultJedisClientConfig.builder().build())
                    .build();
            case "redis-cluster" -> RedisClusterClient.builder().nodes(Set.of(node)).build();
            default -> RedisClient.builder().hostAndPort(node).build();
        };
    }

    @Override
    protected void add(String task) {
        client.rpush(QUEUE, task);
    }

    @Override
    protected String take() {
        List<String> taken = client.blpop(WAIT_S, QUEUE);
        return taken == null ? null : taken.get(1);
    }

    @Override
    protected boolean isReply(Throwable error) {
        return error instanceof JedisDataException;
    }
}
