package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The archives of {@code mvn package -Pdist}, unpacked and run where there is no Java: {@code mvn verify -Pdist}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@EnabledIfSystemProperty(
        named = "octet.archives",
        matches = ".+",
        disabledReason = "the archives are made by mvn verify -Pdist")
class ArchiveLauncherTest {
    private static final long MOST_BYTES_FOR_TRAINING = 60L << 20;
    /** All that the launcher asks of a machine. */
    private static final List<String> TOOLS = List.of("bash", "grep", "mv", "rm");

    @TempDir
    static Path unpacked;

    @TempDir
    Path folder;

    private record Ended(int code, String out, String err) {}

    @BeforeAll
    static void unpack() throws IOException, InterruptedException {
        for (String name : List.of("octet", "octet-train")) {
            Process tar = new ProcessBuilder("tar", "xzf", archive(name).toString(), "-C", unpacked.toString())
                    .inheritIO()
                    .start();
            assertEquals(0, tar.waitFor(), "tar cannot unpack " + archive(name));
        }
    }

    private static String version() {
        return requireNonNull(System.getProperty("octet.version"));
    }

    private static Path archive(String name) {
        return Path.of(System.getProperty("octet.archives"), name + "-" + version() + "-linux-x86_64.tar.gz");
    }

    private static Path home(String name) {
        return unpacked.resolve(name + "-" + version());
    }

    /** Nothing of this process's environment but a home of its own, and no Java on the PATH. */
    private Ended octet(String archive, String... words) throws IOException, InterruptedException {
        Path tools = Files.createDirectories(folder.resolve("tools"));
        for (String tool : TOOLS) {
            if (!Files.exists(tools.resolve(tool))) {
                Files.createSymbolicLink(tools.resolve(tool), found(tool));
            }
        }
        List<String> command =
                new ArrayList<>(List.of(home(archive).resolve("bin/octet").toString()));
        command.addAll(List.of(words));
        Path out = folder.resolve("out.txt");
        Path err = folder.resolve("err.txt");
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(folder.toFile())
                .redirectOutput(out.toFile())
                .redirectError(err.toFile());
        builder.environment().clear();
        builder.environment().put("PATH", tools.toString());
        builder.environment().put("XDG_CACHE_HOME", folder.resolve("cache").toString());
        Process process = builder.start();
        assertTrue(process.waitFor(3, TimeUnit.MINUTES), "the launcher hangs");
        return new Ended(process.exitValue(), Files.readString(out), Files.readString(err));
    }

    private static Path found(String tool) {
        return Stream.of("/usr/bin", "/bin", "/usr/local/bin")
                .map(f -> Path.of(f, tool))
                .filter(Files::isExecutable)
                .findFirst()
                .orElseThrow(() -> new AssertionError("this machine has no " + tool));
    }

    private void train(String archive) throws IOException, InterruptedException {
        TinyBert.samples(folder.resolve("train.npz"), 16, 1);
        Files.writeString(folder.resolve("train.yaml"), """
            data: {train: train.npz}
            loss: {type: mse, output: logits, distillation: {teacher: '%s'}}
            batch_size: 8
            steps: 3
            optimizer: {lr: 1.0e-3}
            precision: {mode: fp32}
            """.formatted(TinyBert.MODEL));
        Ended run = octet(archive, "train", TinyBert.MODEL.toString(), "--config", "train.yaml", "-o", "run");
        assertEquals(0, run.code(), run.err());
        assertFalse(run.err().contains("incubator"), run.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"octet", "octet-train"})
    void without_java_the_version_is_printed(String archive) throws IOException, InterruptedException {
        Ended run = octet(archive, "--version");
        assertEquals(0, run.code(), run.err());
        assertEquals("octet " + version(), run.out().strip());
        assertTrue(run.err().lines().allMatch(l -> l.startsWith("octet: making the cache")), run.err());
    }

    @Test
    void all_of_octet_trains_and_exports_with_a_proof() throws IOException, InterruptedException {
        train("octet");
        Ended run = octet("octet", "export", "run", "-o", "m.onnx", "--target", "onnxruntime");
        assertEquals(0, run.code(), run.err());
        assertTrue(run.out().contains("passed"), run.out());
        assertTrue(Files.size(folder.resolve("m.onnx")) > 0);
    }

