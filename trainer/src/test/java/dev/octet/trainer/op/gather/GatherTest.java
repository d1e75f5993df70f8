package dev.octet.trainer.op.gather;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GatherTest extends TwinTest {
    private static OperandType i64(long... dims) {
        return new OperandType(DType.I64, Shape.of(dims));
    }

    private static Case of(String name, OperandType x, int axis, OperandType indices, double... values) {
        Case c = Case.normal(name, new Gather("emb", x, indices, axis), x, indices);
        return new Case(name, c.op(), c.types(), List.of(c.inputs().getFirst(), values));
    }

    private static double[] ids(int n, int below) {
        return new SplittableRandom(7).ints(n, -below, below).asDoubleStream().toArray();
    }

    @Override
    protected double tolerance(Case c) {
        return 5e-6; // some rows are summed a hundred times
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                of("one of one", f32(1), 0, i64(1), 0),
                of("embedding with duplicates", f32(5, 3), 0, i64(2, 2), 4, 1, 4, -1),
                of("scalar index drops the axis", f32(2, 3, 4), 1, i64(), 2),
                of("last axis", f32(2, 3, 4), 2, i64(3), -1, 0, -1),
                of("no indices", f32(4, 3), 0, i64(0)),
                of("long rows", f32(50, 2500), 0, i64(3, 40), ids(120, 50)),
                of("many ids", f32(300, 64), 0, i64(4000), ids(4000, 300)),
                of("narrow rows", f32(90, 24).as(DType.BF16), 0, i64(700), ids(700, 90)),
                of("odd narrow rows", f32(90, 7).as(DType.F16), 0, i64(70), ids(70, 90)),
                of("rows of three digits", f32(70_000, 2), 0, i64(2500), ids(2500, 70_000)),
                of("one row everywhere", f32(2, 8), 0, i64(1300), new double[1300]),
                of("short indices", f32(9, 4), 0, new OperandType(DType.I32, Shape.of(5)), 8, -9, 3, 3, -1),
                of("truth values", new OperandType(DType.BOOL, Shape.of(5, 3)), 0, i64(3), 4, 0, 4),
                of("many ids of a middle axis", f32(3, 30, 64), 1, i64(400), ids(400, 30)));
    }

    @ParameterizedTest
    @ValueSource(longs = {7, -8, Long.MAX_VALUE, Long.MIN_VALUE, 1L << 32})
    void an_index_outside_of_the_axis_is_refused_by_name(long bad) {
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor indices = new CpuTensor(i64(3), arena.allocate(24));
            indices.writeLong(1, bad);
            InvalidDataException e =
                    assertThrows(InvalidDataException.class, () -> Indices.resolve("layers.0.emb", indices, 7));
            String message = requireNonNull(e.getMessage());
            assertTrue(message.contains("index " + bad + " (number 1)"), message);
            assertTrue(message.contains("7 elements"), message);
            assertTrue(message.contains("layers.0.emb"), message);
        }
    }

    @Test
    void the_first_and_last_index_of_either_sign_are_taken() {
        assertEquals(
                List.of(0, 6, 0, 6),
                Arrays.stream(Indices.resolve("n", new double[] {0, 6, -7, -1}, 7))
                        .boxed()
                        .toList());
    }

    @Test
    void gradients_of_one_row_are_added_in_the_order_of_the_indices() {
        double small = 0x1p-24; // added one at a time to 1 both are lost in F32; their sum would not be
        List<OperandType> types = List.of(f32(1), i64(3));
        Gather op = new Gather("emb", types.getFirst(), types.getLast(), 0);
        List<double[]> gradients =
                gradients(op, types, List.of(new double[1], new double[3]), new double[] {1, small, small});
        assertEquals(1, gradients.getFirst()[0]);
    }

    @Test
    void the_row_of_padding_gets_no_gradient() {
        OperandType table = f32(3, 2);
        Gather op = new Gather("emb", table, i64(4), 0, 1);
        List<double[]> gradients =
                gradients(op, List.of(table, i64(4)), List.of(new double[6], new double[] {1, 2, -2, 2}), new double[] {
                    1, 2, 3, 4, 5, 6, 7, 8
                });
        assertEquals("[0.0, 0.0, 0.0, 0.0, 10.0, 12.0]", Arrays.toString(gradients.getFirst()));
    }
}
