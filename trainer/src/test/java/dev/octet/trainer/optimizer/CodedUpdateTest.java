package dev.octet.trainer.optimizer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateForms.Arithmetic;
import dev.octet.trainer.state.StateTensors;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Optimizers whose tensors are kept in few bits, on the CPU and on the reference device. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CodedUpdateTest {
    private static final int COUNT = 2 * 4096;

    private static StateForms forms(StateForm p, StateForm m, StateForm v, Arithmetic arithmetic) {
        return new StateForms(p, StateForm.F32, Map.of("exp_avg", m, "exp_avg_sq", v), null, arithmetic);
    }

    private static StateForm power(DType type) {
        return new StateForm.PowerOfTwo(type, MsampScale.MENDED, StateForm.OfZeros.ONE);
    }

    /** Every form at least once. */
    static Map<String, StateForms> engines() {
        StateForm f32 = StateForm.F32;
        Map<String, StateForms> all = new LinkedHashMap<>();
        all.put(
                "MS-AMP",
                forms(
                        StateForm.PowerOfTwo.of(DType.F16),
                        power(DType.F8_E4M3FN),
                        power(DType.F16),
                        Arithmetic.MSAMP));
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
        private final OperandType tensor = new OperandType(DType.F32, Shape.of(COUNT));

        Run(Device device, Optimizer optimizer, StateForms states, float[] w) {
            this.states = states;
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
                    Tensor.ofFloats(Arena.ofAuto(), "lr", Shape.SCALAR, (float) lr).bytes());
            memory.write(
                    value("d:w"),
                    Tensor.ofFloats(Arena.ofAuto(), "d:w", tensor.shape(), g).bytes());
            executable.run(Phase.UPDATE);
        }

        /** All that lasts but the gradient, as bytes. */
        Map<String, byte[]> bytes() {
            Map<String, byte[]> all = new TreeMap<>();
            for (Value v : update.program().values()) {
                if (v.role().isShared() && !v.name().startsWith("d:") && !v.name().startsWith("square_sum")) {
                    all.put(v.name(), read(v).bytes().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE));
                }
            }
            return all;
        }

        private Tensor read(Value v) {
            MemorySegment bytes = Arena.ofAuto().allocate(v.type().byteSize(), 64);
            memory.read(v, bytes);
            return new Tensor(new TensorSpec(v.name(), v.type().dtype(), v.type().shape()), bytes);
        }

        /** A kept tensor in F32. */
        float[] numbers(String name, StateForm form) {
            Map<String, Tensor> parts = new TreeMap<>();
            for (StateForm.Part part : form.parts(tensor)) {
                parts.put(name + part.suffix(), read(value(name + part.suffix())));
            }
            return StateTensors.decode(form, name, tensor.shape(), parts.get(name), parts, Arena.ofAuto())
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
        return engines().entrySet().stream().map(e -> dynamicTest(e.getKey(), () -> {
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
                assertTrue(off < (e.getKey().contains("4 bits") ? 0.5 : 0.2) * moved, "off " + off + " of " + moved);
                double twins = difference(exact.w(), coded.w());
                assertTrue(twins < 0.05 * moved, "twins differ by " + twins + " of " + moved);
            }
        }));
    }

    @TestFactory
    Stream<DynamicTest> A_step_that_overflows_leaves_every_code_and_scale_as_it_is() {
        return engines().entrySet().stream().map(e -> dynamicTest(e.getKey(), () -> {
            try (CpuDevice cpu = CpuDevice.of(2);
                    Run run = new Run(cpu, Optimizer.Adam.ADAMW, e.getValue(), normal(1, 0.05))) {
                run.step(1e-3, normal(2, 1e-3));
                Map<String, byte[]> before = run.bytes();
                float[] bad = normal(3, 1e-3);
                bad[77] = Float.POSITIVE_INFINITY;
                run.step(1e-3, bad);
                Map<String, byte[]> after = run.bytes();
                for (String name : before.keySet()) {
                    if (!List.of("gradient_norm", "gradient_factor", "non_finite").contains(name)) {
                        assertArrayEquals(before.get(name), after.get(name), name);
                    }
                }
            }
        }));
    }
}
