package dev.octet.bench.gpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.GpuSearch;
import dev.octet.trainer.device.cuda.Gpus;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What of the measurements needs no GPU. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GpuBenchTest {
    @TempDir
    Path folder;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    private int run(String... args) throws IOException {
        GpuBench bench = new GpuBench(() -> Gpus.find(0).orThrow(), new Limits.Size(1 << 20, 256), new Timing(1, 1));
        return bench.run(
                List.of(args),
                new PrintStream(out, true, StandardCharsets.UTF_8),
                new PrintStream(err, true, StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @CsvSource({"vit-small,bf16", "vit-small,fp8", "gpt2-small,bf16", "gpt2-small,fp8"})
    void a_made_model_trains(String name, String precision) throws IOException {
        Subject subject = Subject.of(name);
        subject.model().write(folder, 1);
        boolean[] done = {false};
        try (Device device = CpuDevice.of(1)) {
            StepTime time = StepTime.measure(new StepTime.Task(subject, precision, 2, 3), folder, device, last -> {
                last.run();
                done[0] = true;
            });
            assertEquals(3, time.millis().size());
            assertEquals(StepTime.WARM_UP + 3, time.losses().size());
            assertTrue(time.medianMillis() > 0);
            // the one batch there is, is learned
            assertTrue(
                    time.losses().getLast() < time.losses().getFirst(),
                    time.losses().toString());
        }
        assertTrue(done[0]);
    }

    @Test
    void the_models_are_as_large_as_those_they_are_named_after() {
        assertEquals(632_045_800, Subject.of("vit-huge").model().parameters());
        assertEquals(124_439_808, Subject.of("gpt2").model().parameters());
    }

    @Test
    void facts_need_no_gpu() throws IOException {
        assertEquals(0, run("facts"));
        String line = out.toString(StandardCharsets.UTF_8);
        assertTrue(line.startsWith("{\"facts\":{") && line.contains("\"name\":\"driver\""), line);
    }

    @Test
    void equal_seeds_make_equal_files() throws IOException {
        assertEquals(0, run("make", "gpt2-small", folder.resolve("a").toString()));
        assertEquals(0, run("make", "gpt2-small", folder.resolve("b").toString()));
        for (String file : List.of("config.json", "model.safetensors")) {
            assertArrayEquals(
                    Files.readAllBytes(folder.resolve("a").resolve(file)),
                    Files.readAllBytes(folder.resolve("b").resolve(file)));
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "limits",
                "products 64x32x16",
                "attention 2x2x2x64x64",
                "cast 64x128",
                "step vit-small bf16 nowhere 2 3"
            })
    void without_a_gpu_everything_ends_with_5_and_what_is_missing(String arguments) throws IOException {
        assumeTrue(Gpus.find(0) instanceof GpuSearch.Unfit, "there is a GPU");
        assertEquals(5, run(arguments.split(" ")));
        String text = err.toString(StandardCharsets.UTF_8);
        assertEquals(3, text.strip().lines().count(), text);
        assertTrue(text.contains("where:") && text.contains("fix:"), text);
        assertEquals("", out.toString(StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @ValueSource(strings = {"limit", "products", "attention", "make gpt3 x", "step vit-small"})
    void wrong_arguments_are_2(String arguments) throws IOException {
        assertEquals(2, run(arguments.split(" ")));
    }

    @Test
    void the_limit_of_a_kernel_is_memory_or_arithmetic() {
        Limits limits = new Limits(4000, 800, 1600);
        // 4 GB take a millisecond, 1.6 TFLOP one in FP8 and two in BF16
        assertEquals(0.5, new KernelTime("copy", 1, 2000, 4_000_000_000L, 0, false).ofLimit(limits), 1e-12);
        assertEquals(0.5, new KernelTime("p", 1, 2000, 1000, 1.6e12, true).ofLimit(limits), 1e-12);
        assertEquals(1, new KernelTime("p", 1, 2000, 1000, 1.6e12, false).ofLimit(limits), 1e-12);
        assertEquals(0, new KernelTime("k", 1, 2000, 0, 0, false).ofLimit(limits), 0);
        assertEquals(
                new KernelTime("k", 3, 5, 7, 0, false),
                new KernelTime("k", 1, 2, 3, 0, false).and(new KernelTime("k", 2, 3, 4, 0, false)));
    }
}
