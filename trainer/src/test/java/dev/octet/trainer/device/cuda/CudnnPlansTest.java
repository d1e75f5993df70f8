package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * cuDNN itself, where it is installed (pip install nvidia-cudnn-cu13; no GPU and no driver is needed): which shapes it has plans for on an H200, and what
 * workspace they take. {@code h200.json} has what the library asks for of a GPU, as CUDA tells of an H200. It compiles plans for a GPU whose properties it is told, as long as it finds a driver's library: {@code absent_driver.cpp}.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("clients")
class CudnnPlansTest {
    /** Type, samples, heads, heads of keys, queries, keys, size of a head; then what {@link CudnnPlansRun} knows. */
    private static final List<String> SHAPES = List.of(
            "bf16,32,12,12,1024,1024,64,causal,packed,bias", // GPT-2 124M of the bench
            "bf16,64,16,16,257,257,80,,packed,", // ViT-Huge/14
            "bf16,8,32,8,2048,2048,64,causal,,bias", // Llama 3.2 1B
            "bf16,32,12,12,512,512,64,,packed,bias", // BERT-base
            "f16,4,16,16,1024,1024,128,causal,,",
            "bf16,4,16,16,1024,1024,128,,,bias",
            "bf16,4,16,4,300,300,128,causal,,bias",
            "f16,2,8,8,70,70,96,,packed,bias",
            "bf16,2,8,8,70,70,40,causal,packed,",
            "bf16,2,8,8,70,70,8,,,",
            "bf16,4,16,16,3,140,80,causal,,",
            "bf16,4,16,16,140,30,64,causal,,bias",
            "bf16,1,1,1,1,1,64,,,");

    @TempDir
    Path folder;

    private List<String> answers() throws IOException, InterruptedException {
        assumeTrue(
                System.getProperty("os.name", "").equals("Linux")
                        && System.getProperty("os.arch", "").equals("amd64"),
                "cuDNN is for Linux on x86-64 here");
        Path source = folder.resolve("absent_driver.cpp");
        try (InputStream in = CudnnPlansTest.class.getResourceAsStream("absent_driver.cpp")) {
            Files.write(source, in.readAllBytes());
        }
        List<String> compiled = run(List.of(
                "g++",
                "-shared",
                "-fPIC",
                "-Wl,-soname,libcuda.so.1",
                "-o",
                folder.resolve("libcuda.so.1").toString(),
                source.toString()));
        if (!Files.exists(folder.resolve("libcuda.so.1"))) {
            throw Installed.skip("no driver's library without g++: " + compiled);
        }
        // some starters of tests keep the class path to a loader of their own
        Stream<String> own = CudnnPlansTest.class.getClassLoader() instanceof URLClassLoader loader
                ? Stream.of(loader.getURLs()).map(URL::getPath)
                : Stream.of();
        String path = Stream.concat(own, Stream.of(System.getProperty("java.class.path")))
                .collect(Collectors.joining(File.pathSeparator));
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-Xmx400m",
                "-cp",
                path,
                CudnnPlansRun.class.getName()));
        words.addAll(SHAPES);
        List<String> answers = run(words);
        if (answers.getFirst().startsWith("absent: ")) {
            throw Installed.skip(answers.getFirst() + " (pip install nvidia-cudnn-cu13)");
        }
        return answers;
    }

    private List<String> run(List<String> words) throws IOException, InterruptedException {
        Path out = folder.resolve("out.txt");
        ProcessBuilder builder =
                new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(out.toFile());
        builder.environment().merge("LD_LIBRARY_PATH", folder.toString(), (old, mine) -> mine + ":" + old);
        try {
            Process process = builder.start();
            assertTrue(process.waitFor(5, TimeUnit.MINUTES), words + " does not end");
        } catch (IOException e) {
            return List.of(e.toString());
        }
        return Files.readAllLines(out, StandardCharsets.UTF_8);
    }

    /** What bench/gpu/predict takes for granted of the workspace: probabilities' gradients in two bytes, tiles of 64 queries and 128 keys. */
    private static long workspace(String[] f) {
        long heads = Long.parseLong(f[1]) * Long.parseLong(f[2]);
        long queries = Math.ceilDiv(Long.parseLong(f[4]), 64) * 64L;
        long keys = Math.ceilDiv(Long.parseLong(f[5]), 128) * 128L;
        long grouped = f[2].equals(f[3]) ? 0 : 2 * 2 * heads * Long.parseLong(f[5]) * Long.parseLong(f[6]);
        return 2 * heads * queries * keys + grouped + 256;
    }

    @Test
    void there_is_a_plan_for_every_shape_and_its_workspace_is_as_predicted() throws IOException, InterruptedException {
        List<String> answers = answers();
        String all = String.join("\n", answers);
        assertEquals("done", answers.getLast(), all);
        Pattern plan = Pattern.compile("attention (forward|backward) .*: engine \\d+, workspace (\\d+)");
        List<String> told =
                answers.stream().filter(l -> l.startsWith("attention")).toList();
        assertEquals(2 * SHAPES.size(), told.size(), all);
        for (int i = 0; i < told.size(); i++) {
            Matcher m = plan.matcher(told.get(i));
            assertTrue(m.matches(), told.get(i));
            long bytes = Long.parseLong(m.group(2));
            long expected = m.group(1).equals("forward")
                    ? 256
                    : workspace(SHAPES.get(i / 2).split(",", -1));
            assertEquals(expected, bytes, told.get(i));
        }
    }
}
