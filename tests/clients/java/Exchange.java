package checks;

import static checks.Checks.expect;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Two channels of a subscription: after leaving the first, its message must not come before that of
 * the second. A library says how it subscribes; its listener calls {@link #heard}.
 */
public abstract class Exchange {
    private static final int MESSAGE_S = 5;

    private final BlockingQueue<List<String>> came = new LinkedBlockingQueue<>();
    private final String suffix;

    /** The suffix is what makes a pattern of a channel's name, or nothing. */
    protected Exchange(String suffix) {
        this.suffix = suffix;
    }

    protected abstract void join(String name) throws Exception;

    protected abstract void leave(String name) throws Exception;

    protected abstract void publish(String name, String text) throws Exception;

    /** What the listener was told: "joined" or "left" and a name, or a message with all that it has. */
    public void heard(String... words) {
        came.add(List.of(words));
    }

    public void run(String channel) throws Exception {
        String first = channel + ":1";
        String second = channel + ":2";
        for (String name : List.of(first, second)) {
            join(name + suffix);
            next("joined", name + suffix);
        }
        publish(first, "one");
        message(first, "one");
        leave(first + suffix);
        next("left", first + suffix);
        publish(first, "nobody");
        publish(second, "two");
        message(second, "two");
        leave(second + suffix);
        next("left", second + suffix);
    }

    private void message(String channel, String text) throws InterruptedException {
        if (suffix.isEmpty()) {
            next(channel, text);
        } else {
            next(channel + suffix, channel, text);
        }
    }

    private void next(String... words) throws InterruptedException {
        expect(came.poll(MESSAGE_S, TimeUnit.SECONDS), List.of(words));
    }
}
