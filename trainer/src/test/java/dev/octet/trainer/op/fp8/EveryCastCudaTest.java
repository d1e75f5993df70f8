package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.HostGpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.GivenFrame;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every BF16 there is, with NaN of all payloads, both infinities and numbers below the smallest normal one, cast by the kernels of delayed
 * scaling: the codes' bits, the scale's and the recorded amax's are the reference's.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class EveryCastCudaTest {
    private static final int ROWS = 256;
    private static final int ALL = 1 << 16;
    private static final int HISTORY = 4;

    /** Multipliers that change nothing, round, saturate nearly all, and bring nearly all below the smallest code. */
    static Stream<Arguments> casts() {
        return Stream.of(Float8Format.E4M3FN, Float8Format.E5M2)
                .flatMap(format -> Stream.of(1f, 3.7f, 0x1p100f, 0x1.8p-60f).map(s -> Arguments.of(format, s)));
    }

    @ParameterizedTest
    @MethodSource("casts")
    void the_kernels_cast_every_bf16_as_the_reference_does(Float8Format format, float quantScale) {
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        check(format, quantScale, () -> new HostGpu(HostGpu.Order.FORWARD));
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("casts")
    void the_gpu_casts_every_bf16_as_the_reference_does(Float8Format format, float quantScale) {
        check(format, quantScale, TestGpus::shared);
    }

    private static void check(Float8Format format, float quantScale, Supplier<Gpu> gpus) {
        byte[] every = new byte[2 * ALL];
        for (int bits = 0; bits < ALL; bits++) {
            every[2 * bits] = (byte) bits;
            every[2 * bits + 1] = (byte) (bits >> 8);
        }
        check(format, quantScale, every, gpus);
        // infinities hide what other numbers give as amax
        for (int bits = 0; bits < ALL; bits++) {
            if (Float.isInfinite(BFloat16.toFloat((short) bits))) {
                every[2 * bits] = 0;
                every[2 * bits + 1] = 0;
            }
        }
        check(format, quantScale, every, gpus);
    }

    private static void check(Float8Format format, float quantScale, byte[] bf16, Supplier<Gpu> gpus) {
        OperandType type = new OperandType(DType.BF16, Shape.of(ROWS, ALL / ROWS));
        OperandType one = new OperandType(DType.F32, Shape.of(1));
        OperandType slots = new OperandType(DType.F32, Shape.of(HISTORY));
        QuantizeFp8Delayed op = new QuantizeFp8Delayed(type, format, HISTORY);
        double[] x = new double[ALL];
        for (int i = 0; i < ALL; i++) {
            x[i] = BFloat16.toFloat((short) ((bf16[2 * i] & 0xFF) | bf16[2 * i + 1] << 8));
        }
        double[] history = new double[HISTORY];
        List<double[]> expected = new ArrayList<>();
        op.outputs().forEach(t -> expected.add(new double[(int) t.count()]));
        new QuantizeFp8DelayedReference()
                .forward(op, GivenFrame.forward(List.of(x, new double[] {quantScale}, history), expected));
        try (CudaOperands operands = new CudaOperands(gpus.get())) {
            CudaTensor recorded = operands.tensor(slots, history);
            CudaTensor multiplier = operands.tensor(one, new double[] {quantScale});
            List<CudaTensor> inputs = List.of(operands.tensor(type, bf16), multiplier, recorded);
            List<CudaTensor> outputs = List.of(
                    operands.empty(op.outputs().get(0)),
                    operands.empty(op.outputs().get(1)),
                    recorded);
            operands.run(cuda -> new QuantizeFp8DelayedCuda().forward(op, GivenFrame.forward(inputs, outputs), cuda));
            byte[] codes = operands.bytes(outputs.get(0));
            for (int i = 0; i < ALL; i++) {
                double value = format.decode(Byte.toUnsignedInt(codes[i]));
                if (Double.compare(expected.get(0)[i], value) != 0) { // -0 and 0 are different codes
                    assertEquals(expected.get(0)[i], value, "BF16 " + Integer.toHexString(i) + " is " + x[i]);
                }
            }
            assertArrayEquals(expected.get(1), operands.numbers(outputs.get(1)), 0.0);
            assertArrayEquals(expected.get(2), operands.numbers(recorded), 0.0);
        }
    }
}
