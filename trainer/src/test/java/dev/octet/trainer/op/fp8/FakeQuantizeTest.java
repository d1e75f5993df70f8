package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TransformerEngineMxScale;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Cases are too large for central differences: the derivative of the rounding is taken to be 1, which it is not. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FakeQuantizeTest extends TwinTest {
    private static final QuantScaleRule CURRENT = new TransformerEngineScale(0, false, false);
    private static final QuantScaleRule MX = new TransformerEngineMxScale();

    private static CodedMatrix form(
            Float8Format format, Granularity granularity, QuantScaleRule rule, int rows, int cols, boolean transposed) {
        var blocks = CodedMatrix.blocks(granularity, rows, cols);
        return new CodedMatrix(format, transposed ? blocks.transposed() : blocks, rule);
    }

    private static Case fake(
            String name, OperandType x, @Nullable CodedMatrix forward, @Nullable CodedMatrix backward) {
        return Case.normal(name, new FakeQuantize(x, forward, backward), x);
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        CodedMatrix whole = form(Float8Format.E4M3FN, new Granularity.PerTensor(), CURRENT, 24, 40, false);
        CodedMatrix gradient = form(Float8Format.E5M2, new Granularity.PerTensor(), CURRENT, 24, 40, false);
        CodedMatrix runs = form(Float8Format.E4M3FN, new Granularity.Mx(32), MX, 24, 40, false);
        CodedMatrix columns = form(Float8Format.E5M2, new Granularity.Mx(32), MX, 40, 24, true);
        OperandType f32 = f32(24, 40);
        OperandType bf16 = new OperandType(DType.BF16, Shape.of(2, 12, 40));
        cases.add(fake("output as E4M3", f32, whole, null));
        cases.add(fake("output as MXFP8, the last run is shorter", f32, runs, null));
        cases.add(fake("gradient as E5M2", f32, null, gradient));
        cases.add(fake("gradient of a weight that lies transposed as MXFP8", f32, null, columns));
        cases.add(fake("both, of BF16", bf16, whole, runs));
        return cases;
    }

    /** Codes are equal to the bit, and what they stand for is rounded once. */
    @Override
    protected double tolerance(Case c) {
        return 0;
    }

    @Test
    void scales_of_earlier_steps_are_refused() {
        CodedMatrix delayed =
                new CodedMatrix(Float8Format.E4M3FN, CodedMatrix.blocks(new Granularity.PerTensor(), 2, 2), null);
        assertThrows(IllegalArgumentException.class, () -> new FakeQuantize(f32(2, 2), delayed, null));
    }

    @Test
    void values_become_those_of_their_codes() {
        // amax 7: 448 / 7 = 64, so E4M3's step at x is that of 64 x, divided by 64
        OperandType x = f32(1, 5);
        CodedMatrix form = form(Float8Format.E4M3FN, new Granularity.PerTensor(), CURRENT, 1, 5, false);
        FakeQuantize op = new FakeQuantize(x, form, form);
        double[] dy = {7, -1.03, 0, 0.26, 1e-6};
        List<double[]> dx = gradients(op, List.of(x), List.of(new double[] {1, 2, 3, 4, 5}), dy);
        assertArrayEquals(new double[] {7, -1, 0, 0.25, 0}, dx.getFirst(), 0);
    }
}
