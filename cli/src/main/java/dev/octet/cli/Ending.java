package dev.octet.cli;

import dev.octet.formats.file.Unfinished;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What happens when the system asks the process to end (Ctrl-C, SIGTERM, SIGHUP): work that can come to a good end does, what is unfinished is
 * taken away, and the JVM ends with 128 and the number of the signal. A second signal meanwhile ends the process at once.
 */
final class Ending extends Thread {
    private static final Set<Work> WORK = ConcurrentHashMap.newKeySet();

    /** Whether the program came to its end by itself, so that there is nothing to do. */
    private static volatile boolean over;

    private final Screen screen;

    /** Something that comes to a good end when it is asked to. */
    interface Work {
        /** How it ends, as a sentence; empty when it has not begun, which needs no waiting. */
        String ask();

        /** Waits until it has ended. */
        void await() throws InterruptedException;
    }

    private Ending(Screen screen) {
        super("octet-ending");
        this.screen = screen;
    }

    /** To be called once, by a program that owns its process. */
    static void install(Screen screen) {
        Runtime.getRuntime().addShutdownHook(new Ending(screen));
    }

    /** The program ends by itself. */
    static void over() {
        over = true;
    }

    /** From now on {@code work} is asked to end, and waited for, before the process ends. */
    static void begin(Work work) {
        WORK.add(work);
    }

    /** It has ended. */
    static void end(Work work) {
        WORK.remove(work);
    }

    @Override
    public void run() {
        if (over) {
            return;
        }
        try {
            for (Work work : WORK) {
                String how = work.ask();
                if (!how.isEmpty()) {
                    Signals.restoreDefaults();
                    screen.err().println(screen.errStyle().fold("octet: " + how + "; once more ends it at once"));
                    work.await();
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Unfinished.discard();
    }
}
