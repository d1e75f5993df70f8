package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What docs/trust.md says of native libraries and telemetry, each time in a process with a home and a temporary folder of its own. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrustTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    /** Where there is no folder, and none can be made, not even by root. */
    private static final Path NOWHERE = Path.of("/proc/nowhere");

    @TempDir
    Path folder;

    private Path home;
    private Path temporary;

    /** @param text all that was printed */
    private record Ended(int code, String text) {}

    @BeforeEach
    void a_model_and_a_home() throws IOException {
        home = Files.createDirectory(folder.resolve("home"));
        temporary = Files.createDirectory(folder.resolve("temporary"));
        Path model = Files.createDirectory(folder.resolve("llama"));
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(TESTDATA.resolve("models/tiny-hf/llama").resolve(file), model.resolve(file));
        }
        Files.copy(TESTDATA.resolve("tokenizer/words.json"), model.resolve("tokenizer.json"));
        Files.writeString(folder.resolve("texts.jsonl"), "{\"text\": \"the cat sat on the mat\"}\n".repeat(4));
    }

    /** Runs a model in ONNX Runtime on texts from the tokenizer. */
    private Ended calibrate(Path home, Path temporary) throws IOException, InterruptedException {
        return run(
                Child.java("-Duser.home=" + home, "-Djava.io.tmpdir=" + temporary, "-XX:TieredStopAtLevel=1"),
                "calibrate",
                folder.resolve("llama").toString(),
                "--data",
                folder.resolve("texts.jsonl").toString(),
                "-o",
                folder.resolve("out.stats").toString());
    }

    private Ended run(List<String> java, String... words) throws IOException, InterruptedException {
        Path printed = folder.resolve("printed.txt");
        java.add(Start.class.getName());
        java.addAll(List.of(words));
        ProcessBuilder builder =
                new ProcessBuilder(java).redirectErrorStream(true).redirectOutput(printed.toFile());
        for (String name : List.of("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "DJL_CACHE_DIR", "ENGINE_CACHE_DIR")) {
            builder.environment().remove(name);
        }
        builder.environment().put("HOME", home.toString());
        int code = builder.start().waitFor();
        return new Ended(code, Files.readString(printed));
    }

    private static List<String> names(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    /** A library that cannot be loaded: who tries, fails. */
    private static void plant(Path folder) throws IOException {
        for (String version : List.of("0.21.0-0.38.0-cpu-linux-x86_64", "0.21.0-0.38.0-cpu-linux-x86_64/cpu")) {
            Path at =
                    Files.createDirectories(folder.resolve(".djl.ai/tokenizers").resolve(version));
            Files.writeString(at.resolve("libtokenizers.so"), "not what you expect");
        }
    }

    @Test
    void a_run_leaves_its_libraries_in_a_private_folder_and_nothing_else_anywhere()
            throws IOException, InterruptedException {
        plant(home);
        plant(temporary);
        Ended ended = calibrate(home, temporary);
        assertEquals(ExitCode.OK.number(), ended.code(), ended.text());
        assertEquals(List.of(".cache", ".djl.ai"), names(home));
        // no folder of Microsoft's, which would have a number for this machine and what is to be sent
        assertEquals(List.of("octet"), names(home.resolve(".cache")));
        assertEquals(List.of(".djl.ai"), names(temporary));
        Path natives = home.resolve(".cache/octet/native");
        List<String> libraries = names(natives);
        assertEquals(3, libraries.size(), libraries.toString());
        assertTrue(libraries.get(0).startsWith("libjnidispatch.so-"), libraries.toString());
        assertTrue(libraries.get(1).startsWith("libonnxruntime.so-"), libraries.toString());
        assertTrue(libraries.get(2).startsWith("libtokenizers.so-"), libraries.toString());
        for (Path path : List.of(home.resolve(".cache/octet"), natives, natives.resolve(libraries.get(1)))) {
            assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
        }
    }

    @Test
    void a_library_that_was_changed_is_not_loaded() throws IOException, InterruptedException {
        assertEquals(ExitCode.OK.number(), calibrate(home, temporary).code());
        try (Stream<Path> all = Files.walk(home)) {
            for (Path library : all.filter(p -> p.toString().endsWith(".so")).toList()) {
                Files.write(library, new byte[(int) Files.size(library)]);
            }
        }
        Files.delete(folder.resolve("out.stats"));
        Ended ended = calibrate(home, temporary);
        assertEquals(ExitCode.OK.number(), ended.code(), ended.text());
    }

    @Test
    void without_a_home_libraries_lie_in_a_private_temporary_folder_until_the_end()
            throws IOException, InterruptedException {
        plant(temporary);
        Ended ended = calibrate(NOWHERE, temporary);
        assertEquals(ExitCode.OK.number(), ended.code(), ended.text());
        assertTrue(ended.text().contains("native libraries are unpacked again at each start: "), ended.text());
        assertEquals(List.of(".djl.ai"), names(temporary));
    }

    @Test
    void without_any_folder_of_the_users_own_nothing_is_loaded() throws IOException, InterruptedException {
        Ended ended = calibrate(NOWHERE, NOWHERE);
        assertEquals(ExitCode.UNAVAILABLE.number(), ended.code(), ended.text());
        assertTrue(ended.text().contains("there is no private folder to unpack native libraries to: "), ended.text());
        assertTrue(
                ended.text().contains("  fix:   set XDG_CACHE_HOME to a folder that you can write to"), ended.text());
    }

    @Test
    void onnx_runtime_is_not_started_where_its_telemetry_cannot_be_turned_off()
            throws IOException, InterruptedException {
        List<String> java =
                Child.java("--illegal-native-access=deny", "-Duser.home=" + home, "-Djava.io.tmpdir=" + temporary);
        java.remove("--enable-native-access=ALL-UNNAMED");
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 2, 1);
        Ended ended = run(
                java,
                "calibrate",
                TinyBert.MODEL.toString(),
                "--calibration",
                samples.toString(),
                "-o",
                folder.resolve("out.stats").toString());
        assertEquals(ExitCode.UNAVAILABLE.number(), ended.code(), ended.text());
        assertTrue(
                ended.text().contains("Octet does not start ONNX Runtime, because its telemetry cannot be disabled"),
                ended.text());
    }
}
