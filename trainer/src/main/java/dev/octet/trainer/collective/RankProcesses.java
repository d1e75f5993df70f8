package dev.octet.trainer.collective;

import dev.octet.formats.error.UnavailableException;
import java.util.Map;

/** Ranks that are processes: a launcher starts them, an MPI library joins them. */
public final class RankProcesses {
    private RankProcesses() {}

    /**
     * Joins the processes that a launcher started; returns when all have come. To be called once in a process.
     *
     * @param variables of the environment, which may name the library
     * @throws UnavailableException when there is no MPI library, or it is not that of the launcher
     */
    public static Collectives join(RankEnvironment environment, Map<String, String> variables) {
        String count = environment.size() + " ranks";
        if (environment.launcher() == RankEnvironment.Launcher.TORCHRUN) {
            throw new UnavailableException(
                    "torchrun started " + count + " without MPI, which joins them",
                    "environment variables RANK and WORLD_SIZE",
                    "let octet train start them, or PlacedRanks; or use mpirun -n " + environment.size()
                            + "; for one process unset both variables");
        }
        SignalHandlers handlers = SignalHandlers.current();
        Mpi mpi = Mpi.load(environment.launcher(), variables);
        mpi.init();
        handlers.restore();
        MpiCollectives ranks = new MpiCollectives(mpi, RankEnvironment.deadline(variables));
        if (ranks.size() != environment.size() || ranks.rank() != environment.rank()) {
            String found = ranks.name();
            ranks.close();
            throw new UnavailableException(
                    environment.launcher().text() + " started rank " + environment.rank() + " of " + environment.size()
                            + ", which is " + found + " for " + ranks.engine(),
                    "environment variables and the MPI library",
                    "set " + Mpi.LIBRARY + " to the library that the launcher belongs to");
        }
        return ranks;
    }
}
