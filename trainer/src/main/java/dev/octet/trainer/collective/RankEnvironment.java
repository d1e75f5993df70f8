package dev.octet.trainer.collective;

import dev.octet.formats.error.InvalidOptionException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * What a launcher of several processes tells each of them by environment variables.
 *
 * @param launcher whose variables they are
 * @param rank the number of this process, from 0
 * @param size how many processes there are, at least 2
 * @param onHost how many of them share this machine; 1 where the launcher does not say
 * @param local the number of this process among those, from 0; 0 where the launcher does not say
 */
public record RankEnvironment(Launcher launcher, int rank, int size, int onHost, int local) {
    /** How long a rank waits for others, in seconds. */
    public static final String DEADLINE = "OCTET_RANK_DEADLINE";

    /** Set by torchrun alone. Its processes inherit the variables of the srun or mpirun that started it, which are not theirs. */
    private static final String TORCHRUN = "TORCHELASTIC_RUN_ID";

    /** As long as torch.distributed waits without NCCL: a checkpoint of the first rank must fit in. */
    private static final Duration USUAL_DEADLINE = Duration.ofMinutes(30);

    /** Who starts ranks. */
    public enum Launcher {
        /** mpirun of Open MPI. */
        OPEN_MPI(
                "mpirun (Open MPI)",
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK"),
        /** mpirun of MPICH, Intel MPI and others with its process manager, Hydra. */
        MPICH("mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
        /** srun. Within a job, but outside of a step, there is one process, whatever SLURM_NTASKS is. */
        SLURM("srun (Slurm)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID"),
        /** torchrun, and what sets the same variables; it has no MPI, so its processes have {@code mpirun} start the ranks. */
        TORCHRUN("torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK");

        private final String text;
        private final String rank;
        private final String size;
        private final String onHost;
        private final String local;

        Launcher(String text, String rank, String size, String onHost, String local) {
            this.text = text;
            this.rank = rank;
            this.size = size;
            this.onHost = onHost;
            this.local = local;
        }

        /** The variables for rank and number of ranks, as the page about runs of several processes writes them. */
        String variables() {
            return "`" + rank + "`, `" + size + "`";
        }

        /** Its name for messages. */
        public String text() {
            return text;
        }
    }

    /**
     * Reads the variables of the first launcher that has set any; of torchrun before all others where it is there.
     *
     * @return empty for a process that is alone
     * @throws InvalidOptionException when they are not numbers, or the rank is not one of so many
     */
    public static Optional<RankEnvironment> of(Map<String, String> variables) {
        for (Launcher launcher :
                variables.containsKey(TORCHRUN) ? new Launcher[] {Launcher.TORCHRUN} : Launcher.values()) {
            if (variables.containsKey(launcher.rank) && variables.containsKey(launcher.size)) {
                int size = number(variables, launcher.size, 1);
                int rank = number(variables, launcher.rank, 0);
                if (rank >= size) {
                    throw new InvalidOptionException(
                            "there is no rank " + rank + " of " + size + "; ranks count from 0",
                            "environment variables " + launcher.rank + " and " + launcher.size,
                            "start the run with " + launcher.text + " again, or unset both");
                }
                int onHost = variables.containsKey(launcher.onHost) ? number(variables, launcher.onHost, 1) : 1;
                int local = variables.containsKey(launcher.local) ? number(variables, launcher.local, 0) : 0;
                return size == 1
                        ? Optional.empty()
                        : Optional.of(new RankEnvironment(launcher, rank, size, onHost, local));
            }
        }
        return Optional.empty();
    }

    private static int number(Map<String, String> variables, String name, int least) {
        String text = variables.getOrDefault(name, "");
        int number = text.matches("\\d{1,9}") ? Integer.parseInt(text) : -1;
        if (number < least) {
            throw new InvalidOptionException(
                    "'" + text + "' is no whole number from " + least + " on",
                    "environment variable " + name,
                    "unset it; a launcher of ranks sets it itself");
        }
        return number;
    }

    /**
     * How long a rank waits for another before it gives up.
     *
     * @throws InvalidOptionException when the variable is no number of seconds
     */
    public static Duration deadline(Map<String, String> variables) {
        return variables.containsKey(DEADLINE) ? Duration.ofSeconds(number(variables, DEADLINE, 1)) : USUAL_DEADLINE;
    }

    /** The share of this machine's processors that a rank has, at least 1. */
    public int threads(int processors) {
        return Math.max(1, processors / onHost);
    }
}
