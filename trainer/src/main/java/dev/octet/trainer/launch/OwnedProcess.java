package dev.octet.trainer.launch;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A command that ends when this process does, whatever ends it. Between both stands a shell that reads from this process: where the pipe ends, so does the command. Who asks
 * the shell to end asks the command.
 */
final class OwnedProcess implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(OwnedProcess.class.getName());

    /** How long a command that was asked to end has for it, in seconds: mpirun gives its ranks one. */
    private static final int PATIENCE = 10;

    /** How long what a command left behind may hold its output. */
    private static final Duration LAST_WORDS = Duration.ofSeconds(2);

    /** mpirun has its daemons go to where it is, which must be there on every machine; ranks go elsewhere themselves. */
    private static final File ANYWHERE = new File("/");

    private static final int BUFFER = 1 << 13;

    private static final String GUARDIAN = """
        exec 3<&0 </dev/null
        "$@" 3<&- &
        work=$!
        trap 'kill "$work" 2>/dev/null' HUP INT TERM
        { cat <&3; kill "$work"; sleep %d; kill -9 "$work"; } >/dev/null 2>&1 &
        watch=$!
        exec 3<&-
        while :; do
            wait "$work"
            code=$?
            kill -0 "$work" 2>/dev/null || break
        done
        kill "$watch" 2>/dev/null
        exit "$code"
        """.formatted(PATIENCE);

    private final Process process;
    private final List<Thread> pumps;
    private final Thread hook;

    private OwnedProcess(Process process, List<Thread> pumps) {
        this.process = process;
        this.pumps = pumps;
        this.hook = new Thread(this::end, "octet-owned-process");
    }

    /**
     * Starts a command.
     *
     * @param variables all of its environment
     * @throws IOException when there is no shell
     */
    static OwnedProcess start(List<String> words, Map<String, String> variables, RankOutput output) throws IOException {
        List<String> command = new ArrayList<>(List.of("sh", "-c", GUARDIAN, "octet-guardian"));
        command.addAll(words);
        ProcessBuilder builder = new ProcessBuilder(command).directory(ANYWHERE);
        builder.environment().clear();
        builder.environment().putAll(variables);
        Process process = builder.start();
        OwnedProcess owned = new OwnedProcess(
                process,
                List.of(pump(process.getInputStream(), output.out()), pump(process.getErrorStream(), output.err())));
        try {
            Runtime.getRuntime().addShutdownHook(owned.hook);
        } catch (IllegalStateException e) {
            owned.end(); // this process is ending already
        }
        return owned;
    }

    private static Thread pump(InputStream from, OutputStream to) {
        return Thread.ofPlatform().daemon().name("octet-rank-output").start(() -> {
            byte[] buffer = new byte[BUFFER];
            try (from) {
                for (int count = from.read(buffer); count >= 0; count = from.read(buffer)) {
                    to.write(buffer, 0, count);
                    to.flush();
                }
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "output is no longer wanted", e);
            }
        });
    }

    /**
     * Waits so long for its end.
     *
     * @return whether it came
     */
    boolean awaitEnd(Duration most) throws InterruptedException {
        return process.waitFor(most.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** Its exit code, when it has ended and all that it printed is passed on. */
    int await() throws InterruptedException {
        int code = process.waitFor();
        for (Thread pump : pumps) {
            pump.join(LAST_WORDS);
        }
        return code;
    }

    /** Asks it to end; if it does not, ends it and all that it started. */
    void end() {
        process.destroy();
        boolean interrupted = false;
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
        while (process.isAlive()) {
            try {
                if (!process.waitFor(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                    process.descendants().toList().forEach(ProcessHandle::destroyForcibly);
                    process.destroyForcibly();
                    process.waitFor();
                }
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends it where it goes on. */
    @Override
    public void close() {
        end();
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException e) {
            LOG.log(System.Logger.Level.DEBUG, "this process is ending", e);
        }
    }
}
