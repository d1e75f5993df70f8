package dev.octet.trainer.optimizer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.config.OptimizerConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.optimizer.WeightAveraging.Kind;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class UpdateProgramTest {
    private static final Path GOLDEN =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "optimizers.safetensors");

    private record Configuration(double lr, Optimizer optimizer) {}

    /** As a run's configuration has it. */
    private static Configuration written(String optimizer) {
        String yaml = "data: {train: a.npz}\nloss: {type: mse}\nsteps: 1\noptimizer: " + optimizer + "\n";
        OptimizerConfig config =
                TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of("")).optimizer();
        return new Configuration(config.lr(), config.optimizer());
    }

    /** Those of {@code make/optimizers.py}. */
    private static Map<String, Configuration> configurations() {
        Map<String, Configuration> all = new LinkedHashMap<>();
        all.put("adamw", new Configuration(1e-3, Optimizer.Adam.ADAMW));
        all.put(
                "adamw_decay",
                new Configuration(3e-2, new Optimizer.Adam(0.8, 0.95, 1e-6, 0.3, Optimizer.Variant.ADAMW)));
        all.put("adam", new Configuration(1e-3, Optimizer.Adam.ADAM));
        all.put("adam_decay", new Configuration(1e-2, Optimizer.Adam.ADAM.withWeightDecay(0.1)));
        all.put("sgd", new Configuration(1e-2, Optimizer.Sgd.of(0)));
        all.put("sgd_decay", new Configuration(1e-2, Optimizer.Sgd.of(0).withWeightDecay(0.2)));
        all.put("sgd_momentum", new Configuration(1e-2, Optimizer.Sgd.of(0.9)));
        all.put("sgd_dampening", written("{type: sgd, lr: 1e-2, momentum: 0.9, dampening: 0.4, weight_decay: 0.1}"));
        all.put("sgd_nesterov", written("{type: sgd, lr: 1e-2, momentum: 0.8, nesterov: true, weight_decay: 0.1}"));
        all.put("stableadamw", new Configuration(1e-2, Optimizer.Adam.STABLE_ADAMW));
        all.put(
                "stableadamw_decay",
                written("{type: stableadamw, lr: 3e-2, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.3}"));
        return all;
    }

    /** An update of parameters {@code p0}, {@code p1} .. on a device. */
    private static final class Run implements AutoCloseable {
        final UpdateProgram update;
        private final Memory memory;
        private final Executable executable;

        Run(Device device, Optimizer optimizer, List<Pattern> noDecay, double maxNorm, float[]... parameters) {
            this(device, optimizer, noDecay, maxNorm, List.of(), parameters);
        }

        Run(
                Device device,
                Optimizer optimizer,
                List<Pattern> noDecay,
                double maxNorm,
                List<WeightAveraging> averages,
                float[]... parameters) {
            ProgramBuilder training = new ProgramBuilder();
            for (int i = 0; i < parameters.length; i++) {
                training.gradient("p" + i, type(parameters[i].length));
            }
            update = UpdateProgram.of(training.build(), optimizer, noDecay, maxNorm, averages);
            memory = device.allocate(List.of());
            executable = device.load(update.program(), memory);
            for (int i = 0; i < parameters.length; i++) {
                set("p" + i, parameters[i]);
            }
        }

        private static OperandType type(int n) {
            return new OperandType(DType.F32, Shape.of(n));
        }

        private Value value(String name) {
            Program program = update.program();
            return program.values().stream()
                    .filter(v -> v.name().equals(name))
                    .findFirst()
                    .orElseThrow();
        }

        void set(String name, float... elements) {
            memory.write(value(name), MemorySegment.ofArray(bytes(elements)));
        }

        private static byte[] bytes(float[] elements) {
            byte[] bytes = new byte[elements.length * 4];
            MemorySegment.copy(elements, 0, MemorySegment.ofArray(bytes), Tensor.F32_LE, 0, elements.length);
            return bytes;
        }

        float[] get(Value value) {
            byte[] bytes = new byte[(int) value.type().byteSize()];
            memory.read(value, MemorySegment.ofArray(bytes));
            float[] elements = new float[bytes.length / 4];
            MemorySegment.copy(MemorySegment.ofArray(bytes), Tensor.F32_LE, 0, elements, 0, elements.length);
            return elements;
        }

        float[] get(String name) {
            return get(value(name));
        }

        void step(double lr, float[]... gradients) {
            set("learning_rate", (float) lr);
            for (int i = 0; i < gradients.length; i++) {
                set("d:p" + i, gradients[i]);
            }
            executable.run(Phase.UPDATE);
        }

        Map<String, Value> memory(String parameter) {
            return requireNonNull(update.memory().get(parameter));
        }

        @Override
        public void close() {
            executable.close();
            memory.close();
        }
    }

    /** The file of {@code make/optimizers.py}. */
    private static final class Golden {
        private final Map<String, float[]> all = new HashMap<>();

        Golden() throws IOException {
            try (ModelFile file = ModelFile.open(GOLDEN)) {
                file.model().tensors().forEach((name, t) -> {
                    float[] elements = new float[(int) t.shape().elementCount()];
                    MemorySegment.copy(t.bytes(), Tensor.F32_LE, 0, elements, 0, elements.length);
                    all.put(name, elements);
                });
            }
        }

        float[] get(String name) {
            return requireNonNull(all.get(name), name);
        }
    }

    /** Within 1e-6 of the tensor's largest element (at least 1): elements are what is left of sums of that size. */
    private static void assertClose(float[] expected, float[] actual, String what) {
        float largest = 1;
        for (float e : expected) {
            largest = Math.max(largest, Math.abs(e));
        }
        assertArrayEquals(expected, actual, 1e-6f * largest, what);
    }

    @TestFactory
    Stream<DynamicTest> twenty_steps_give_what_torch_gives() throws IOException {
        Golden golden = new Golden();
        return configurations().entrySet().stream()
                .flatMap(c -> Stream.of(CpuDevice.of(2), new ReferenceDevice())
                        .map(device -> dynamicTest(c.getKey() + " on " + device.name(), () -> {
                            twentySteps(device, c.getKey(), c.getValue(), golden);
                            device.close();
                        })));
    }

    private static void twentySteps(Device device, String name, Configuration c, Golden golden) {
        float[] start = golden.get(name + ".start");
        int n = start.length;
        try (Run run = new Run(device, c.optimizer(), List.of(), Double.POSITIVE_INFINITY, start)) {
            for (int s = 0; s < 20; s++) {
                run.step(c.lr(), Arrays.copyOfRange(golden.get(name + ".gradients"), s * n, (s + 1) * n));
                assertClose(
                        Arrays.copyOfRange(golden.get(name + ".parameters"), s * n, (s + 1) * n),
                        run.get("p0"),
                        "step " + (s + 1));
            }
            run.memory("p0").forEach((what, value) -> assertClose(golden.get(name + "." + what), run.get(value), what));
            assertEquals(20, run.get(run.update.step())[0]);
        }
    }

    @Test
    void gradients_are_clipped_as_torch_clips_them() throws IOException {
        Golden golden = new Golden();
        float[][] gradients = {golden.get("clip.0.before"), golden.get("clip.1.before")};
        float[][] zeros = {new float[gradients[0].length], new float[gradients[1].length]};
        try (Device device = CpuDevice.of(1);
                Run run = new Run(device, Optimizer.Sgd.of(0), List.of(), 1.0, zeros)) {
            run.step(-1, gradients);
            assertEquals(golden.get("clip.norm")[0], run.get(run.update.norm())[0], 1e-6);
            assertClose(golden.get("clip.0.after"), run.get("p0"), "first");
            assertClose(golden.get("clip.1.after"), run.get("p1"), "second");
        }
    }

    @Test
    void the_loss_scale_is_taken_out_before_the_norm_is_looked_at() {
        try (Device device = CpuDevice.of(1);
                Run run = new Run(device, Optimizer.Sgd.of(0), List.of(), 100, new float[] {1, 2})) {
            run.set("unscale", 0x1p-10f);
            run.step(0.5, new float[] {3 * 1024, 4 * 1024});
            assertEquals(5, run.get(run.update.norm())[0]);
            assertArrayEquals(new float[] {-0.5f, 0}, run.get("p0"));
        }
    }

    @Test
    void a_gradient_that_is_not_finite_changes_nothing() {
        for (float bad : new float[] {Float.NaN, Float.NEGATIVE_INFINITY}) {
            try (Device device = CpuDevice.of(2);
                    Run run =
                            new Run(device, Optimizer.Adam.ADAMW, List.of(), 1, new float[] {1, 2}, new float[] {3})) {
                run.step(0.1, new float[] {1, 1}, new float[] {1});
                List<float[]> before = everything(run);
                run.step(0.1, new float[] {1, 1}, new float[] {bad});
                List<float[]> after = everything(run);
                for (int i = 0; i < before.size(); i++) {
                    assertArrayEquals(before.get(i), after.get(i));
                }
                assertEquals(1, run.get(run.update.nonFinite())[0]);
                run.step(0.1, new float[] {1, 1}, new float[] {1});
                assertEquals(0, run.get(run.update.nonFinite())[0]);
                assertEquals(2, run.get(run.update.step())[0]);
            }
        }
    }

    private static List<float[]> everything(Run run) {
        List<float[]> all = new ArrayList<>(List.of(run.get("p0"), run.get("p1"), run.get(run.update.step())));
        run.update.memory().values().forEach(m -> m.values().forEach(v -> all.add(run.get(v))));
        return all;
    }

    @Test
    void exempt_parameters_do_not_decay() {
        List<Pattern> noDecay = List.of(Pattern.compile("1$"));
        try (Device device = CpuDevice.of(1);
                Run run = new Run(
                        device,
                        Optimizer.Adam.ADAMW.withWeightDecay(0.5),
                        noDecay,
                        Double.POSITIVE_INFINITY,
                        new float[] {1},
                        new float[] {1})) {
            run.step(0.5, new float[] {0}, new float[] {0});
            assertArrayEquals(new float[] {0.75f}, run.get("p0"));
            assertArrayEquals(new float[] {1}, run.get("p1"));
        }
    }

    @Tag("kernels")
    @TestFactory
    Stream<DynamicTest> averages_of_weights_are_those_of_torch() throws IOException {
        Golden golden = new Golden();
        Map<String, WeightAveraging> kinds = Map.of(
                "ema", new WeightAveraging(Kind.EMA, 0.9, 0, 1),
                "ema_later", new WeightAveraging(Kind.EMA, 0.75, 5, 3),
                "swa", new WeightAveraging(Kind.SWA, 0, 10, 2));
        return kinds.entrySet().stream()
                .flatMap(k -> Stream.of(CpuDevice.of(2), new ReferenceDevice(), TestGpus.hostDevice(90))
                        .map(device -> dynamicTest(k.getKey() + " on " + device.name(), () -> {
                            averages(device, k.getKey(), k.getValue(), golden);
                            device.close();
                        })));
    }

    private static void averages(Device device, String name, WeightAveraging averaging, Golden golden) {
        float[] start = golden.get("averages.start");
        int n = start.length;
        Optimizer optimizer = Optimizer.Adam.ADAMW;
        try (Run run = new Run(device, optimizer, List.of(), Double.POSITIVE_INFINITY, List.of(averaging), start)) {
            for (int s = 0; s < 20; s++) {
                float[] gradient = Arrays.copyOfRange(golden.get("averages.gradients"), s * n, (s + 1) * n);
                float[] bad = gradient.clone();
                bad[0] = Float.NaN;
                run.step(1e-1, bad); // does not count
                run.step(1e-1, gradient);
                if (averaging.averaged(s + 1) > 0) {
                    assertClose(
                            Arrays.copyOfRange(golden.get("averages." + name), s * n, (s + 1) * n),
                            run.get(averaging.kind().state("p0")),
                            "step " + (s + 1));
                }
            }
        }
    }

    @Test
    void names_of_states_are_torchs() {
        try (Device device = CpuDevice.of(1);
                Run adam = new Run(device, Optimizer.Adam.ADAM, List.of(), 1, new float[] {1});
                Run sgd = new Run(device, Optimizer.Sgd.of(0.5), List.of(), 1, new float[] {1})) {
            assertEquals(
                    List.of("exp_avg", "exp_avg_sq"),
                    List.copyOf(adam.memory("p0").keySet()));
            assertEquals(
                    List.of("momentum_buffer"), List.copyOf(sgd.memory("p0").keySet()));
            assertTrue(adam.update.program().text().contains("AdamStep"));
        }
    }
}
