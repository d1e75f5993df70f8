package dev.octet.trainer.launch;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * What a relay starts for each of its ranks.
 *
 * @param words program and arguments
 * @param folder where it runs
 * @param variables its environment, besides what MPI sets
 */
public record RankCommand(List<String> words, Path folder, Map<String, String> variables) {
    /** What launchers and schedulers tell their processes, which would tell ranks, or mpirun, something wrong. */
    private static final List<String> PREFIXES = List.of(
            "OMPI_COMM_WORLD_",
            "OMPI_UNIVERSE_",
            "PMI_",
            "PMIX_",
            "PRTE_",
            "HYDI_",
            "MPI_LOCAL",
            "SLURM_",
            "TORCHELASTIC_");

    private static final Set<String> NAMES = Set.of(
            "RANK",
            "LOCAL_RANK",
            "GROUP_RANK",
            "ROLE_RANK",
            "ROLE_NAME",
            "WORLD_SIZE",
            "LOCAL_WORLD_SIZE",
            "GROUP_WORLD_SIZE",
            "ROLE_WORLD_SIZE",
            "MASTER_ADDR",
            "MASTER_PORT",
            "PBS_JOBID",
            "LSB_JOBID",
            "OCTET_STDERR",
            TorchrunRendezvous.SECRET);

    public RankCommand {
        words = List.copyOf(words);
        variables = Map.copyOf(variables);
    }

    /**
     * A command that runs where this process does, in its environment without what launchers of processes have set there.
     *
     * @param environment of this process
     */
    public static RankCommand of(List<String> words, Map<String, String> environment) {
        Map<String, String> kept = new TreeMap<>(environment);
        kept.keySet().removeIf(RankCommand::isOfLauncher);
        return new RankCommand(words, Path.of("").toAbsolutePath(), kept);
    }

    private static boolean isOfLauncher(String name) {
        return NAMES.contains(name) || (PREFIXES.stream().anyMatch(name::startsWith) && !name.contains("_MCA_"));
    }

    /** As a script of the shell. */
    String script() {
        return "cd " + quoted(folder.toString()) + " || exit 1\nexec "
                + words.stream().map(RankCommand::quoted).collect(Collectors.joining(" ")) + "\n";
    }

    /** A word that the shell reads as it is. */
    static String quoted(String word) {
        return "'" + word.replace("'", "'\\''") + "'";
    }
}
