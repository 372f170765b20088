package survival.spring;

import io.lettuce.core.RedisCommandExecutionException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import survival.Tasks;

/** Spring Data Redis over Lettuce with its defaults: a template that adds to a list and waits for it. */
public final class Loop extends Tasks {
    private final StringRedisTemplate template = template();

    public static void main(String[] words) throws Exception {
        new Loop().run(words, StringRedisTemplate.class);
    }

    private static StringRedisTemplate template() {
        Place place = Place.given();
        String node = place.nodes()[0];
        LettuceConnectionFactory factory = switch (place.kind()) {
            case "redis-sentinel" -> new LettuceConnectionFactory(
                    new RedisSentinelConfiguration(place.group(), Set.of(node)));
            case "redis-cluster" -> new LettuceConnectionFactory(
                    new RedisClusterConfiguration(List.of(node)));
            default -> new LettuceConnectionFactory(place.host(), place.port());
        };
        factory.afterPropertiesSet();
        factory.start();
        return new StringRedisTemplate(factory);
    }

    @Override
    protected void add(String task) {
        template.opsForList().rightPush(QUEUE, task);
    }

    @Override
    protected String take() {
        return template.opsForList().leftPop(QUEUE, Duration.ofSeconds(WAIT_S));
    }

    @Override
    protected boolean isReply(Throwable error) {
        return error instanceof RedisCommandExecutionException;
    }
}
