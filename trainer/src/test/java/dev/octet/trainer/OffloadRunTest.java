package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.config.Settings;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs whose states and weights lie in mapped files between the steps that use them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OffloadRunTest {
    private static final int STEPS = 6;
    private static final int HIDDEN = 2048;

    @TempDir
    Path folder;

    private Path disk;

    @BeforeEach
    void a_disk() throws IOException {
        disk = Files.createDirectory(folder.resolve("disk"));
    }

    private static TrainingParts parts(String... lines) {
        List<String> all = new ArrayList<>(List.of(lines));
        all.add("steps: " + STEPS);
        TrainingParts small = SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
        return new TrainingParts(
                small.config(),
                SmallRun.source(HIDDEN),
                Optional.empty(),
                small.train(),
                small.eval(),
                Map.of("model", "abc"));
    }

    private String onDisk(String what) {
        return "offload: {" + what + ", path: " + disk + "}";
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static RunPlan plan(TrainingParts parts) throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.plan();
        }
    }

    /** Tensors of the last checkpoint; checkpoint.json has the settings, which differ. */
    private static Map<String, byte[]> tensors(Path run) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(STEPS))) {
            for (Path file :
                    all.filter(f -> f.toString().endsWith(".safetensors")).toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private static void assertSame(Path a, Path b) throws IOException {
        Map<String, byte[]> first = tensors(a);
        Map<String, byte[]> second = tensors(b);
        assertEquals(2, first.size());
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
    }

    private void assertEmpty(Path of) throws IOException {
        try (Stream<Path> left = Files.list(of)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "optimizer: {type: adamw, lr: 0.003}",
                "optimizer: {type: stableadamw, lr: 0.003}",
                "optimizer: {type: sgd, lr: 0.003, momentum: 0.9}",
                "optimizer: {type: adamw, lr: 0.003, states: {engine: torchao}}",
                "optimizer: {type: adamw, lr: 0.003, states: {engine: msamp}}",
            })
    void numbers_are_those_of_a_run_in_memory(String optimizer) throws IOException {
        String averages = "averaging: {ema: {decay: 0.9}, swa: {start: 2, every: 2}}";
        run(parts(optimizer, averages), folder.resolve("plain"), RunOptions.defaults());
        run(parts(optimizer, averages, onDisk("states: disk")), folder.resolve("states"), RunOptions.defaults());
        run(
                parts(optimizer, averages, onDisk("states: disk, parameters: disk")),
                folder.resolve("all"),
                RunOptions.defaults());
        assertSame(folder.resolve("plain"), folder.resolve("states"));
        assertSame(folder.resolve("plain"), folder.resolve("all"));
        assertEmpty(disk);
    }

    @Test
    void masters_that_only_the_update_and_a_cast_read_go_with_the_states() throws IOException {
        String bf16 = "precision: {mode: bf16}";
        run(parts(bf16), folder.resolve("plain"), RunOptions.defaults());
        run(parts(bf16, onDisk("states: disk")), folder.resolve("states"), RunOptions.defaults());
        assertSame(folder.resolve("plain"), folder.resolve("states"));
        long all = plan(parts(bf16)).lastingBytes();
        long matrices = 2L * 8 * HIDDEN * 4;
        long left = plan(parts(bf16, onDisk("states: disk"))).lastingBytes();
        long leftInF32 = plan(parts(onDisk("states: disk"))).lastingBytes();
        assertTrue(left <= all - matrices, left + " of " + all);
        assertTrue(left < leftInF32, "in F32 forward reads the masters");
    }

    @Test
    void a_run_goes_on_with_and_without_it() throws IOException {
        TrainingParts plain = parts();
        TrainingParts states = parts(onDisk("states: disk"));
        run(plain, folder.resolve("plain"), RunOptions.defaults());
        Path mixed = folder.resolve("mixed");
        run(states, mixed, RunOptions.defaults().withMaxSteps(2));
        run(plain, mixed, RunOptions.defaults().resuming().withMaxSteps(2));
        run(states, mixed, RunOptions.defaults().resuming());
        assertSame(folder.resolve("plain"), mixed);
        assertEmpty(disk);
    }

    @Test
    void files_have_no_name_while_the_run_goes_on() throws IOException {
        assumeTrue(!System.getProperty("os.name").startsWith("Windows"), "Windows deletes them with the last handle");
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(parts(onDisk("states: disk")), device)) {
            for (long step = 1; step <= 2; step++) {
                trainer.step(step);
                assertEmpty(disk);
            }
        }
    }

    private static TrainingParts onRanks(int data, int ranks, String mesh, String... lines) {
        List<String> all = new ArrayList<>(List.of(lines));
        all.add("gradient_accumulation: 4");
        all.add("distributed: {" + mesh + "}");
        all.add("precision: {mode: " + (ranks == 4 ? "bf16" : "fp32")
                + (data == 1 ? "}" : ", ranks: " + data + ", gradient_reduction: f32}"));
        return parts(all.toArray(String[]::new));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 0 | states: disk, parameters: disk",
                "2 | 2 | zero: 1 | states: disk",
                "2 | 2 | zero: 2 | states: disk, parameters: disk",
                "2 | 2 | zero: 3 | states: disk, parameters: disk",
                "4 | 4 | zero: 3 | states: disk",
                "4 | 4 | zero: 0 | states: disk",
                "1 | 2 | pipeline: 2 | states: disk, parameters: disk",
                "2 | 4 | pipeline: 2, zero: 1 | states: disk",
                "1 | 2 | tensor: 2 | states: disk, parameters: disk"
            })
    void each_rank_keeps_what_is_its_own_in_files_and_numbers_stay(int data, int ranks, String mesh, String what)
            throws IOException {
        String averages = "averaging: {ema: {decay: 0.9}}";
        Path plain = folder.resolve("plain");
        Path away = folder.resolve("away");
        RankRuns.threads(ranks, onRanks(data, ranks, mesh, averages), plain, RunOptions.defaults());
        RankRuns.threads(ranks, onRanks(data, ranks, mesh, averages, onDisk(what)), away, RunOptions.defaults());
        RankRuns.assertSame(plain, away, STEPS);
        assertEmpty(disk);
    }

    /** What the ranks have in files, together. */
    private long offloaded(int ranks, String mesh) {
        TrainingParts parts = onRanks(ranks, ranks, mesh, onDisk("states: disk"));
        return RankThreads.run(ranks, RankRuns.DEADLINE, world -> {
                    try (Device device = CpuDevice.of(1);
                            Trainer trainer = Trainer.of(parts, device, world)) {
                        trainer.plan();
                        return trainer.session().offloadedBytes();
                    }
                })
                .stream()
                .mapToLong(Long::longValue)
                .sum();
    }

    @Test
    void states_that_ranks_share_out_lie_in_the_files_of_one_rank_each() {
        long alone = offloaded(1, "zero: 0");
        assertTrue(alone >= 2L * 2 * SmallRun.CLASSES * HIDDEN * Float.BYTES, "two moments: " + alone);
        assertEquals(2 * alone, offloaded(2, "zero: 0"));
        assertEquals(alone, offloaded(2, "zero: 1"));
    }

    @Tag("kernels")
    @ParameterizedTest
    @ValueSource(strings = {"zero: 0", "zero: 1", "zero: 3"})
    void ranks_stream_through_a_GPU_each(String zero) throws IOException {
        for (String away : List.of("none", "host")) {
            TrainingParts parts = onRanks(2, 2, zero, "offload: {states: " + away + ", parameters: " + away + "}");
            RankThreads.run(2, RankRuns.DEADLINE, world -> {
                try (Device gpu = TestGpus.ownDevice();
                        Trainer trainer = Trainer.of(parts, gpu, world)) {
                    return trainer.run(folder.resolve(away), RunOptions.defaults());
                }
            });
        }
        RankRuns.assertSame(folder.resolve("none"), folder.resolve("host"), STEPS);
    }

    @Test
    void a_plan_says_what_lies_elsewhere() throws IOException {
        RunPlan plan = plan(parts(onDisk("states: disk")));
        assertTrue(
                plan.notes().stream()
                        .anyMatch(n -> n.matches(
                                "offload: \\d+\\.\\d MiB off the device: states and masters in files in " + ".*disk")),
                plan.notes().toString());
        assertTrue(plan.lastingBytes() < plan(parts()).lastingBytes());
        assertEquals("disk", Settings.of(parts(onDisk("states: disk")).config()).get("offload.states"));
        assertFalse(Settings.of(parts().config()).keySet().stream().anyMatch(k -> k.startsWith("offload")));
    }

    private static String refused(String... lines) {
        return String.valueOf(assertThrows(InvalidOptionException.class, () -> plan(parts(lines)))
                .getMessage());
    }

    @Test
    void what_cannot_be_is_refused_before_the_first_step() throws IOException {
        Path none = folder.resolve("none");
        assertTrue(refused("offload: {states: disk, path: " + none + "}").contains("does not exist"));
        Path file = Files.writeString(folder.resolve("file"), "x");
        assertTrue(refused("offload: {states: disk, path: " + file + "}").contains("is not a folder"));
        assertTrue(refused("offload: {states: disk}").contains("no folder"));
        assertTrue(refused("offload: {path: " + disk + "}").contains("nothing lies on disk"));
        assertTrue(refused("offload: {states: host}").contains("what the CPU computes in"));
        assertTrue(refused("offload: {states: dusk, path: " + disk + "}").contains("unknown value 'dusk'"));
        assertTrue(refused("offload: {activations: host}").contains("what the CPU computes in"));
        assertTrue(refused("offload: {activations: disk}").contains("unknown value 'disk'"));
        try (Device device = new ReferenceDevice()) {
            TrainingParts parts = parts(onDisk("states: disk"));
            assertThrows(InvalidOptionException.class, () -> Trainer.of(parts, device));
            TrainingParts activations = parts("offload: {activations: host}");
            assertThrows(InvalidOptionException.class, () -> Trainer.of(activations, device));
        }
    }

    private static void onGpu(TrainingParts parts, Path folder, Device device) throws IOException {
        try (Device gpu = device;
                Trainer trainer = Trainer.of(parts, gpu)) {
            trainer.run(folder, RunOptions.defaults());
        }
    }

    @Tag("kernels")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "precision: {mode: fp32}",
                "precision: {mode: bf16}",
                "optimizer: {type: stableadamw, lr: 0.003}",
                "optimizer: {type: adamw, lr: 0.003, states: {engine: msamp}}",
            })
    void streamed_through_a_gpu_numbers_are_those_of_a_run_in_its_memory(String what) throws IOException {
        String averages = "averaging: {ema: {decay: 0.9}}";
        onGpu(parts(what, averages), folder.resolve("plain"), TestGpus.hostDevice());
        for (long seed = 1; seed <= 3; seed++) {
            String places = seed == 3 ? "{states: host, parameters: host}" : "{states: host}";
            Path run = folder.resolve("host-" + seed);
            // windows of one step, of two, of all
            long window = seed == 1 ? 1 : seed == 2 ? 8L * HIDDEN * 4 * 5 : 1 << 30;
            onGpu(parts(what, averages, "offload: " + places), run, TestGpus.laggingDevice(seed, window));
            assertSame(folder.resolve("plain"), run);
        }
    }

    @Test
    void lanes_that_do_not_wait_for_each_other_are_noticed() throws IOException {
        onGpu(parts(), folder.resolve("plain"), TestGpus.hostDevice());
        onGpu(parts("offload: {states: host}"), folder.resolve("wrong"), TestGpus.unorderedDevice(1, 1));
        Map<String, byte[]> plain = tensors(folder.resolve("plain"));
        Map<String, byte[]> wrong = tensors(folder.resolve("wrong"));
        assertTrue(plain.keySet().stream().anyMatch(name -> !Arrays.equals(plain.get(name), wrong.get(name))));
    }

    @Tag("kernels")
    @Test
    void a_gpu_streams_from_memory_only_and_plans_its_buffers() throws IOException {
        try (Device gpu = TestGpus.hostDevice()) {
            TrainingParts parts = parts(onDisk("states: disk"));
            assertThrows(InvalidOptionException.class, () -> Trainer.of(parts, gpu));
        }
        RunPlan plain;
        RunPlan host;
        try (Device gpu = TestGpus.hostDevice();
                Trainer trainer = Trainer.of(parts(), gpu)) {
            plain = trainer.plan();
        }
        try (Device gpu = TestGpus.laggingDevice(1, 1);
                Trainer trainer = Trainer.of(parts("offload: {states: host}"), gpu)) {
            host = trainer.plan();
        }
        long largest = 8L * HIDDEN * 4;
        assertTrue(host.lastingBytes() <= plain.lastingBytes() - 2 * largest);
        // the two buffers of the update, a program of its own, each with the moments of the largest matrix
        assertTrue(host.temporaryBytes() >= plain.temporaryBytes() + 2 * 2 * largest);
        assertTrue(host.notes().stream().anyMatch(n -> n.contains("in pinned memory of the host")));
    }

    private static final int LAYERS = 8;
    private static final int WIDTH = 64;
    private static final String AWAY = "offload: {activations: host}";

    /** Eight layers, each with two results of 16 KiB that backward reads. */
    private static GraphModel deep(Dim batch) {
        SplittableRandom random = new SplittableRandom(3);
        List<Initializer> weights = new ArrayList<>();
        List<Node> nodes = new ArrayList<>();
        String x = "x";
        for (int i = 0; i < LAYERS; i++) {
            String at = "layers." + i + ".";
            weights.add(matrix(random, at + "weight", i == 0 ? SmallRun.IN : WIDTH, WIDTH));
            nodes.add(
                    Node.of(at + "linear", "Linear", Node.OCTET_DOMAIN, List.of(x, at + "weight"), List.of(at + "h")));
            nodes.add(Node.of(at + "act", "Gelu", List.of(at + "h"), List.of(at + "a")));
            x = at + "a";
        }
        weights.add(matrix(random, "head", WIDTH, SmallRun.CLASSES));
        nodes.add(Node.of("head", "Linear", Node.OCTET_DOMAIN, List.of(x, "head"), List.of("logits")));
        Graph graph = Graph.of(
                "deep",
                nodes,
                weights,
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(batch, Dim.of(SmallRun.IN))))),
                List.of(new ValueInfo("logits", new TensorType(DType.F32, List.of(batch, Dim.of(SmallRun.CLASSES))))));
        return GraphModel.of(graph, 10, 21);
    }

    private static Initializer matrix(SplittableRandom random, String name, int rows, int columns) {
        float[] elements = new float[rows * columns];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = (float) (random.nextGaussian() / Math.sqrt(rows));
        }
        return Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(rows, columns), elements));
    }

    private static TrainingParts deepParts(String... lines) {
        List<String> all = new ArrayList<>(List.of(lines));
        all.add("batch_size: " + SmallRun.SAMPLES);
        TrainingParts small = parts(all.toArray(String[]::new));
        return new TrainingParts(
                small.config(),
                new GraphSource(deep(Dim.of("batch")), (graph, sizes) -> deep(Dim.of(sizes.getOrDefault("batch", 1L)))),
                Optional.empty(),
                small.train(),
                small.eval(),
                Map.of("model", "def"));
    }

    private static RunPlan planOnGpu(TrainingParts parts) throws IOException {
        try (Device gpu = TestGpus.hostDevice();
                Trainer trainer = Trainer.of(parts, gpu)) {
            return trainer.plan();
        }
    }

    @Tag("kernels")
    @Test
    void activations_in_memory_of_the_host_change_no_number() throws IOException {
        onGpu(deepParts(), folder.resolve("plain"), TestGpus.hostDevice());
        List<String> others = List.of(
                "gradient_accumulation: 1", "gradient_checkpointing: {layers: all}", "gradient_accumulation: 1");
        for (int seed = 0; seed < others.size(); seed++) {
            String offload = seed < 2 ? AWAY : "offload: {states: host, parameters: host, activations: host}";
            Path run = folder.resolve("away-" + seed);
            onGpu(deepParts(offload, others.get(seed)), run, TestGpus.laggingDevice(seed, 1));
            assertSame(folder.resolve("plain"), run);
        }
    }

    @Test
    void activations_whose_lanes_do_not_wait_are_noticed() throws IOException {
        onGpu(deepParts(), folder.resolve("plain"), TestGpus.hostDevice());
        onGpu(deepParts(AWAY), folder.resolve("wrong"), TestGpus.unorderedDevice(1, 1));
        Map<String, byte[]> plain = tensors(folder.resolve("plain"));
        Map<String, byte[]> wrong = tensors(folder.resolve("wrong"));
        assertTrue(plain.keySet().stream().anyMatch(name -> !Arrays.equals(plain.get(name), wrong.get(name))));
    }

    @Tag("kernels")
    @Test
    void activations_in_memory_of_the_host_take_none_of_the_gpu() throws IOException {
        RunPlan plain = planOnGpu(deepParts());
        RunPlan host = planOnGpu(deepParts(AWAY));
        RunPlan.ActivationMemory memory = host.activations().orElseThrow();
        assertEquals("offload.activations: host", memory.settings());
        assertTrue(memory.bytes() < 0.7 * memory.plainBytes(), memory.toString());
        assertTrue(
                plain.temporaryBytes() - host.temporaryBytes() >= memory.plainBytes() - memory.bytes() - 4096,
                plain.temporaryBytes() + ", " + host.temporaryBytes());
        assertEquals(plain.lastingBytes(), host.lastingBytes());
        assertTrue(
                host.notes().contains("offload: 0.2 MiB off the device: activations in pinned memory of the host"),
                host.notes().toString());
        assertEquals("host", Settings.of(deepParts(AWAY).config()).get("offload.activations"));
        String repeated = "gradient_checkpointing: {every: 2}";
        RunPlan.ActivationMemory both =
                planOnGpu(deepParts(AWAY, repeated)).activations().orElseThrow();
        RunPlan.ActivationMemory only =
                planOnGpu(deepParts(repeated)).activations().orElseThrow();
        assertEquals("gradient_checkpointing.every: 2, offload.activations: host", both.settings());
        assertTrue(both.bytes() < only.bytes(), both + " and " + only);
        assertEquals(only.again(), both.again());
    }

    @Test
    void memory_itself_is_no_disk() {
        Path shm = Path.of("/dev/shm");
        assumeTrue(Files.isWritable(shm), "there is no such folder");
        assertTrue(refused("offload: {states: disk, path: " + shm + "}").contains("in memory itself"));
    }
}
