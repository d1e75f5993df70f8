package dev.octet.bench.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The scripts of the first hour on a GPU, run to their end on a machine without one: Octet's measurements against the simulated driver, in which
 * a GPU does nothing at all but attention by cuDNN's interface; test classes that pass, break the GPU, hang and differ in place of the real ones.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FirstHourTest {
    private static final Path BENCH = Path.of("").toAbsolutePath();
    private static final Path SCRIPTS = BENCH.resolve("gpu");
    private static final Path FAKE =
            BENCH.resolveSibling("trainer/src/test/resources/dev/octet/trainer/device/cuda/fake_cuda.cc");

    private static final Path CUDNN = FAKE.resolveSibling("host_cudnn.cpp");

    /** Stands for java: test classes as in the comment above, everything else by the real one. */
    private static final String JAVA = """
        #!/usr/bin/env bash
        words="$*"
        class() { echo "│  uniqueId: [engine:junit-jupiter]/[class:made.$1]/[method:it()]"; }
        counts() { printf '[ %9d tests successful ]\\n[ %9d tests failed ]\\n[ %9d tests aborted ]\\n' "$@"; }
        case "$words" in
            *ConsoleLauncher\\ discover*) class Passes; class Breaks; class Hangs; class Differs; exit 0 ;;
            *ConsoleLauncher\\ execute*Passes*) counts 3 0 0; exit 0 ;;
            *ConsoleLauncher\\ execute*Breaks*)
                echo "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), caused by an earlier kernel"
                counts 1 2 0; exit 1 ;;
            *ConsoleLauncher\\ execute*Hangs*) echo "began"; exec sleep 100 ;;
            *ConsoleLauncher\\ execute*Differs*) echo "tensor 0 [0]: 1.5, expected 1.25, largest 2.0"; counts 0 1 0; exit 1 ;;
            *GpuBench\\ products*) [ -z "${HANGING_PRODUCTS:-}" ] || exec sleep 100 ;;
        esac
        exec "$REAL_JAVA" "$@"
        """;

    private static final String NVCC = """
        #!/usr/bin/env bash
        case "$1" in
            --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;;
            --list-gpu-arch) echo compute_90; exit ;;
        esac
        while [ $# -gt 0 ]; do
            [ "$1" != -o ] || printf '\\177ELF' > "$2"
            shift
        done
        """;

    @TempDir
    static Path folder;

    private record Ended(int code, String text) {}

    @BeforeAll
    static void the_simulated_driver_is_compiled() throws IOException, InterruptedException {
        assumeTrue(
                System.getProperty("os.name", "").equals("Linux")
                        && System.getProperty("os.arch", "").equals("amd64"),
                "the simulated driver is for Linux on x86-64");
        Path cuda = Files.createDirectories(folder.resolve("cuda"));
        Path driver = cuda.resolve("libcuda.so.1");
        for (List<String> tool : List.of(
                List.of("python3", "--version"),
                List.of("xz", "--version"),
                List.of(
                        "g++",
                        "-std=c++17",
                        "-O1",
                        "-shared",
                        "-fPIC",
                        "-w",
                        "-Wl,-soname,libcuda.so.1",
                        "-o",
                        driver.toString(),
                        FAKE.toString()),
                List.of(
                        "g++",
                        "-std=c++17",
                        "-O1",
                        "-shared",
                        "-fPIC",
                        "-o",
                        cuda.resolve("libcudnn.so.9").toString(),
                        CUDNN.toString()))) {
            Ended ended = run(tool, Map.of());
            assumeTrue(ended.code() == 0, tool.getFirst() + " is not here or fails: " + ended.text());
        }
        Files.createSymbolicLink(cuda.resolve("libcublasLt.so.13"), driver);
        Files.createSymbolicLink(cuda.resolve("libnvidia-ml.so.1"), driver);
        script(cuda.resolve("bin/nvcc"), NVCC);
        script(folder.resolve("bin/java"), JAVA);
        script(folder.resolve("bin/nvidia-smi"), "#!/bin/sh\necho no more than a name\n");
    }

    private static void script(Path file, String text) throws IOException {
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
        assertTrue(file.toFile().setExecutable(true));
    }

    private static Ended run(List<String> words, Map<String, String> environment)
            throws IOException, InterruptedException {
        Path out = Files.createTempFile(folder, "run", ".txt");
        try {
            ProcessBuilder builder =
                    new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(out.toFile());
            builder.environment().putAll(environment);
            Process process = builder.start();
            assertTrue(process.waitFor(4, TimeUnit.MINUTES), words + " does not end");
            return new Ended(process.exitValue(), Files.readString(out, StandardCharsets.UTF_8));
        } catch (IOException e) {
            return new Ended(127, e.toString());
        }
    }

    private static Map<String, String> environment() {
        // some starters of tests keep the class path to a loader of their own
        Stream<String> own = FirstHourTest.class.getClassLoader() instanceof URLClassLoader loader
                ? Arrays.stream(loader.getURLs()).map(URL::getPath)
                : Stream.of();
        String path = Stream.concat(own, Stream.of(System.getProperty("java.class.path")))
                .collect(Collectors.joining(File.pathSeparator));
        Map<String, String> environment = new HashMap<>();
        environment.put("PATH", folder.resolve("bin") + ":" + System.getenv("PATH"));
        environment.put(
                "REAL_JAVA",
                Path.of(System.getProperty("java.home"), "bin", "java").toString());
        environment.put("OCTET_GPU_PACK", SCRIPTS.toString());
        environment.put("OCTET_GPU_JAVA", folder.resolve("bin/java").toString());
        environment.put("OCTET_GPU_CLASSES", path);
        environment.put("OCTET_GPU_PEERS", BENCH.resolve("peers").toString());
        environment.put("OCTET_GPU_OPTIONS", "-XX:TieredStopAtLevel=1 -Doctet.cache=" + folder.resolve("kernels"));
        environment.put("OCTET_TEST_CLASSES", folder.toString());
        environment.put("OCTET_TEST_PATH", "none");
        environment.put("OCTET_TEST_DATA", folder.toString());
        environment.put("OCTET_CUDA_HOME", folder.resolve("cuda").toString());
        environment.put("FAKE_IDLE", "1");
        return environment;
    }

    private static Ended part(String script, String... words) throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(List.of(
                SCRIPTS.resolve("first-hour").resolve(script).toString(),
                "--out",
                folder.resolve("out").toString(),
                "--small",
                "--steps",
                "2"));
        all.addAll(List.of(words));
        return run(all, environment());
    }

    private static String result(String name) throws IOException {
        return Files.readString(folder.resolve("out").resolve(name), StandardCharsets.UTF_8);
    }

    @Tag("sweep")
    @Test
    void the_first_part_names_the_line_of_the_triage_table_for_each_class_that_fails()
            throws IOException, InterruptedException {
        Ended ended = part("1-classes", "--budget", "120");
        assertEquals(1, ended.code(), ended.text());
        String table = result("classes.md");
        assertTrue(table.contains("- cublasLt: 13.1.0 (" + folder.resolve("cuda")), table);
        assertTrue(table.contains("| smoke: one kernel | passed |"), table);
        assertTrue(table.contains("- fp8Teraflops: "), table);
        assertTrue(table.contains("predicted 1400"), table);
        assertTrue(row(table, "made.Breaks").endsWith("| kernel-fault |"), table);
        assertTrue(row(table, "made.Differs").endsWith("| f32-sums |"), table);
        assertFalse(table.contains("| made.Passes"), table);
        assertTrue(row(table, "made.Hangs").endsWith("| hang |"), table);
        assertTrue(result("classes.log").contains("no more than a name"), "the log has what each task printed");
        assertTrue(result("tests/classes.tsv").contains("made.Passes\tpassed\t"), result("tests/classes.tsv"));
        assertTrue(result("tests/tests.txt").contains("=== made.Breaks: failed\n"), result("tests/tests.txt"));
    }

    private static String row(String table, String task) {
        return table.lines()
                .filter(l -> l.startsWith("| " + task + " |"))
                .findFirst()
                .orElseThrow(() -> new AssertionError(table));
    }

    @Test
    void a_class_that_hangs_is_ended_by_its_own_limit() throws IOException, InterruptedException {
        Path report = folder.resolve("limited");
        Ended ended = run(
                List.of(SCRIPTS.resolve("run").toString(), "--limit", "3", "--report", report.toString()),
                environment());
        assertEquals(1, ended.code(), ended.text());
        assertTrue(ended.text().contains("tests: 4 passed, 3 failed, 0 skipped"), ended.text());
        String text = Files.readString(report.resolve("tests.txt"));
        assertTrue(text.contains("killed: the limit of 3 s is over"), text);
    }

    @Tag("sweep")
    @Test
    void the_third_and_fourth_part_measure_and_set_numbers_beside_the_predicted_and_the_peers()
            throws IOException, InterruptedException {
        Ended steps = part("3-steps", "--budget", "200");
        assertEquals(0, steps.code(), steps.text());
        String table = result("steps.md");
        for (String model : List.of("vit-small bf16", "vit-small fp8", "gpt2-small bf16", "gpt2-small fp8")) {
            assertTrue(table.contains("## step " + model + ": "), table);
        }
        assertTrue(table.contains("| cuMemcpyHtoDAsync x"), table);
        JsonNode results = new ObjectMapper().readTree(result("steps.json")).get("results");
        assertEquals(18, results.at("/products/octet/0/products").size());
        assertEquals(2, results.at("/attention/cudnn/0/attention").size());
        assertTrue(table.contains("| with cuDNN's attention: the step |"), table);
        assertTrue(table.contains("| attention backward bf16 16x4x17x17x16 x2 |"), table);
        Ended peers = part("4-peers", "--budget", "60");
        String beside = result("peers.md");
        // no torch that sees a GPU is on this machine
        assertEquals(1, peers.code(), peers.text());
        assertTrue(row(beside, "limits, torch").endsWith("| torch-missing |"), beside);
        assertTrue(
                Pattern.compile("\\| step vit-small fp8 \\| [0-9.]+ \\| failed \\|")
                        .matcher(beside)
                        .find(),
                beside);
    }

    @Tag("sweep")
    @Test
    void what_was_measured_is_kept_when_the_run_is_killed() throws IOException, InterruptedException {
        Map<String, String> environment = environment();
        environment.put("HANGING_PRODUCTS", "1");
        Path result = folder.resolve("killed");
        ProcessBuilder builder = new ProcessBuilder(
                "python3",
                BENCH.resolve("peers/gpu_rounds.py").toString(),
                result.toString(),
                "--tools",
                "octet",
                "--rounds",
                "1",
                "--only",
                "limits,products",
                "--limit",
                "100");
        builder.environment().putAll(environment);
        Process process = builder.redirectErrorStream(true)
                .redirectOutput(folder.resolve("killed.txt").toFile())
                .start();
        Path json = folder.resolve("killed.json");
        for (int i = 0;
                i < 600 && !(Files.exists(json) && Files.readString(json).contains("copyGigabytes"));
                i++) {
            Thread.sleep(100);
        }
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly().waitFor();
        JsonNode results = new ObjectMapper().readTree(Files.readString(json)).get("results");
        assertTrue(results.at("/limits/octet/0/limits/copyGigabytes").asDouble() > 0, results.toString());
        assertFalse(results.has("products"), results.toString());
    }

    @Test
    void each_line_of_the_triage_table_is_found_by_its_example_alone() throws IOException {
        JsonNode table = new ObjectMapper()
                .readTree(Files.readString(SCRIPTS.resolve("first-hour/triage.json"), StandardCharsets.UTF_8));
        assertTrue(table.size() > 15);
        for (JsonNode line : table) {
            List<String> hits = new ArrayList<>();
            for (JsonNode other : table) {
                if (Pattern.compile(other.get("seen").asText())
                        .matcher(line.get("example").asText())
                        .find()) {
                    hits.add(other.get("id").asText());
                }
            }
            assertEquals(List.of(line.get("id").asText()), hits);
            assertFalse(line.get("cause").asText().isEmpty()
                    || line.get("do").asText().isEmpty());
        }
    }

    @Tag("sweep")
    @Test
    void the_pack_leaves_out_what_the_checkout_has_and_keeps_to_its_limit() throws IOException, InterruptedException {
        Path made = Files.createDirectories(folder.resolve("made/octet/lib"));
        for (String part : List.of("runtime/bin", "bin", "launcher")) {
            Files.createDirectories(folder.resolve("made/octet").resolve(part));
        }
        Files.writeString(made.resolveSibling("octet.jar"), "a jar");
        Files.writeString(made.resolve("octet-trainer-1.jar"), "a jar");
        Files.writeString(made.resolve("dnnl-1.jar"), "left out");
        Path archive = folder.resolve("octet-train-1.tar.gz");
        assertEquals(
                0,
                run(
                                List.of(
                                        "tar",
                                        "czf",
                                        archive.toString(),
                                        "-C",
                                        folder.resolve("made").toString(),
                                        "octet"),
                                Map.of())
                        .code());
        Path classes = Files.createDirectories(folder.resolve("made/classes"));
        Path kernels = Files.createDirectories(folder.resolve("made/kernels"));
        Files.writeString(kernels.resolve("gelu-0123.cubin"), "compiled");
        Map<String, String> given = Map.of(
                "ARCHIVE", archive.toString(),
                "TEST_CLASSES", classes.toString(),
                "BENCH_CLASSES", classes.toString(),
                "JUNIT", archive.toString(),
                "CACHE", kernels.toString());
        String script = BENCH.resolve("run-gpu-tests").toString();
        Path out = folder.resolve("pack.tar.xz");
        Ended inside = run(List.of(script, "--inside", "--limit", "500", out.toString()), given);
        assertEquals(0, inside.code(), inside.text());
        assertTrue(
                Pattern.compile("pack\\.tar\\.xz: 1 MiB, the checkout \\d+ MiB, together \\d+ MiB, of 500 MiB")
                        .matcher(inside.text())
                        .find(),
                inside.text());
        String names = run(List.of("tar", "tJf", out.toString()), Map.of()).text();
        assertTrue(names.contains("octet-gpu/lib/octet-trainer-1.jar"), names);
        assertTrue(names.contains("octet-gpu/octet.jar"), names);
        assertTrue(names.contains("octet-gpu/cache/gelu-0123.cubin"), names);
        assertFalse(names.contains("dnnl") || names.contains("testdata") || names.contains("gpu_rounds"), names);
        Ended large = run(List.of(script, "--inside", "--limit", "2", out.toString()), given);
        assertEquals(1, large.code(), large.text());
        assertTrue(large.text().contains("more than the limit of 2 MiB"), large.text());
        Ended whole = run(List.of(script, out.toString()), given);
        assertEquals(0, whole.code(), whole.text());
        names = run(List.of("tar", "tJf", out.toString()), Map.of()).text();
        assertTrue(names.contains("octet-gpu/first-hour/1-classes"), names);
        assertTrue(names.contains("octet-gpu/bench/peers/gpu_rounds.py"), names);
        assertTrue(names.contains("octet-gpu/tests/testdata/golden/training/"), names);
    }
}
