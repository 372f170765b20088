package checks;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** What the programs of all libraries share: how a check is run and shown, how the runner is asked. */
public final class Checks {
    /** How long a library may show errors after something it was connected to went away. */
    public static final Duration RECOVERY = Duration.ofSeconds(10);

    private static final BufferedReader STDIN =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Checks() {}

    /** A check, or something that is tried until it raises nothing. */
    public interface Check {
        void run() throws Exception;
    }

    /** A condition that is waited for. */
    public interface Condition {
        boolean holds() throws Exception;
    }

    /** What a group of the arguments is given: what follows its name. */
    public interface Group {
        void run(String group, List<String> addresses);
    }

    /** The library, version or protocol has no means for what the check is about. */
    public static final class Lacks extends Exception {
        private static final long serialVersionUID = 1;

        public Lacks(String why) {
            super(why);
        }
    }

    /** Calls with each argument GROUP=HOST:PORT[,HOST:PORT…]. */
    public static void groups(String[] arguments, Group each) {
        for (String argument : arguments) {
            String[] parts = argument.split("=");
            each.run(parts[0], List.of(parts[1].split(",")));
        }
    }

    /** Runs these checks in their order, with the prefix before their names. */
    public static void runAll(String prefix, Map<String, Check> checks) {
        checks.forEach((name, check) -> attempt(prefix + name, check));
    }

    /** Runs a check and prints its line: "ok NAME", "none NAME: why" or "FAIL NAME: why". */
    public static void attempt(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
        } catch (Lacks why) {
            System.out.println("none " + name + ": " + why.getMessage());
        } catch (Exception error) {
            System.out.println("FAIL " + name + ": " + error.toString().replace("\n", "\\n"));
        }
    }

    /** Shows the version that the name of a library's jar has, given one of its classes. */
    public static void tellVersion(Class<?> ofLibrary) {
        String jar = ofLibrary.getProtectionDomain().getCodeSource().getLocation().getPath();
        System.out.println("version " + jar.replaceFirst(".*?-([0-9][^/]*)[.]jar$", "$1"));
    }

    /** A question to the runner, answered by a line. */
    public static List<String> ask(String words) throws IOException {
        System.out.println("ask " + words);
        return List.of(STDIN.readLine().split(" "));
    }

    public static void expect(Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new IllegalStateException("got " + got + ", expected " + expected);
        }
    }

    /** Repeats what is given until it raises nothing of this class. */
    public static void errorsEnd(Class<? extends Exception> kind, Check attempted) throws Exception {
        long deadline = System.nanoTime() + RECOVERY.toNanos();
        while (true) {
            try {
                attempted.run();
                return;
            } catch (Exception error) {
                if (!kind.isInstance(error) || System.nanoTime() > deadline) {
                    throw error;
                }
                System.err.println(error);
            }
            Thread.sleep(100);
        }
    }

    /** Waits until a condition holds. */
    public static void until(Condition condition) throws Exception {
        long deadline = System.nanoTime() + RECOVERY.toNanos();
        while (!condition.holds()) {
            expect(System.nanoTime() < deadline, true);
            Thread.sleep(100);
        }
    }

    /** Runs the same on some threads at once; what one of them throws is thrown here. */
    public static void atOnce(int threads, Check work) throws Exception {
        List<Exception> thrown = new ArrayList<>();
        List<Thread> all = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (Exception error) {
                    synchronized (thrown) {
                        thrown.add(error);
                    }
                }
            });
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
        if (!thrown.isEmpty()) {
            throw thrown.get(0);
        }
    }
}
