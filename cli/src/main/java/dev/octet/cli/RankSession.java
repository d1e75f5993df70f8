package dev.octet.cli;

import dev.octet.pipeline.Job;
import dev.octet.pipeline.TaskListener;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankEnvironment;
import dev.octet.trainer.collective.RankProcesses;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;

/**
 * This process among those that a launcher started together, from joining them to a good end, or to one that ends them all. One process alone is a world of its own. The first
 * rank speaks for all.
 */
final class RankSession implements AutoCloseable {
    private final Collectives world;
    private final Screen screen;
    private final Screen errors;
    private final Job job;
    private boolean complete;

    private RankSession(Collectives world, Screen screen, Job job) {
        this.world = world;
        this.errors = screen;
        this.screen = world.isFirst() ? screen : silent(screen);
        this.job = job;
    }

    /**
     * Joins the other ranks, if there are any.
     *
     * @throws dev.octet.formats.error.OctetException when they cannot be joined
     */
    static RankSession join(Arguments arguments, Screen screen) {
        Map<String, String> variables = System.getenv();
        Optional<RankEnvironment> ranks = RankEnvironment.of(variables);
        Job job = arguments.job(TaskListener.NONE);
        if (ranks.isEmpty()) {
            return new RankSession(Collectives.alone(), screen, job);
        }
        Job shared = arguments.has(Flags.THREADS) ? job : job.withThreads(ranks.get().threads(job.threads()));
        return new RankSession(RankProcesses.join(ranks.get(), variables), screen, shared);
    }

    private static Screen silent(Screen screen) {
        PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream(), false, StandardCharsets.UTF_8);
        return new Screen(nowhere, nowhere, false, screen.debug());
    }

    Collectives world() {
        return world;
    }

    boolean isFirst() {
        return world.isFirst();
    }

    /** The screen; of other ranks than the first one that shows nothing. */
    Screen screen() {
        return screen;
    }

    /** How to work: ranks of one machine share its processors. */
    Job job() {
        return job;
    }

    /** The work is done. */
    void complete() {
        complete = true;
    }

    @Override
    public void close() {
        if (!complete && !world.isAlone()) {
            // the error itself is printed when it has come to the top; then the process ends, and the others with it
            errors.err().println("octet: " + world.name() + " failed, and ends the others:");
            world.abandon(ExitCode.CHECK_FAILED.number());
        }
        world.close();
    }
}
