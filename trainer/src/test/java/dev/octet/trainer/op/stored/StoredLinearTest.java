package dev.octet.trainer.op.stored;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.GivenFrame;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class StoredLinearTest extends TwinTest {
    @Override
    protected double tolerance(Case c) {
        return 4e-6; // sums of up to 4096 terms
    }

    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        StoredForms.of(22, 64).forEach((name, w) -> all.add(of(name, w, f32(3, 64), true, true)));
        StoredForms.of(13, 7).forEach((name, w) -> all.add(of("odd " + name, w, f32(5, 13), false, false)));
        StoredMatrix mx = form(40, 64, "MXFP8");
        all.add(of("MXFP8, [in, out], with bias", mx, f32(2, 2, 40), true, false));
        all.add(of("in BF16", mx, f32(6, 64).as(DType.BF16), true, true));
        all.add(of("in BF16, [in, out]", mx, f32(6, 40).as(DType.BF16), false, false));
        all.add(of("BF16 in place", form(9, 16, "floats BF16"), f32(4, 16).as(DType.BF16), true, true));
        all.add(of("one vector", form(5, 6, "NVFP4"), f32(6), true, true));
        all.add(of("no vectors", mx, f32(0, 64), true, true));
        // several bands of 64 rows on processors
        StoredMatrix wide = form(150, 4096, "E4M3 per channel");
        all.add(of("several bands", wide, f32(2, 4096), true, true));
        all.add(of("several bands, [in, out]", wide, f32(2, 150), false, false));
        all.add(of("several bands in BF16", wide, f32(2, 150).as(DType.BF16), true, false));
        return all;
    }

    private static StoredMatrix form(int rows, int cols, String name) {
        return requireNonNull(StoredForms.of(rows, cols).get(name));
    }

    private static Case of(String name, StoredMatrix w, OperandType x, boolean hasBias, boolean transB) {
        StoredLinear op = StoredLinear.of(x, w, hasBias, transB);
        OperandType bias = new OperandType(x.dtype(), Shape.of(op.out()));
        List<@Nullable OperandType> types = new ArrayList<>();
        types.add(x);
        types.add(hasBias ? bias : null);
        types.addAll(w.operands());
        List<double @Nullable []> inputs = new ArrayList<>();
        inputs.addAll(
                hasBias
                        ? Case.normal(name, op, x, bias).inputs()
                        : Case.normal(name, op, x).inputs());
        if (!hasBias) {
            inputs.add(null);
        }
        inputs.addAll(StoredForms.random(w, name.hashCode()));
        return new Case(name, op, types, inputs);
    }

    @Tag("kernels")
    @Test
    void small_bands_give_what_one_gives_on_a_gpu() {
        for (boolean transB : new boolean[] {false, true}) {
            StoredMatrix w = form(200, 32, "E5M2 per block");
            Case c = of("bands", w, f32(3, transB ? 32 : 200).as(DType.BF16), true, transB);
            for (boolean add : new boolean[] {false, true}) {
                List<double[]> one = gpu(c, 1L << 30, add);
                List<double[]> many = gpu(c, 1, add);
                for (int i = 0; i < one.size(); i++) {
                    assertArrayEquals(one.get(i), many.get(i), 0.02 * largest(one.get(i))); // roundings to BF16
                }
            }
        }
    }

    private static double largest(double[] x) {
        double largest = 0;
        for (double v : x) {
            largest = Math.max(largest, Math.abs(v));
        }
        return largest;
    }

    /** y and dx. */
    private static List<double[]> gpu(Case c, long bandBytes, boolean add) {
        StoredLinear op = (StoredLinear) c.op();
        StoredLinearCuda kernel = new StoredLinearCuda(bandBytes);
        try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
            List<@Nullable CudaTensor> x = new ArrayList<>();
            for (int i = 0; i < c.inputs().size(); i++) {
                double[] values = c.inputs().get(i);
                x.add(values == null ? null : operands.tensor(c.types().get(i), values));
            }
            CudaTensor y = operands.empty(op.y());
            CudaTensor dy = operands.tensor(op.y(), gaussian(op.y()));
            CudaTensor dx = operands.tensor(op.x(), gaussian(op.x()));
            GivenFrame<CudaTensor> frame = new GivenFrame<>(x, List.of(y), dy, List.of(dx), add);
            operands.run(cuda -> kernel.forward(op, frame, cuda));
            operands.run(cuda -> kernel.backward(op, frame, cuda));
            return List.of(operands.numbers(y), operands.numbers(dx));
        }
    }

    private static double[] gaussian(OperandType type) {
        SplittableRandom random = new SplittableRandom(5);
        return random.doubles(type.count())
                .map(z -> Float.intBitsToFloat(Float.floatToIntBits((float) z) & 0xFFFF0000))
                .toArray();
    }
}
