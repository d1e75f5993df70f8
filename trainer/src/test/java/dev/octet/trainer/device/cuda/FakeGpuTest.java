package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The way through jcuda and the bindings, against a driver and a cublasLt that work on the host's memory ({@code fake_cuda.cc}): arguments
 * arrive, results are right, errors are told. What a GPU does with them is for the tests that have one.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FakeGpuTest {
    @TempDir
    static Path folder;

    /** In place of {@code /tmp}, where everybody can put files. */
    private static Path temporary;

    private record Ended(int code, String text) {}

    @BeforeAll
    static void the_fake_is_compiled() throws IOException, InterruptedException {
        if (HostCompiler.absence().isPresent()
                || !System.getProperty("os.arch", "").equals("amd64")) {
            throw Installed.skip("the fake driver needs Linux on x86-64 and g++");
        }
        temporary = Files.createDirectory(folder.resolve("temporary"));
        Path source = folder.resolve("fake_cuda.cc");
        try (InputStream in = FakeGpuTest.class.getResourceAsStream("fake_cuda.cc")) {
            Files.write(source, in.readAllBytes());
        }
        Path driver = folder.resolve("libcuda.so.1");
        Ended ended = run(
                Map.of(),
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
                        source.toString()));
        if (ended.code() != 0) {
            throw Installed.skip("the fake driver does not compile: " + ended.text());
        }
        // one library, so that both see the same memory
        Files.createSymbolicLink(folder.resolve("libcublasLt.so.13"), driver);
        Files.createSymbolicLink(folder.resolve("libnvidia-ml.so.1"), driver);
    }

    private static Ended run(Map<String, String> environment, List<String> words)
            throws IOException, InterruptedException {
        Path out = Files.createTempFile(folder, "run", ".txt");
        ProcessBuilder builder =
                new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(out.toFile());
        builder.environment().putAll(environment);
        int code = builder.start().waitFor();
        return new Ended(code, Files.readString(out, StandardCharsets.UTF_8));
    }

    /** Some starters of tests keep the class path to a loader of their own. */
    private static String classPath() {
        Stream<String> own = FakeGpuTest.class.getClassLoader() instanceof URLClassLoader loader
                ? Stream.of(loader.getURLs()).map(URL::getPath)
                : Stream.of();
        return Stream.concat(own, Stream.of(System.getProperty("java.class.path")))
                .collect(Collectors.joining(File.pathSeparator));
    }

    private static Ended java(Map<String, String> settings, String what, String... more)
            throws IOException, InterruptedException {
        Map<String, String> environment = new HashMap<>(settings);
        environment.putIfAbsent("OCTET_CUDA_HOME", folder.toString());
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-XX:TieredStopAtLevel=1",
                "-Xmx400m",
                "-Djava.io.tmpdir=" + temporary,
                "-Doctet.cache=" + folder.resolve("natives"),
                "-cp",
                classPath(),
                FakeGpuRun.class.getName(),
                what,
                Files.createTempDirectory(folder, "cache").toString()));
        words.addAll(List.of(more));
        return run(environment, words);
    }

    @Test
    void everything_a_step_needs_goes_through_the_driver() throws IOException, InterruptedException {
        Ended ended = java(Map.of(), "work");
        assertEquals(0, ended.code(), ended.text());
        assertTrue(ended.text().endsWith("passed\n"), ended.text());
        // both GPUs that were closed in peace gave everything back
        assertEquals(2, ended.text().split("released, 0 bytes left", -1).length - 1, ended.text());
        // 17 shapes were timed and of one the library was asked whether it computes it; the second GPU found its shape
        // in the cache
        assertEquals(18, ended.text().split("asked for algorithms", -1).length - 1, ended.text());
    }

    @Test
    void what_is_found_is_reported() throws IOException, InterruptedException {
        String text = java(Map.of(), "find").text();
        assertTrue(text.contains("GpuInfo[ordinal=0, name=Fake GPU, capability=90, multiprocessors=132"), text);
        assertTrue(text.contains("name=driver, version="), text);
        assertTrue(text.contains("CUDA 13.0"), text);
        assertTrue(text.contains("name=jcuda, version=12.6.0"), text);
        assertTrue(text.contains("name=cublasLt, version=13.1.0"), text);
    }

    @Test
    void what_lies_in_the_temporary_folder_under_the_name_of_jcudas_library_is_not_loaded()
            throws IOException, InterruptedException {
        Path planted = Files.writeString(temporary.resolve("libJCudaDriver-12.6.0-linux-x86_64.so"), "not jcuda");
        try {
            Ended ended = java(Map.of(), "find");
            assertTrue(ended.text().startsWith("ready: "), ended.text());
            assertTrue(ended.text().contains("temporary files: " + temporary + "\n"), ended.text());
        } finally {
            Files.delete(planted);
        }
        try (Stream<Path> left = Files.list(temporary)) {
            assertEquals(List.of(), left.toList());
        }
    }

    /** The folder with cuDNN's interface beside the driver. */
    private static Map<String, String> withCudnn() throws IOException {
        Path home = Files.createDirectories(folder.resolve("with-cudnn"));
        Path library = HostCudnn.compiled(HostCompiler.find().orElseThrow());
        for (Path file : List.of(
                folder.resolve("libcuda.so.1"),
                folder.resolve("libcublasLt.so.13"),
                folder.resolve("libnvidia-ml.so.1"))) {
            Files.deleteIfExists(home.resolve(file.getFileName()));
            Files.createSymbolicLink(home.resolve(file.getFileName()), file);
        }
        Files.deleteIfExists(home.resolve("libcudnn.so.9"));
        Files.createSymbolicLink(home.resolve("libcudnn.so.9"), library.toAbsolutePath());
        return Map.of("OCTET_CUDA_HOME", home.toString());
    }

    /** This machine may have cuDNN where it is searched. */
    private static void assumeAbsent() {
        if (CudaLibraries.ofSystem().find(CudaLibrary.CUDNN) instanceof LibrarySearch.Found f) {
            throw Installed.skip("cuDNN is there: " + f.loaded().path());
        }
    }

    @Test
    void attention_goes_through_cudnn() throws IOException, InterruptedException {
        Ended ended = java(withCudnn(), "attention");
        assertTrue(ended.text().endsWith("passed\n"), ended.text());
        assertTrue(ended.text().contains("released, 0 bytes left"), ended.text());
    }

    @Test
    void cudnn_is_reported_where_it_is_and_named_with_the_gpu_where_it_is_used()
            throws IOException, InterruptedException {
        assumeAbsent();
        assertFalse(java(Map.of(), "find").text().contains("name=cuDNN"));
        String text = java(withCudnn(), "find", "cudnn").text();
        assertTrue(text.contains("cublasLt 13.1.0, cuDNN 9.24.0, "), text);
        assertTrue(text.contains("name=cuDNN, version=9.24.0"), text);
    }

    @Test
    void cudnn_that_is_asked_for_and_not_there_is_an_error() throws IOException, InterruptedException {
        assumeAbsent();
        String text = java(Map.of(), "find", "cudnn").text();
        assertTrue(text.startsWith("unfit: libcudnn.so.9 was not found\n"), text);
        assertTrue(text.contains("pip install nvidia-cudnn-cu13"), text);
    }

    @Test
    void what_does_not_fit_is_refused_with_its_reason() throws IOException, InterruptedException {
        Map<Map<String, String>, String> reasons = Map.of(
                Map.of("FAKE_INIT", "100"),
                "unfit: cuInit failed: CUDA_ERROR_NO_DEVICE (100)\n",
                Map.of("FAKE_VERSION", "11080"),
                "unfit: NVIDIA's driver is too old: it supports CUDA 11.8, but Octet needs 12.0\n",
                Map.of("FAKE_COUNT", "0"),
                "unfit: there is no GPU\n",
                Map.of("FAKE_CAPABILITY", "75"),
                "unfit: compute capability 7.5 is too low: Octet's kernels need 8.0, FP8 8.9\n",
                Map.of("FAKE_LT", "111101"),
                "unfit: cublasLt 11.11.1 is too old: FP8 came with 12.0\n");
        for (Map.Entry<Map<String, String>, String> e : reasons.entrySet()) {
            Ended ended = java(e.getKey(), "find");
            assertEquals(0, ended.code(), ended.text());
            assertTrue(ended.text().contains(e.getValue()), ended.text());
        }
    }
}
