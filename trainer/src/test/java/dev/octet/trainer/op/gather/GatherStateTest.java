package dev.octet.trainer.op.gather;

import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Rows decoded from codes: reference, CPU and kernels agree on every number, and gradients are those of a table of numbers. */
class GatherStateTest extends TwinTest {
    private static final StateForm SCALED =
            new StateForm.PowerOfTwo(DType.F16, MsampScale.MENDED, StateForm.OfZeros.AS_BEFORE);
    private static final StateForm FUSED = new StateForm.Fused(DType.F16);
    private static final StateForm FP8 =
            new StateForm.PowerOfTwo(DType.F8_E4M3FN, MsampScale.MENDED, StateForm.OfZeros.AS_BEFORE);

    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (StateForm form : List.of(SCALED, FUSED, FP8)) {
            all.add(of(form, 1, 1, i64(1), 0));
            all.add(of(form, 5, 3, i64(2, 2), 4, 1, 4, -1));
            all.add(of(form, 90, 24, i64(70).as(DType.I32), ids(70, 90)));
            all.add(of(form, 30, 2500, i64(40), ids(40, 30)));
        }
        all.add(of(new StateForm.Split(), 9, 12, i64(6), 8, 0, 3, 3, -2, 1));
        return all;
    }

    private static OperandType i64(long... dims) {
        return new OperandType(DType.I64, Shape.of(dims));
    }

    private static double[] ids(int n, int below) {
        return new SplittableRandom(7).ints(n, -below, below).asDoubleStream().toArray();
    }

    private static Case of(StateForm form, int rows, int cols, OperandType indices, double... ids) {
        OperandType table = f32(rows, cols);
        List<OperandType> types = new ArrayList<>(
                List.of(table.as(form.parts(table).getFirst().type().dtype()), indices));
        SplittableRandom random = new SplittableRandom(rows);
        List<double[]> inputs = new ArrayList<>();
        inputs.add(IntStream.range(0, rows * cols)
                .mapToDouble(i -> code(form, random.nextDouble() * 4 - 2))
                .toArray());
        inputs.add(ids);
        for (StateForm.Part part :
                form.parts(table).subList(1, form.parts(table).size())) {
            types.add(part.type());
            inputs.add(
                    part.type().count() == 1
                            ? new double[] {0x1p-3}
                            : random.ints(part.type().count(), -30_000, 30_000)
                                    .asDoubleStream()
                                    .toArray());
        }
        GatherState op = new GatherState(new Gather("emb", table, indices, 0), form);
        return new Case(form.text() + " " + table + " " + indices, op, List.copyOf(types), List.copyOf(inputs));
    }

    /** A number that the first part has. */
    private static double code(StateForm form, double x) {
        return switch (form) {
            case StateForm.PowerOfTwo(DType type, MsampScale _, StateForm.OfZeros _)
            when type == DType.F8_E4M3FN ->
                Float8Format.E4M3FN.decode(Float8Format.E4M3FN.encode((float) x, Overflow.SATURATE));
            case StateForm.Split() -> Math.rint(x * 64) / 64;
            default -> Half.toFloat(Half.fromFloat((float) x));
        };
    }

    /** Some rows are summed often. */
    @Override
    protected double tolerance(Case c) {
        return 5e-6;
    }

    /** The gradient is that of the numbers, not of the codes, which a scale lies between. */
    @Override
    protected double numericTolerance(Case c) {
        return Double.POSITIVE_INFINITY;
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Test
    void tables_in_blocks_are_refused() {
        Gather gather = new Gather("emb", f32(64, 64), i64(1), 0);
        assertThrows(
                IllegalArgumentException.class, () -> new GatherState(gather, new StateForm.Blocked(BlockCodes.INT8)));
    }
}