    @Test
    void training_needs_no_more_than_its_archive() throws IOException, InterruptedException {
        train("octet-train");
        Ended run = octet("octet-train", "export", "run", "-o", "m.onnx", "--target", "onnxruntime", "--no-proof");
        assertEquals(0, run.code(), run.err());
        assertTrue(run.out().contains("not proved"), run.out());
        Ended proved = octet("octet", "export", "run", "-o", "m.onnx", "--target", "onnxruntime", "--prove-only");
        assertEquals(0, proved.code(), proved.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"octet", "octet-train"})
    void a_language_model_learns_texts_in_fp8_and_is_exported_as_the_folder_it_was(String archive)
            throws IOException, InterruptedException {
        Path testdata = Path.of(System.getProperty("octet.testdata")).toAbsolutePath();
        Path model = Files.createDirectory(folder.resolve("llama"));
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(testdata.resolve("models/tiny-hf/llama").resolve(file), model.resolve(file));
        }
        Files.copy(testdata.resolve("tokenizer/words.json"), model.resolve("tokenizer.json"));
        Files.writeString(
                folder.resolve("texts.jsonl"), "{\"text\": \"the cat sat on the mat and a dog ran far\"}\n".repeat(16));
        Files.writeString(folder.resolve("train.yaml"), """
            data: {train: texts.jsonl, tokenizer: llama/tokenizer.json}
            loss: {type: causal-lm}
            batch_size: 4
            steps: 2
            optimizer: {lr: 1.0e-3}
            precision: {mode: fp8, recipe: delayed}
            """);
        Ended run = octet(archive, "train", "llama", "--config", "train.yaml", "-o", "run");
        assertEquals(0, run.code(), run.err());
        Ended exported = octet(archive, "export", "run", "-o", "tuned", "--target", "huggingface", "--no-proof");
        assertEquals(0, exported.code(), exported.err());
        assertTrue(Files.exists(folder.resolve("tuned/model.safetensors")));
        assertTrue(Files.exists(folder.resolve("tuned/tokenizer.json")));
    }

    @Test
    void what_the_archive_for_training_leaves_out_is_told_with_the_archive_that_has_it()
            throws IOException, InterruptedException {
        String model = TinyBert.MODEL.toString();
        TinyBert.samples(folder.resolve("data.npz"), 8, 1);
        train("octet-train");
        List<String[]> lines = List.of(
                new String[] {"evaluate", model, model, "--data", "data.npz"},
                new String[] {"calibrate", model, "-o", "m.stats", "--calibration", "data.npz"},
                new String[] {"quantize", model, "-o", "m.onnx", "--calibration", "data.npz"},
                new String[] {"convert", model, "-o", "m", "--target", "huggingface"},
                new String[] {"export", "run", "-o", "m.onnx", "--target", "onnx"},
                new String[] {"quickstart"});
        for (String[] line : lines) {
            Ended run = octet("octet-train", line);
            assertEquals(5, run.code(), line[0] + ": " + run.err());
            assertTrue(run.err().contains("ONNX Runtime, which is not part of this Octet"), run.err());
            assertTrue(run.err().contains("octet-VERSION-linux-x86_64.tar.gz"), run.err());
        }
        assertFalse(Files.exists(folder.resolve("m.onnx")) || Files.exists(folder.resolve("m")));
    }

    @Test
    void the_archive_for_training_is_small() throws IOException {
        long bytes = Files.size(archive("octet-train"));
        assertTrue(bytes <= MOST_BYTES_FOR_TRAINING, bytes + " bytes");
    }

    @ParameterizedTest
    @ValueSource(strings = {"octet", "octet-train"})
    void large_jars_hold_natives_of_this_platform_only(String archive) throws IOException {
        List<Path> jars;
        try (Stream<Path> files = Files.list(home(archive).resolve("lib"))) {
            jars = files.filter(f -> f.toFile().length() > 1 << 20).toList();
        }
        assertTrue(jars.size() > 3, jars.toString());
        for (Path jar : jars) {
            try (ZipFile zip = new ZipFile(jar.toFile())) {
                List<String> foreign = zip.stream()
                        .map(ZipEntry::getName)
                        .filter(n -> n.matches(".*\\.(dll|dylib|jnilib)|.*(aarch64|arm64).*\\.so"))
                        .toList();
                assertEquals(List.of(), foreign, jar.toString());
            }
        }
    }
}
