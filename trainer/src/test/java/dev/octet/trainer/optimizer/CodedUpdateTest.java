package dev.octet.trainer.optimizer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.rule.LambRule;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateForms.Arithmetic;
import dev.octet.trainer.state.StateTensors;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/** Optimizers whose tensors are kept in few bits, on the CPU and on the reference device. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CodedUpdateTest {
    private static final int COUNT = 2 * 4096;
    private static final int GOLDEN_COUNT = 4096;
    private static final Path GOLDENS =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "optimizer_states.csv");

    private static StateForms forms(StateForm p, StateForm m, StateForm v, Arithmetic arithmetic) {
        return new StateForms(p, StateForm.Plain.F32, Map.of("exp_avg", m, "exp_avg_sq", v), null, arithmetic);
    }

    private static StateForm power(DType type) {
        return new StateForm.PowerOfTwo(type, MsampScale.MENDED, StateForm.OfZeros.ONE);
    }

    /** Every form at least once. */
    static Map<String, StateForms> engines() {
        StateForm f32 = StateForm.Plain.F32;
        Map<String, StateForms> all = new LinkedHashMap<>();
        all.put(
                "MS-AMP",
                forms(StateForm.PowerOfTwo.of(DType.F16), power(DType.F8_E4M3FN), power(DType.F16), Arithmetic.MSAMP));
        all.put(
                "Transformer Engine, F16",
                forms(
                        new StateForm.Fused(DType.F16),
                        new StateForm.Fused(DType.F8_E4M3FN),
                        new StateForm.Fused(DType.F16),
                        Arithmetic.TRANSFORMER_ENGINE));
        all.put(
                "Transformer Engine, remainders",
                forms(
                        new StateForm.Split(),
                        new StateForm.Plain(DType.BF16),
                        new StateForm.Fused(DType.F8_E4M3FN),
                        Arithmetic.TRANSFORMER_ENGINE));
        all.put(
                "torchao, 8 bits",
                forms(
                        f32,
                        new StateForm.Blocked(BlockCodes.INT8),
                        new StateForm.Blocked(BlockCodes.UINT8),
                        Arithmetic.TORCHAO));
        all.put(
                "torchao, 4 bits",
                forms(
                        f32,
                        new StateForm.Blocked(BlockCodes.INT4),
                        new StateForm.Blocked(BlockCodes.UINT4),
                        Arithmetic.TORCHAO));
        all.put(
                "torchao, FP8",
                forms(
                        new StateForm.Stochastic(),
                        new StateForm.Blocked(BlockCodes.FP8),
                        new StateForm.Blocked(BlockCodes.FP8),
                        Arithmetic.TORCHAO));
        all.put(
                "BF16",
                forms(
                        new StateForm.Stochastic(),
                        new StateForm.Stochastic(),
                        new StateForm.Stochastic(),
                        Arithmetic.TORCH));
        return all;
    }

    /** One parameter {@code w} on a device. */
    private static final class Run implements AutoCloseable {
        private final StateForms states;
        private final Memory memory;
        private final Executable executable;
        private final UpdateProgram update;
        private final OperandType tensor;

        Run(Device device, Optimizer optimizer, StateForms states, float[] w) {
            this.states = states;
            this.tensor = new OperandType(DType.F32, Shape.of(w.length));
            ProgramBuilder training = new ProgramBuilder();
            training.keptGradient("w", states.gradient("w", tensor.shape()), tensor);
            update = UpdateProgram.of(
                    training.build(), optimizer, List.of(), Double.POSITIVE_INFINITY, List.of(), states);
            memory = device.allocate(List.of());
            executable = device.load(update.program(), memory);
            StateForm form = states.parameter("w", tensor.shape());
            StateTensors.encode(form, Tensor.ofFloats(Arena.ofAuto(), "w", tensor.shape(), w))
                    .values()
                    .forEach(t -> memory.write(value(t.name()), t.bytes()));
        }

        Value value(String name) {
            return update.program().values().stream()
                    .filter(v -> v.name().equals(name))
                    .findFirst()
                    .orElseThrow();
        }

        void step(double lr, float[] g) {
            memory.write(
                    update.learningRate(),
                    Tensor.ofFloats(Arena.ofAuto(), "lr", Shape.SCALAR, (float) lr)
                            .bytes());
            memory.write(
                    value("d:w"),
                    Tensor.ofFloats(Arena.ofAuto(), "d:w", tensor.shape(), g).bytes());
            executable.run(Phase.UPDATE);
        }

        /** All that lasts but the gradient, as bytes. */
        Map<String, byte[]> bytes() {
            Map<String, byte[]> all = new TreeMap<>();
            for (Value v : update.program().values()) {
                if (v.role().isShared()
                        && !v.name().startsWith("d:")
                        && !v.name().startsWith("square_sum")) {
                    all.put(v.name(), read(v).bytes().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE));
                }
            }
            return all;
        }

        private Tensor read(Value v) {
            MemorySegment bytes = Arena.ofAuto().allocate(v.type().byteSize(), 64);
            memory.read(v, bytes);
            return new Tensor(
                    new TensorSpec(v.name(), v.type().dtype(), v.type().shape()), bytes);
        }

        /** A kept tensor in F32. */
        float[] numbers(String name, StateForm form) {
            Map<String, Tensor> parts = new TreeMap<>();
            for (StateForm.Part part : form.parts(tensor)) {
                parts.put(name + part.suffix(), read(value(name + part.suffix())));
            }
            return StateTensors.decode(
                            form, name, tensor.shape(), requireNonNull(parts.get(name)), parts, Arena.ofAuto())
                    .toFloats();
        }

        float[] w() {
            return numbers("w", states.parameter("w", tensor.shape()));
        }

        @Override
        public void close() {
            executable.close();
            memory.close();
        }
    }

    private static float[] normal(long seed, double size) {
        Random random = new Random(seed);
        float[] all = new float[COUNT];
        for (int i = 0; i < all.length; i++) {
            all[i] = (float) (random.nextGaussian() * size);
        }
        return all;
    }

    private static double difference(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += Math.pow((double) a[i] - b[i], 2);
        }
        return Math.sqrt(sum / a.length);
    }

    @TestFactory
    Stream<DynamicTest> Ten_steps_in_few_bits_move_parameters_nearly_as_ten_in_F32() {
        return engines().entrySet().stream()
                .map(e -> dynamicTest(e.getKey(), () -> {
                    float[] w = normal(1, 0.05);
                    try (CpuDevice cpu = CpuDevice.of(2);
                            ReferenceDevice reference = new ReferenceDevice();
                            Run plain = new Run(cpu, Optimizer.Adam.ADAMW, StateForms.F32, w);
                            Run coded = new Run(cpu, Optimizer.Adam.ADAMW, e.getValue(), w);
                            Run exact = new Run(reference, Optimizer.Adam.ADAMW, e.getValue(), w)) {
                        for (int i = 0; i < 10; i++) {
                            float[] g = normal(100 + i, 1e-3);
                            plain.step(1e-3, g);
                            coded.step(1e-3, g);
                            exact.step(1e-3, g);
                        }
                        double moved = difference(plain.w(), w);
                        assertTrue(moved > 1e-3, "moved " + moved);
                        double off = difference(plain.w(), coded.w());
                        assertTrue(
                                off < (e.getKey().contains("4 bits") ? 0.5 : 0.2) * moved,
                                "off " + off + " of " + moved);
                        double twins = difference(exact.w(), coded.w());
                        assertTrue(twins < 0.05 * moved, "twins differ by " + twins + " of " + moved);
                    }
                }));
    }

    @TestFactory
    Stream<DynamicTest> A_step_that_overflows_leaves_every_code_and_scale_as_it_is() {
        return engines().entrySet().stream()
                .map(e -> dynamicTest(e.getKey(), () -> {
                    try (CpuDevice cpu = CpuDevice.of(2);
                            Run run = new Run(cpu, Optimizer.Adam.ADAMW, e.getValue(), normal(1, 0.05))) {
                        run.step(1e-3, normal(2, 1e-3));
                        Map<String, byte[]> before = run.bytes();
                        float[] bad = normal(3, 1e-3);
                        bad[77] = Float.POSITIVE_INFINITY;
                        run.step(1e-3, bad);
                        Map<String, byte[]> after = run.bytes();
                        for (String name : before.keySet()) {
                            if (!List.of("gradient_norm", "gradient_factor", "non_finite")
                                    .contains(name)) {
                                assertArrayEquals(before.get(name), after.get(name), name);
                            }
                        }
                    }
                }));
    }

    @Tag("kernels")
    @TestFactory
    Stream<DynamicTest> The_kernels_give_the_bytes_of_the_processor() {
        return engines().entrySet().stream()
                .map(e -> dynamicTest(e.getKey(), () -> {
                    try (Device cpu = CpuDevice.of(2);
                            Device gpu = TestGpus.hostDevice();
                            Run expected = new Run(cpu, Optimizer.Adam.ADAMW, e.getValue(), normal(1, 0.05));
                            Run run = new Run(gpu, Optimizer.Adam.ADAMW, e.getValue(), normal(1, 0.05))) {
                        for (int i = 0; i < 4; i++) {
                            float[] g = normal(100 + i, 1e-3);
                            if (i == 2) {
                                g[5] = Float.NaN; // this step does not count
                            }
                            expected.step(1e-3, g);
                            run.step(1e-3, g);
                            Map<String, byte[]> actual = run.bytes();
                            int step = i;
                            expected.bytes().forEach((name, bytes) -> {
                                if (!name.equals("gradient_norm")) {
                                    assertArrayEquals(bytes, actual.get(name), name + " after step " + (step + 1));
                                }
                            });
                        }
                    }
                }));
    }

    /** All but Adam and AdamW, each in two ways. */
    private static Map<String, Golden> others() {
        StateForm random = new StateForm.Stochastic();
        StateForm fp8 = new StateForm.Blocked(BlockCodes.FP8);
        Map<String, Optimizer> optimizers = Map.of(
                "Lion", new Optimizer.Lion(0.9, 0.99, 0.1),
                "LAMB", new Optimizer.Lamb(0.9, 0.999, 1e-6, 0.01, LambRule.APEX),
                "DeepSpeed's LAMB", new Optimizer.Lamb(0.9, 0.999, 1e-8, 0, LambRule.DEEPSPEED),
                "StableAdamW", Optimizer.Adam.STABLE_ADAMW);
        Map<String, Golden> all = new TreeMap<>();
        optimizers.forEach((name, o) -> {
            all.put(name + " in BF16", new Golden(forms(random, random, random, Arithmetic.TORCH), o));
            all.put(name + " in FP8", new Golden(forms(StateForm.Plain.F32, fp8, fp8, Arithmetic.TORCH), o));
        });
        return all;
    }

    @Tag("kernels")
    @TestFactory
    Stream<DynamicTest> Optimizers_that_move_each_element_by_itself_do_so_in_any_form() {
        return others().entrySet().stream()
                .map(e -> dynamicTest(e.getKey(), () -> {
                    float[] w = normal(1, 0.05);
                    Golden o = e.getValue();
                    // LAMB's steps are shares of the parameter's norm
                    double lr = o.optimizer() instanceof Optimizer.Lamb ? 2e-2 : 1e-3;
                    try (CpuDevice cpu = CpuDevice.of(2);
                            Device gpu = TestGpus.hostDevice();
                            Run plain = new Run(cpu, o.optimizer(), StateForms.F32, w);
                            Run coded = new Run(cpu, o.optimizer(), o.states(), w);
                            Run kernels = new Run(gpu, o.optimizer(), o.states(), w)) {
                        for (int i = 0; i < 10; i++) {
                            float[] g = normal(100 + i, 1e-3);
                            for (Run run : List.of(plain, coded, kernels)) {
                                run.step(lr, g);
                            }
                            g[5] = Float.NaN; // a step that does not count
                            Map<String, byte[]> before = coded.bytes();
                            coded.step(lr, g);
                            Map<String, byte[]> after = coded.bytes();
                            for (String name : List.of("w", "exp_avg:w", UpdateProgram.STEP)) {
                                assertArrayEquals(before.get(name), after.get(name), name);
                            }
                        }
                        double moved = difference(plain.w(), w);
                        assertTrue(moved > 1e-4, "moved " + moved);
                        double off = difference(plain.w(), coded.w());
                        assertTrue(off < 0.3 * moved, "off " + off + " of " + moved);
                        double twins = difference(kernels.w(), coded.w());
                        assertTrue(twins < 0.02 * moved, "twins differ by " + twins + " of " + moved);
                    }
                }));
    }

    private record Golden(StateForms states, Optimizer optimizer) {}

    private static Golden adamw(StateForm p, StateForm m, StateForm v, Arithmetic arithmetic) {
        return new Golden(forms(p, m, v, arithmetic), Optimizer.Adam.ADAMW);
    }

    private static Golden adam(StateForm p, StateForm m, StateForm v, Arithmetic arithmetic) {
        return new Golden(forms(p, m, v, arithmetic), Optimizer.Adam.ADAM.withWeightDecay(0.01));
    }

    /** The engines of {@code make/optimizer_states.py}. */
    private static Map<String, Golden> goldens() {
        StateForm f32 = StateForm.Plain.F32;
        StateForm bf16 = new StateForm.Plain(DType.BF16);
        StateForm master = StateForm.PowerOfTwo.of(DType.F16);
        StateForm fp8 = new StateForm.Fused(DType.F8_E4M3FN);
        StateForm f16 = new StateForm.Fused(DType.F16);
        StateForm int8 = new StateForm.Blocked(BlockCodes.INT8);
        StateForm uint8 = new StateForm.Blocked(BlockCodes.UINT8);
        StateForm random = new StateForm.Stochastic();
        StateForm blocks = new StateForm.Blocked(BlockCodes.FP8);
        StateForm m = power(DType.F8_E4M3FN);
        StateForm v = power(DType.F16);
        Map<String, Golden> all = new LinkedHashMap<>();
        all.put("msamp", adamw(master, m, v, Arithmetic.MSAMP));
        all.put("msamp-adam", adam(master, m, v, Arithmetic.MSAMP));
        all.put("msamp-O1", adamw(master, f32, f32, Arithmetic.MSAMP_F32));
        all.put("te-fp16", adamw(f16, fp8, f16, Arithmetic.TRANSFORMER_ENGINE));
        all.put("te-remainders", adamw(new StateForm.Split(), bf16, fp8, Arithmetic.TRANSFORMER_ENGINE));
        all.put("te-adam", adam(f32, fp8, bf16, Arithmetic.TRANSFORMER_ENGINE));
        all.put("torchao-int8", adamw(f32, int8, uint8, Arithmetic.TORCHAO));
        all.put(
                "torchao-int4",
                adamw(
                        f32,
                        new StateForm.Blocked(BlockCodes.INT4),
                        new StateForm.Blocked(BlockCodes.UINT4),
                        Arithmetic.TORCHAO));
        all.put("torchao-fp8", adamw(random, blocks, blocks, Arithmetic.TORCHAO));
        all.put("torchao-adam", adam(f32, int8, uint8, Arithmetic.TORCHAO));
        all.put("bf16", adamw(random, random, random, Arithmetic.TORCH));
        all.put("bf16-nearest", adamw(bf16, bf16, bf16, Arithmetic.TORCH));
        return all;
    }

    /** Within -size and size, spread over twelve binades. */
    private static float[] numbers(long key, double size) {
        float[] all = new float[GOLDEN_COUNT];
        for (int i = 0; i < all.length; i++) {
            double fraction = (CounterRandom.bits(key, i, 24) - (1 << 23)) / (double) (1 << 23);
            all[i] = (float) (fraction * Math.pow(2, -(i % 12)) * size);
        }
        return all;
    }

    private static Map<String, String> expected() throws IOException {
        Map<String, String> all = new HashMap<>();
        for (String line : Files.readAllLines(GOLDENS)) {
            all.put(line.substring(0, line.lastIndexOf(',')), line.substring(line.lastIndexOf(',') + 1));
        }
        return all;
    }

    @Tag("kernels")
    @TestFactory
    Stream<DynamicTest> Twenty_steps_give_the_codes_and_scales_of_the_libraries_formulas() throws IOException {
        Map<String, String> expected = expected();
        return goldens().entrySet().stream()
                .flatMap(e -> Stream.of("cpu", "cuda")
                        .map(kind -> dynamicTest(e.getKey() + " on " + kind, () -> {
                            int compared = 0;
                            try (Device device = kind.equals("cpu") ? CpuDevice.of(2) : TestGpus.hostDevice();
                                    Run run = new Run(
                                            device,
                                            e.getValue().optimizer(),
                                            e.getValue().states(),
                                            numbers(1, 0.05))) {
                                for (int step = 1; step <= 20; step++) {
                                    float[] g = numbers(100 + step, 1e-3);
                                    if (step == 8) {
                                        g[3] = Float.POSITIVE_INFINITY; // nothing may change
                                    }
                                    run.step(1e-3, g);
                                    for (Map.Entry<String, byte[]> kept :
                                            run.bytes().entrySet()) {
                                        String row = e.getKey() + "," + step + "," + kept.getKey();
                                        if (expected.containsKey(row)) {
                                            assertEquals(
                                                    expected.get(row),
                                                    Sha256.of(kept.getValue()).substring(0, 16),
                                                    row);
                                            compared++;
                                        }
                                    }
                                }
                            }
                            assertEquals(
                                    expected.keySet().stream()
                                            .filter(k -> k.startsWith(e.getKey() + ","))
                                            .count(),
                                    compared);
                        })));
    }
}
