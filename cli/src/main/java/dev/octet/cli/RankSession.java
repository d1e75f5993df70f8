package dev.octet.cli;

import dev.octet.pipeline.DeviceName;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.TaskListener;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankEnvironment;
import dev.octet.trainer.collective.RankProcesses;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;

/**
 * This process among those that a launcher started together, from joining them to a good end, or to one that ends them all. One process alone is a world of its own. The first
 * rank speaks for all.
 */
final class RankSession {
    private final Collectives world;
    private final Screen screen;
    private final Screen errors;
    private final Job job;
    /** The number of this process among those of this machine. */
    private final int local;

    private RankSession(Collectives world, Screen screen, Job job, int local) {
        this.world = world;
        this.local = local;
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
            return new RankSession(Collectives.alone(), screen, job, 0);
        }
        Job shared =
                arguments.has(Flags.THREADS) ? job : job.withThreads(ranks.get().threads(job.threads()));
        return new RankSession(
                RankProcesses.join(ranks.get(), variables),
                screen,
                shared,
                ranks.get().local());
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

    /** Where this rank computes: of several on one machine {@code --device cuda} gives each a GPU of its own. */
    DeviceName device(DeviceName asked) {
        return world.isAlone() ? asked : asked.ofProcess(local);
    }

    /** How to work: ranks of one machine share its processors. */
    Job job() {
        return job;
    }

    /**
     * Does the work of this rank. The error of one that fails is printed as any other; then its process ends, and the other ranks with it.
     *
     * @throws IOException as the work does
     */
    ExitCode run(Work work) throws IOException {
        ExitCode code;
        try {
            code = work.run(this);
        } catch (IOException | RuntimeException | Error e) {
            if (!world.isAlone()) {
                errors.err().println("octet: " + world.name() + " failed, and ends the others:");
                world.abandon(Failure.of(e).code().number());
            }
            throw e;
        }
        world.close();
        return code;
    }

    /** What a rank does. */
    interface Work {
        ExitCode run(RankSession rank) throws IOException;
    }
}
