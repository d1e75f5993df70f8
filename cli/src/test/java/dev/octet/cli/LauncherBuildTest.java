package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** When the launcher {@code ./octet} of a checkout builds and makes its cache, with a Maven and a JDK that only say what they are asked for. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LauncherBuildTest {
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

    /** A checkout without sources, a JDK and a Maven that only make a note of being called. */
    private Path checkout(String... build) throws IOException {
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
        Files.writeString(launcher.resolve("verbs"), "train train\nconvert streams\n");
        for (String arguments : List.of("common.args", "train.args", "short.args")) {
            Files.writeString(launcher.resolve(arguments), "--add-modules jdk.incubator.vector\n");
        }
        Files.writeString(launcher.resolve("streams.args"), "-XX:+UseSerialGC\n");
        script("jdk/bin/javac");
        script(
                "jdk/bin/java",
                "case $1 in",
                "    -XX:AOTCacheOutput=*) echo cache >> " + folder.resolve("calls") + "; : > \"${1#*=}\" ;;",
                "    *) echo ran ;;",
                "esac");
        Files.writeString(folder.resolve("jdk/release"), "JAVA_VERSION=\"25.0.1\"\n");
        List<String> lines = new ArrayList<>(List.of("echo build >> " + folder.resolve("calls")));
        lines.addAll(List.of(build));
        lines.add("echo BUILD SUCCESS");
        script("bin/mvn", lines.toArray(String[]::new));
        return home;
    }

    private Process start(Path home, String printed, Map<String, String> environment, String... words)
            throws IOException {
        List<String> command = new ArrayList<>(List.of(home.resolve("octet").toString()));
        command.addAll(List.of(words));
        ProcessBuilder builder = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve(printed).toFile());
        builder.environment()
                .putAll(Map.of(
                        "JAVA25_HOME",
                        folder.resolve("jdk").toString(),
                        "PATH",
                        folder.resolve("bin") + ":" + System.getenv("PATH")));
        builder.environment().putAll(environment);
        return builder.start();
    }

    private List<String> calls() throws IOException {
        return Files.readAllLines(folder.resolve("calls"));
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
        Path home = checkout("sleep 1.5", "touch cli/target/quick/octet.jar");
        List<Process> ranks = new ArrayList<>();
        for (int r = 0; r < 3; r++) {
            Map<String, String> environment = new HashMap<>(variables);
            environment.put(rank, String.valueOf(r));
            ranks.add(start(home, "printed-" + r, environment, "train", "model.onnx"));
        }
        for (int r = 0; r < 3; r++) {
            assertTrue(ranks.get(r).waitFor(60, TimeUnit.SECONDS), "rank " + r + " ended");
            String printed = Files.readString(folder.resolve("printed-" + r));
            assertTrue(printed.lines().anyMatch("ran"::equals), printed);
        }
        assertEquals(List.of("build"), calls());
    }

    @Test
    void a_change_of_a_module_below_is_built_once_and_cached_anew() throws Exception {
        // as Maven, which writes the program's own jar only when the program changed
        Path home = checkout(
                "mkdir -p cli/target/quick/lib",
                "[ -f cli/target/quick/octet.jar ] || touch cli/target/quick/octet.jar",
                "touch cli/target/quick/lib/octet-quant.jar");
        List<String> expected = new ArrayList<>();
        for (int change = 0; change < 2; change++) {
            Thread.sleep(1100); // bash compares whole seconds on some systems
            Files.writeString(home.resolve("quant/src/main/Changed.java"), "// " + change);
            expected.addAll(List.of("build", "cache"));
            for (int run = 0; run < 2; run++) {
                Process process = start(home, "printed", Map.of(), "convert", "model");
                assertTrue(process.waitFor(60, TimeUnit.SECONDS), "it ended");
                assertEquals(expected, calls(), Files.readString(folder.resolve("printed")));
                Thread.sleep(1100);
            }
        }
    }
}
