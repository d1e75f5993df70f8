package dev.octet.trainer.optimizer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
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
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/** Twenty steps of each optimizer beside its library: matrices, a vector, a number, matrices in a batch. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OptimizerGoldenTest {
    private static final Path GOLDEN =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "other_optimizers.safetensors");

    /** The shapes of {@code make/other_optimizers.py}. */
    private static final List<Shape> SHAPES =
            List.of(Shape.of(4, 6), Shape.of(6, 4), Shape.of(5), Shape.SCALAR, Shape.of(2, 3, 4));

    private static Map<String, String> configurations() {
        String relative = "type: adafactor, scale_parameter: true, relative_step: true";
        Map<String, String> all = new LinkedHashMap<>();
        all.put("adafactor", "{type: adafactor, lr: 1e-2}");
        all.put(
                "adafactor_decay",
                "{type: adafactor, lr: 1e-2, weight_decay: 0.2, clip_threshold: 0.4, decay_rate: -0.6, eps: [1e-8,"
                        + " 1e-3]}");
        all.put("adafactor_relative", "{" + relative + ", weight_decay: 0.1}");
        all.put("adafactor_warmup", "{" + relative + ", warmup_init: true, eps: [1e-30, 0.7]}");
        all.put(
                "adafactor_moment",
                "{type: adafactor, lr: 3e-2, beta1: 0.8, weight_decay: 0.05, scale_parameter: true}");
        all.put("torch_adafactor", "{type: adafactor, formula: torch}");
        all.put(
                "torch_adafactor_decay",
                "{type: adafactor, formula: torch, lr: 0.3, weight_decay: 0.1, eps: [1e-3, 1e-2], clip_threshold: 2,"
                        + " decay_rate: -0.5}");
        all.put("lion", "{type: lion, lr: 1e-3}");
        all.put("lion_decay", "{type: lion, lr: 3e-3, betas: [0.95, 0.98], weight_decay: 0.5}");
        all.put("lamb", "{type: lamb, lr: 1e-2}");
        all.put("lamb_nodecay", "{type: lamb, lr: 1e-2, weight_decay: 0}");
        all.put("lamb_always", "{type: lamb, lr: 1e-2, weight_decay: 0, always_adapt: true, bias_correction: false}");
        all.put("lamb_deepspeed", "{type: lamb, formula: deepspeed, lr: 1e-2}");
        all.put(
                "lamb_deepspeed_decay",
                "{type: lamb, formula: deepspeed, lr: 1e-2, weight_decay: 0.3, max_coeff: 0.5, min_coeff: 0.2,"
                        + " betas: [0.8, 0.95]}");
        all.put("muon_f32", "{type: muon, lr: 2e-2, ns_dtype: fp32}");
        all.put(
                "muon_f32_plain",
                "{type: muon, lr: 2e-2, ns_dtype: fp32, weight_decay: 0, nesterov: false, momentum: 0.8,"
                        + " adjust_lr: match_rms_adamw}");
        all.put(
                "muon_f32_cubic",
                "{type: muon, lr: 2e-2, ns_dtype: fp32, ns_coefficients: [1.5, -0.5, 0], ns_steps: 7}");
        all.put("muon_bf16", "{type: muon, lr: 2e-2}");
        all.put("adagrad", "{type: adagrad}");
        all.put("adagrad_decay", "{type: adagrad, lr: 0.3, lr_decay: 0.2, weight_decay: 0.1, eps: 1e-3}");
        all.put("adamw_cycle", "{type: adamw, lr: 1e-3, weight_decay: 0.1}");
        return all;
    }

    /**
     * Largest difference relative to a tensor's largest element, at least 1. Products in F32 amplify what rounding adds to the smallest singular values by 3.4 in each of
     * five iterations; BF16 rounds by 2^-9 at every product, in the order of the device's sums.
     */
    private static double tolerance(String name) {
        return name.equals("muon_bf16") ? 2e-2 : name.startsWith("muon") ? 5e-6 : 1e-6;
    }

    private static OptimizerConfig written(String optimizer) {
        String yaml = "data: {train: a.npz}\nloss: {type: mse}\nsteps: 1\noptimizer: " + optimizer + "\n";
        return TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of("")).optimizer();
    }

    /** The schedule of a configuration: the second OneCycle of {@code make/schedules.py}, or none. */
    private static Schedule schedule(String name, double lr) {
        if (!name.endsWith("_cycle")) {
            return Schedule.of(ScheduleType.CONSTANT, lr, 0, 20);
        }
        Map<String, String> options = new TreeMap<>(Map.of(
                "cycle_min_lr",
                "1e-4",
                "cycle_max_lr",
                "1e-3",
                "cycle_first_step_size",
                "5",
                "cycle_second_step_size",
                "9"));
        options.putAll(Map.of(
                "decay_step_size", "3", "decay_lr_rate", "0.5", "decay_mom_rate", "0.01", "cycle_min_mom", "0.85"));
        options.put("cycle_max_mom", "0.95");
        return new Schedule(ScheduleType.ONE_CYCLE, options, lr, 0, 20);
    }

    private static Map<String, float[]> golden() throws IOException {
        Map<String, float[]> all = new TreeMap<>();
        try (ModelFile file = ModelFile.open(GOLDEN)) {
            file.model().tensors().forEach((name, t) -> {
                float[] elements = new float[(int) t.shape().elementCount()];
                MemorySegment.copy(t.bytes(), Tensor.F32_LE, 0, elements, 0, elements.length);
                all.put(name, elements);
            });
        }
        return all;
    }

    private Stream<DynamicTest> on(String where, Supplier<Device> devices) throws IOException {
        Map<String, float[]> golden = golden();
        return configurations().entrySet().stream()
                .map(c -> dynamicTest(c.getKey() + " on " + where, () -> {
                    try (Device device = devices.get()) {
                        twentySteps(device, c.getKey(), written(c.getValue()), golden);
                    }
                }));
    }

    @Tag("twins")
    @TestFactory
    Stream<DynamicTest> twenty_steps_on_processors_give_what_the_library_gives() throws IOException {
        return on("the processor", () -> CpuDevice.of(2));
    }

    @TestFactory
    Stream<DynamicTest> twenty_steps_of_the_reference_give_what_the_library_gives() throws IOException {
        return on("the reference", ReferenceDevice::new);
    }

    @Tag("kernels")
    @TestFactory
    Stream<DynamicTest> twenty_steps_of_the_kernels_give_what_the_library_gives() throws IOException {
        return on("kernels", () -> TestGpus.hostDevice(90));
    }

    @Tag("kernels")
    @TestFactory
    Stream<DynamicTest> a_step_that_does_not_count_leaves_all_as_it_is() {
        Map<String, Supplier<Device>> devices = new TreeMap<>(Map.of(
                "the processor", () -> CpuDevice.of(2),
                "kernels", () -> TestGpus.hostDevice(90),
                "the reference", ReferenceDevice::new));
        return configurations().entrySet().stream()
                .filter(c -> !c.getKey().contains("_") || c.getKey().equals("muon_f32"))
                .flatMap(c -> devices.entrySet().stream()
                        .map(d -> dynamicTest(c.getKey() + " on " + d.getKey(), () -> {
                            try (Device device = d.getValue().get()) {
                                skippedStep(device, written(c.getValue()));
                            }
                        })));
    }

    private static void skippedStep(Device device, OptimizerConfig c) {
        ProgramBuilder training = new ProgramBuilder();
        for (int i = 0; i < 3; i++) {
            training.gradient("p" + i, new OperandType(DType.F32, SHAPES.get(i)));
        }
        UpdateProgram update = UpdateProgram.of(training.build(), c.optimizer(), List.of(), 1, List.of());
        try (Memory memory = device.allocate(List.of());
                Executable executable = device.load(update.program(), memory)) {
            write(memory, update.learningRate(), 0.1f);
            write(memory, update.unscale(), 0x1p-10f);
            Map<Value, float[]> before = new LinkedHashMap<>();
            for (float last : new float[] {1024, Float.NaN}) {
                before.clear();
                for (int i = 0; i < 3; i++) {
                    Value p = value(update, "p" + i);
                    before.put(p, read(memory, p));
                    float[] g = new float[(int) SHAPES.get(i).elementCount()];
                    for (int k = 0; k < g.length; k++) {
                        g[k] = 100 * (k + 1);
                    }
                    g[g.length - 1] = last;
                    write(memory, value(update, "d:p" + i), g);
                }
                update.memory().values().forEach(m -> m.values().forEach(v -> before.put(v, read(memory, v))));
                before.put(update.step(), read(memory, update.step()));
                executable.run(Phase.UPDATE);
            }
            before.forEach((v, elements) -> assertArrayEquals(elements, read(memory, v), v.name()));
            assertEquals(1, read(memory, update.step())[0]);
            assertEquals(1, read(memory, update.nonFinite())[0]);
        }
    }

    private static void twentySteps(Device device, String name, OptimizerConfig c, Map<String, float[]> golden) {
        List<Integer> taken = Stream.iterate(0, i -> i < SHAPES.size(), i -> i + 1)
                .filter(i -> golden.containsKey(name + "." + i + ".start"))
                .toList();
        ProgramBuilder training = new ProgramBuilder();
        taken.forEach(i -> training.gradient("p" + i, new OperandType(DType.F32, SHAPES.get(i))));
        Schedule schedule = schedule(name, c.lr());
        UpdateProgram update = UpdateProgram.of(
                training.build(), schedule.of(c.optimizer()), List.of(), Double.POSITIVE_INFINITY, List.of());
        try (Memory memory = device.allocate(List.of());
                Executable executable = device.load(update.program(), memory)) {
            taken.forEach(i -> write(memory, value(update, "p" + i), get(golden, name + "." + i + ".start")));
            for (int s = 0; s < 20; s++) {
                StepRate rate = schedule.at(s);
                write(memory, update.learningRate(), (float) rate.lr());
                rate.beta1().ifPresent(b -> write(memory, update.beta1().orElseThrow(), (float) b));
                for (int i : taken) {
                    float[] gradients = get(golden, name + "." + i + ".gradients");
                    int n = gradients.length / 20;
                    write(memory, value(update, "d:p" + i), Arrays.copyOfRange(gradients, s * n, (s + 1) * n));
                }
                executable.run(Phase.UPDATE);
                for (int i : taken) {
                    float[] after = get(golden, name + "." + i + ".parameters");
                    int n = after.length / 20;
                    assertClose(
                            Arrays.copyOfRange(after, s * n, (s + 1) * n),
                            read(memory, value(update, "p" + i)),
                            tolerance(name),
                            "tensor " + i + ", step " + (s + 1));
                }
            }
            for (int i : taken) {
                Map<String, Value> states = requireNonNull(update.memory().get("p" + i));
                states.forEach((what, value) -> {
                    float[] expected = get(golden, name + "." + i + "." + what);
                    assertEquals(expected.length, value.type().count(), what);
                    assertClose(expected, read(memory, value), 1e-6, "tensor " + i + ", " + what);
                });
                long ofLibrary = golden.keySet().stream()
                        .filter(k -> k.startsWith(name + "." + i + "."))
                        .count();
                assertEquals(ofLibrary, states.size() + 3, "states of tensor " + i);
            }
        }
    }

    private static float[] get(Map<String, float[]> golden, String name) {
        return requireNonNull(golden.get(name), name);
    }

    private static Value value(UpdateProgram update, String name) {
        return update.program().values().stream()
                .filter(v -> v.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static void write(Memory memory, Value value, float... elements) {
        MemorySegment bytes = MemorySegment.ofArray(new byte[elements.length * 4]);
        MemorySegment.copy(elements, 0, bytes, Tensor.F32_LE, 0, elements.length);
        memory.write(value, bytes);
    }

    private static float[] read(Memory memory, Value value) {
        MemorySegment bytes = MemorySegment.ofArray(new byte[(int) value.type().byteSize()]);
        memory.read(value, bytes);
        float[] elements = new float[(int) value.type().count()];
        MemorySegment.copy(bytes, Tensor.F32_LE, 0, elements, 0, elements.length);
        return elements;
    }

    private static void assertClose(float[] expected, float[] actual, double tolerance, String what) {
        float largest = 1;
        for (float e : expected) {
            largest = Math.max(largest, Math.abs(e));
        }
        assertArrayEquals(expected, actual, (float) (tolerance * largest), what);
    }
}
