package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The launcher {@code ./octet} started several times at once by {@code mpirun} or {@code torchrun}, with a Maven and a JDK that only say what they are asked for. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankedLauncherTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root", ".."));

    @TempDir
    Path folder;

    private Path script(String name, String... lines) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, "#!/usr/bin/env bash\n" + String.join("\n", lines) + "\n");
        assertTrue(file.toFile().setExecutable(true));
        return file;
    }

    @Test
    void the_first_of_the_ranks_on_a_machine_builds_for_all() throws Exception {
        requireOneBuild("OMPI_COMM_WORLD_LOCAL_RANK", Map.of());
    }

    /** A torchrun that Slurm has started: all its processes are the first of their machine to Slurm. */
    @Test
    void the_first_of_the_processes_of_torchrun_on_a_machine_builds_for_all() throws Exception {
        requireOneBuild("LOCAL_RANK", Map.of("TORCHELASTIC_RUN_ID", "none", "SLURM_LOCALID", "0"));
    }

    private void requireOneBuild(String rank, Map<String, String> variables) throws Exception {
        assumeTrue(Files.isExecutable(Path.of("/bin/bash")), "there is no bash");
        Path home = Files.createDirectories(folder.resolve("home"));
        Files.copy(ROOT.resolve("octet"), home.resolve("octet"));
        assertTrue(home.resolve("octet").toFile().setExecutable(true));
        Files.writeString(home.resolve("pom.xml"), "");
        for (String module : List.of("formats", "quant", "converter", "trainer", "pipeline", "cli")) {
            Files.createDirectories(home.resolve(module).resolve("src/main"));
            Files.writeString(home.resolve(module).resolve("pom.xml"), "");
        }
        Path launcher = Files.createDirectories(home.resolve("cli/src/main/launcher"));
        Files.writeString(launcher.resolve("verbs"), "train train\n");
        for (String arguments : List.of("common.args", "train.args", "short.args")) {
            Files.writeString(launcher.resolve(arguments), "--add-modules jdk.incubator.vector\n");
        }
        script("jdk/bin/javac");
        script("jdk/bin/java", "echo ran");
        Files.writeString(folder.resolve("jdk/release"), "JAVA_VERSION=\"25.0.1\"\n");
        script(
                "bin/mvn",
                "echo build >> " + folder.resolve("calls"),
                "sleep 1.5",
                "touch " + home.resolve("cli/target/quick/octet.jar"),
                "echo BUILD SUCCESS");
        List<Process> ranks = new ArrayList<>();
        for (int r = 0; r < 3; r++) {
            ProcessBuilder builder = new ProcessBuilder(home.resolve("octet").toString(), "train", "model.onnx")
                    .redirectErrorStream(true)
                    .redirectOutput(folder.resolve("printed-" + r).toFile());
            builder.environment()
                    .putAll(Map.of(
                            "JAVA25_HOME",
                            folder.resolve("jdk").toString(),
                            rank,
                            String.valueOf(r),
                            "PATH",
                            folder.resolve("bin") + ":" + System.getenv("PATH")));
            builder.environment().putAll(variables);
            ranks.add(builder.start());
        }
        for (int r = 0; r < 3; r++) {
            assertTrue(ranks.get(r).waitFor(60, TimeUnit.SECONDS), "rank " + r + " ended");
            String printed = Files.readString(folder.resolve("printed-" + r));
            assertTrue(printed.lines().anyMatch("ran"::equals), printed);
        }
        assertEquals(List.of("build"), Files.readAllLines(folder.resolve("calls")));
    }
}
