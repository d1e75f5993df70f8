package dev.octet.trainer.op.qat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.op.qat.GridQuantize.Form;
import dev.octet.trainer.op.qat.GridQuantize.Offset;
import dev.octet.trainer.op.qat.GridQuantize.Parameter;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Cases are too large for central differences: the derivative of a rounding is not what rules take it to be. Those are held against torch by {@code QatGoldenTest}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GridQuantizeTest extends TwinTest {
    private static final CodeGrid INT4 = CodeGrid.Integers.signed(4);
    private static final CodeGrid UINT8 = CodeGrid.Integers.unsigned(8);
    private static final CodeGrid E4M3 = new CodeGrid.Floats(Float8Format.E4M3FN);
    private static final CodeGrid E2M1 = new CodeGrid.Floats(Float8Format.E2M1);
    private static final Granularity TENSOR = new Granularity.PerTensor();
    private static final Granularity ROWS = new Granularity.PerChannel(-2);
    private static final Granularity COLUMNS = new Granularity.PerChannel(-1);
    private static final Granularity GROUPS = new Granularity.PerGroup(-1, 16);
    private static final Form BETWEEN = new Form(Parameter.MAX, Offset.MIN, false, false);

    private static QuantizeNode node(CodeGrid grid, Granularity granularity, StepRule rule, Form form) {
        return new QuantizeNode(grid, granularity, false, rule, form, QuantizeNode.Count.SHARED, false);
    }

    private static Form with(Offset offset) {
        return new Form(Parameter.STEP, offset, false, false);
    }

    /** Inputs drawn so that some elements are clipped. */
    private static Case of(String name, QuantizeNode node, OperandType x) {
        var blocks = node.blocks(x.shape());
        GridQuantize op = new GridQuantize(
                x, node.grid(), blocks, node.rule(), node.form(), (float) node.factor(x.shape(), blocks));
        SplittableRandom random = new SplittableRandom(name.hashCode());
        OperandType steps = op.stepType();
        int n = (int) blocks.scaleCount();
        List<@Nullable OperandType> types = new ArrayList<>(List.of(x, steps));
        List<double @Nullable []> inputs = new ArrayList<>();
        double[] values = new double[(int) x.count()];
        for (int i = 0; i < values.length; i++) {
            values[i] = short16(random.nextGaussian());
        }
        inputs.add(values);
        double reach =
                node.form().parameter() != Parameter.STEP ? 1 : 1 / node.grid().high();
        inputs.add(positive(n, 1.5 * reach, random));
        boolean zero = node.form().offset() == Offset.ZERO_POINT;
        add(types, inputs, node.form().offset() != Offset.NONE, steps, positive(n, zero ? 100 : -0.3, random));
        add(types, inputs, node.form().hasPre(), steps, positive(n, 1.5 * reach, random));
        OperandType one = new OperandType(DType.F32, Shape.SCALAR);
        add(types, inputs, node.form().hasGlobal(), one, new double[] {short16(1 / 2688.0)});
        return new Case(name, op, types, inputs);
    }

    private static void add(
            List<@Nullable OperandType> types,
            List<double @Nullable []> inputs,
            boolean present,
            OperandType type,
            double[] values) {
        types.add(present ? type : null);
        inputs.add(present ? values : null);
    }

    private static double short16(double x) {
        return Float.intBitsToFloat(Float.floatToIntBits((float) x) & 0xFFFF0000);
    }

    private static double[] positive(int n, double about, SplittableRandom random) {
        double[] all = new double[n];
        for (int i = 0; i < n; i++) {
            all[i] = short16(about * (0.5 + random.nextDouble()));
        }
        return all;
    }

    @Override
    protected List<Case> cases() {
        OperandType f32 = f32(24, 40);
        OperandType bf16 = new OperandType(DType.BF16, Shape.of(2, 12, 40));
        List<Case> cases = new ArrayList<>();
        cases.add(of("LSQ, INT4 per tensor", node(INT4, TENSOR, StepRule.LSQ, Form.STEP), f32));
        cases.add(of("LSQ, INT4 per row", node(INT4, ROWS, StepRule.LSQ, Form.STEP), f32));
        cases.add(of("LSQ, INT4 per column", node(INT4, COLUMNS, StepRule.LSQ, Form.STEP), f32));
        cases.add(of("LSQ, groups of 16, the last is shorter", node(INT4, GROUPS, StepRule.LSQ, Form.STEP), f32));
        cases.add(of("LSQ of BF16", node(INT4, TENSOR, StepRule.LSQ, Form.STEP), bf16));
        cases.add(of("LSQ+, UINT8 with an offset", node(UINT8, TENSOR, StepRule.LSQ, with(Offset.ADDED)), f32));
        cases.add(of("LSQ, many rows", node(INT4, TENSOR, StepRule.LSQ, Form.STEP), f32(900, 100)));
        cases.add(of("LSQ, E4M3 per row", node(E4M3, ROWS, StepRule.LSQ, Form.STEP), f32));
        Granularity tiles = new Granularity.PerBlock(16, 16);
        cases.add(of("LSQ, E4M3 in squares", node(E4M3, tiles, StepRule.LSQ, Form.STEP), f32));
        Form amax = new Form(Parameter.AMAX, Offset.NONE, false, false);
        cases.add(of("PACT", node(UINT8, TENSOR, StepRule.PACT, amax), f32));
        cases.add(of("clipped at a fixed amax", node(E4M3, TENSOR, StepRule.CLIPPED, amax), f32));
        cases.add(of("fixed steps, BF16", node(E4M3, ROWS, StepRule.CLIPPED, Form.STEP), bf16));
        Form mx = new Form(Parameter.AMAX_POWER_OF_TWO, Offset.NONE, false, false);
        cases.add(of("steps that are powers of two", node(E4M3, GROUPS, StepRule.CLIPPED, mx), f32));
        cases.add(of("passed", node(INT4, TENSOR, StepRule.PASSED, Form.STEP), f32));
        cases.add(of("signs", node(new CodeGrid.Signs(), TENSOR, StepRule.PASSED, Form.STEP), f32));
        CodeGrid int8 = CodeGrid.Integers.signed(8);
        cases.add(of("range learning", node(UINT8, ROWS, StepRule.RANGE, with(Offset.ZERO_POINT)), f32));
        cases.add(of("zero points, fixed", node(int8, TENSOR, StepRule.PASSED, with(Offset.ZERO_POINT)), bf16));
        cases.add(of("between the ends of rows, INT8", node(int8, ROWS, StepRule.CLIPPED, BETWEEN), f32));
        cases.add(of("between the ends of rows of BF16", node(UINT8, ROWS, StepRule.CLIPPED, BETWEEN), bf16));
        cases.add(of("between the ends of groups, INT4", node(INT4, GROUPS, StepRule.CLIPPED, BETWEEN), f32));
        Form nvfp4 = new Form(Parameter.AMAX, Offset.NONE, false, true);
        Form twice = new Form(Parameter.AMAX, Offset.NONE, true, true);
        cases.add(of("LSQ for NVFP4, one amax", node(E2M1, GROUPS, StepRule.SCALED, nvfp4), f32));
        cases.add(of("LSQ for NVFP4, two amaxes", node(E2M1, GROUPS, StepRule.SCALED, twice), f32));
        return cases;
    }

    @Override
    protected double tolerance(Case c) {
        return 2e-6;
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Test
    void codes_are_rounded_to_even_and_clipped_and_steps_learn_from_what_is_lost() {
        QuantizeNode lsq =
                new QuantizeNode(INT4, TENSOR, false, StepRule.LSQ, Form.STEP, QuantizeNode.Count.NONE, false);
        OperandType x = f32(1, 4);
        GridQuantize op = new GridQuantize(x, INT4, lsq.blocks(x.shape()), StepRule.LSQ, Form.STEP, 1);
        // v = 0.6, 2.5, 7.5, -20 in steps of 0.5
        double[] values = {0.3, 1.25, 3.75, -10};
        List<double[]> gradients =
                gradients(op, List.of(x, f32(1)), List.of(values, new double[] {0.5}), new double[] {1, 2, 4, 8});
        assertArrayEquals(new double[] {1, 2, 0, 0}, gradients.get(0), 0);
        assertArrayEquals(new double[] {0.4 - 1 + 28 - 64}, gradients.get(1), 1e-5);
    }

    @Test
    void step_and_zero_point_follow_from_the_ends_of_a_block_and_clipped_codes_pass_no_gradient() {
        CodeGrid int8 = CodeGrid.Integers.signed(8);
        OperandType x = f32(1, 4);
        Blocks blocks = node(int8, TENSOR, StepRule.CLIPPED, BETWEEN).blocks(x.shape());
        GridQuantize op = new GridQuantize(x, int8, blocks, StepRule.CLIPPED, BETWEEN, 1);
        // 255 steps of 1 with the code 0 for 0: the greatest would be code 128, as 127.5 is rounded to even
        assertEquals(1, op.stepBetween(-127.5f, 127.5f));
        assertEquals(0, op.zeroPoint(-127.5f, 1));
        double[] values = {-127.5, 0.5, 1.5, 127.5};
        List<double[]> gradients = gradients(
                op,
                List.of(x, f32(1), f32(1)),
                List.of(values, new double[] {127.5}, new double[] {-127.5}),
                new double[] {1, 2, 4, 8});
        assertArrayEquals(new double[] {1, 2, 4, 0}, gradients.getFirst(), 0);
        // values of one sign: the range is widened to hold 0, whose code is at an end
        assertEquals(2, op.stepBetween(100, 510));
        assertEquals(-128, op.zeroPoint(100, 2));
        assertEquals(127, op.zeroPoint(-510, 2));
        // a block of zeros has the least step
        assertEquals(Float.MIN_NORMAL, op.stepBetween(0, 0));
        assertEquals(-128, op.zeroPoint(0, Float.MIN_NORMAL));
    }

    @Test
    void ends_of_blocks_need_each_other_and_integers_and_are_not_learned_from() {
        OperandType x = f32(2, 2);
        Blocks blocks = node(INT4, TENSOR, StepRule.CLIPPED, BETWEEN).blocks(x.shape());
        Form alone = new Form(Parameter.MAX, Offset.NONE, false, false);
        Form least = new Form(Parameter.STEP, Offset.MIN, false, false);
        Form two = new Form(Parameter.MAX, Offset.MIN, false, true);
        for (Form form : List.of(alone, least, two)) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> new GridQuantize(x, INT4, blocks, StepRule.CLIPPED, form, 1),
                    form.toString());
        }
        assertThrows(
                IllegalArgumentException.class, () -> new GridQuantize(x, E4M3, blocks, StepRule.CLIPPED, BETWEEN, 1));
        assertThrows(IllegalArgumentException.class, () -> new GridQuantize(x, INT4, blocks, StepRule.LSQ, BETWEEN, 1));
    }

    @Test
    void parts_that_do_not_go_together_are_refused() {
        OperandType x = f32(2, 2);
        var blocks = node(INT4, TENSOR, StepRule.LSQ, Form.STEP).blocks(x.shape());
        Form zero = with(Offset.ZERO_POINT);
        assertThrows(IllegalArgumentException.class, () -> new GridQuantize(x, E4M3, blocks, StepRule.PASSED, zero, 1));
        assertThrows(IllegalArgumentException.class, () -> new GridQuantize(x, INT4, blocks, StepRule.LSQ, zero, 1));
        Form pre = new Form(Parameter.STEP, Offset.NONE, true, false);
        assertThrows(IllegalArgumentException.class, () -> new GridQuantize(x, INT4, blocks, StepRule.LSQ, pre, 1));
    }
}
