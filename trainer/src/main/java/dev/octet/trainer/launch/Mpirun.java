package dev.octet.trainer.launch;

import dev.octet.formats.error.UnavailableException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;

/**
 * An installed mpirun. On one machine it starts ranks by itself; elsewhere it asks an agent in place of ssh, with the name of a relay in place of a machine's.
 *
 * @param version the first line of what it says of itself
 */
record Mpirun(Path program, Family family, String version) {
    /** Path of the program, for one that is not on the PATH, or not the first there. */
    static final String PROGRAM = "OCTET_MPIRUN";

    /** The variable that names the script of a rank, on each machine its own. */
    static final String SCRIPT = "OCTET_RANK_SCRIPT";

    private static final List<String> NAMES = List.of("mpirun", "mpiexec");
    private static final List<String> RANK = List.of("sh", "-c", "exec sh \"$" + SCRIPT + "\"");
    private static final int VERSION_SECONDS = 20;

    /** How a launcher is spoken to. */
    enum Family {
        /** Open MPI, 4 and later. */
        OPEN_MPI,
        /** MPICH and others with Hydra. */
        HYDRA
    }

    /**
     * Finds it.
     *
     * @param variables of the environment
     * @throws UnavailableException when there is none, or none that is known
     */
    static Mpirun find(Map<String, String> variables) {
        String own = variables.getOrDefault(PROGRAM, "");
        List<Path> candidates = new ArrayList<>();
        if (own.isEmpty()) {
            for (String folder : variables.getOrDefault("PATH", "").split(File.pathSeparator, -1)) {
                NAMES.forEach(name -> candidates.add(Path.of(folder.isEmpty() ? "." : folder, name)));
            }
        } else {
            candidates.add(Path.of(own));
        }
        Path program = candidates.stream()
                .filter(Files::isRegularFile)
                .filter(Files::isExecutable)
                .findFirst()
                .orElseThrow(() -> new UnavailableException(
                        "ranks are joined by MPI, and there is no mpirun",
                        own.isEmpty() ? "PATH; " + PROGRAM + " is not set" : PROGRAM + "=" + own,
                        "install Open MPI or MPICH (Debian: openmpi-bin or mpich) on each machine, or set " + PROGRAM
                                + " to the program"));
        return of(program.toAbsolutePath(), variables);
    }

    private static Mpirun of(Path program, Map<String, String> variables) {
        String said = version(program, variables);
        Family family;
        if (said.contains("Open MPI") || said.contains("OpenRTE")) {
            family = Family.OPEN_MPI;
        } else if (said.contains("HYDRA") || said.contains("MPICH") || said.contains("Intel(R) MPI")) {
            family = Family.HYDRA;
        } else {
            throw new UnavailableException(
                    "this is neither Open MPI's mpirun nor MPICH's: "
                            + said.lines().findFirst().orElse("it says no version"),
                    program.toString(),
                    "set " + PROGRAM + " to one of these");
        }
        String name = family == Family.OPEN_MPI ? "Open MPI" : "MPICH";
        return new Mpirun(
                program,
                family,
                said.lines()
                        .filter(l -> l.contains("Version:") || l.contains("Open MPI") || l.contains("OpenRTE"))
                        .findFirst()
                        .map(l -> name + " " + l.replaceAll(".*[ )]", ""))
                        .orElse(name));
    }

    private static String version(Path program, Map<String, String> variables) {
        try {
            ProcessBuilder builder = new ProcessBuilder(program.toString(), "--version").redirectErrorStream(true);
            builder.environment().clear();
            builder.environment().putAll(variables);
            Process process = builder.start();
            try {
                process.getOutputStream().close();
                String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                boolean _ = process.waitFor(VERSION_SECONDS, TimeUnit.SECONDS);
                return said;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return "";
            } finally {
                process.destroyForcibly();
            }
        } catch (IOException e) {
            throw new UnavailableException(
                    "mpirun cannot be started: " + e.getMessage(), program.toString(), "install it anew", e);
        }
    }

    /** The words that start so many ranks on this machine. */
    List<String> here(int ranks) {
        List<String> words = new ArrayList<>(List.of(program.toString(), "-n", String.valueOf(ranks)));
        if (family == Family.OPEN_MPI) {
            // as many slots as ranks, whatever the number of cores; a rank shares the cores out among its threads
            // itself
            words.addAll(List.of("--host", "localhost:" + ranks, "--bind-to", "none"));
        }
        words.addAll(RANK);
        return words;
    }

    /**
     * The words that start ranks on relays, those of the first one first.
     *
     * @param slots ranks of each relay
     * @param agent the program that is asked in place of ssh
     * @param host this machine's name, as others know it
     */
    List<String> on(List<Integer> slots, Path agent, String host) {
        StringJoiner hosts = new StringJoiner(",");
        for (int i = 0; i < slots.size(); i++) {
            hosts.add(Agent.HOST + i + ":" + slots.get(i));
        }
        int ranks = slots.stream().mapToInt(i -> i).sum();
        List<String> words = new ArrayList<>(List.of(program.toString(), "-n", String.valueOf(ranks)));
        words.addAll(
                switch (family) {
                    case OPEN_MPI -> List.of("--host", hosts.toString(), "--bind-to", "none", "--map-by", "slot");
                    case HYDRA ->
                        List.of(
                                "-hosts",
                                hosts.toString(),
                                "-launcher",
                                "ssh",
                                "-launcher-exec",
                                agent.toString(),
                                "-localhost",
                                host,
                                "-genvnone"); // each rank has the environment of its relay
                });
        words.addAll(RANK);
        return words;
    }

    /** What the environment of every mpirun has besides. Relays run it as their user, who may be the only one of a container. */
    Map<String, String> variables() {
        return family == Family.HYDRA
                ? Map.of()
                : Map.of(
                        "OMPI_ALLOW_RUN_AS_ROOT", "1",
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1",
                        "PRTE_ALLOW_RUN_AS_ROOT", "1",
                        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }

    /** The same of one that asks an agent. Open MPI 4 and 5 call the same settings by different names. */
    Map<String, String> variables(Path agent) {
        Map<String, String> variables = new LinkedHashMap<>(variables());
        if (family == Family.OPEN_MPI) {
            variables.put("OMPI_MCA_plm", "rsh");
            variables.put("OMPI_MCA_plm_rsh_agent", agent.toString());
            variables.put("OMPI_MCA_plm_rsh_no_tree_spawn", "1");
            // its daemons stay children of their relays, which end them
            variables.put("OMPI_MCA_orte_leave_session_attached", "1");
            // its daemons share a map of the machine in one file; where several relays are on a machine they crash
            // while they write it
            variables.put("OMPI_MCA_rtc", "^hwloc");
            variables.put("PRTE_MCA_plm", "ssh");
            variables.put("PRTE_MCA_plm_ssh_agent", agent.toString());
            variables.put("PRTE_MCA_plm_ssh_no_tree_spawn", "1");
            variables.put("PRTE_MCA_prte_leave_session_attached", "1");
        }
        return variables;
    }
}
