package survival;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * What the programs in Java share, explained in ../python/shared.py: a library says how it adds a
 * task to a list and waits for one.
 */
public abstract class Tasks {
    public static final String QUEUE = "{survival}:queue";
    public static final int WAIT_S = 2;
    private static final int PAUSE_MS = 100;

    /** Where to connect to. */
    public record Place(String kind, String[] nodes, String group) {
        public static Place given() {
            String[] url = System.getenv("SURVIVAL_URL").split("://");
            String[] words = url[1].split("/");
            return new Place(url[0], words[0].split(","), words.length > 1 ? words[1] : "");
        }

        public String host() {
            return nodes[0].split(":")[0];
        }

        public int port() {
            return Integer.parseInt(nodes[0].split(":")[1]);
        }
    }

    protected abstract void add(String task) throws Exception;

    /** A task, or null after `WAIT_S`. */
    protected abstract String take() throws Exception;

    /** Whether a server said this; after any other error an application goes on. */
    protected abstract boolean isReply(Throwable error);

    protected final void run(String[] words, Class<?> library) throws Exception {
        if (words[0].equals("worker")) {
            work();
        } else {
            produce(Integer.parseInt(words[1]), Long.parseLong(words[2]), library);
        }
        // Some libraries leave threads behind.
        System.exit(0);
    }

    private void work() throws Exception {
        while (true) {
            String task = null;
            try {
                task = take();
            } catch (Exception error) {
                report(error);
                for (Throwable each = error; each != null; each = each.getCause()) {
                    if (isReply(each)) {
                        System.exit(1);
                    }
                }
                Thread.sleep(PAUSE_MS);
            }
            if (task != null) {
                Files.writeString(Path.of(System.getenv("SURVIVAL_DONE")), task + "\n",
                        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            }
        }
    }

    private void produce(int tasks, long paceMs, Class<?> library) throws Exception {
        System.out.println("version " + version(library));
        for (int task = 0; task < tasks; task++) {
            while (!attempted(task)) {
                Thread.sleep(paceMs);
            }
            System.out.println("queued " + task);
            Thread.sleep(paceMs);
        }
        System.out.println("end");
    }

    private boolean attempted(int task) {
        try {
            add(String.valueOf(task));
            return true;
        } catch (Exception error) {
            report(error);
            return false;
        }
    }

    private static void report(Exception error) {
        String text = String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
        System.out.println("error " + error.getClass().getSimpleName() + ": " + text);
    }

    /** By the name of its jar, as not every library tells it otherwise. */
    private static String version(Class<?> library) throws IOException {
        String jar = library.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*-(\\d[^/]*)\\.jar", "$1");
    }
}
