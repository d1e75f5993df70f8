package dev.octet.trainer.op.elements;

import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class GatherElementsTest extends TwinTest {
    private static OperandType i64(long... dims) {
        return new OperandType(DType.I64, Shape.of(dims));
    }

    private static Case pick(String name, OperandType x, Places places, OperandType indices, double... at) {
        long rows = Math.max(1, places.inner());
        Shape shape = places instanceof Places.ByTuple t ? t.rows() : indices.shape();
        GatherElements op = new GatherElements(name, x, places, new OperandType(x.dtype(), shape));
        Case c = Case.normal(name + " " + x + rows, op, x, indices);
        return new Case(c.name(), op, c.types(), List.of(c.inputs().getFirst(), at));
    }

    private static Case scatter(
            String name, OperandType x, Places places, boolean adds, OperandType indices, double... at) {
        Shape shape = places instanceof Places.ByTuple t ? t.rows() : indices.shape();
        OperandType updates = new OperandType(x.dtype(), shape);
        Scatter op = new Scatter(name, x, updates, places, adds);
        Case c = Case.normal(name + " " + x + adds, op, x, indices, updates);
        return new Case(
                c.name(),
                op,
                c.types(),
                List.of(c.inputs().getFirst(), at, c.inputs().getLast()));
    }

    private static Places byElement(OperandType x, OperandType indices, int axis) {
        return new Places.ByElement("n", x.shape(), indices.shape(), axis);
    }

    private static Places byTuple(OperandType x, OperandType indices, int batch) {
        return new Places.ByTuple("n", x.shape(), indices.shape(), batch);
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        OperandType x = f32(3, 4);
        OperandType cube = f32(2, 3, 4);
        OperandType numbers = x.as(DType.I64);
        OperandType narrow = f32(9, 4).as(DType.BF16);
        OperandType wide = f32(40, 30);
        return List.of(
                pick("elements", x, byElement(x, i64(2, 4), 0), i64(2, 4), 0, 1, 2, 2, 0, -1, 2, 1),
                pick("fewer elements", x, byElement(x, i64(2, 5), 1), i64(2, 5), 0, 0, 0, 3, -4, 1, 1, 2, 2, -1),
                pick("tuples", cube, byTuple(cube, i64(3, 2), 0), i64(3, 2), 0, 1, 1, -1, 0, 1),
                pick("whole tuples", cube, byTuple(cube, i64(2, 3), 0), i64(2, 3), 0, 1, 2, 1, 2, 3),
                pick("batched tuples", cube, byTuple(cube, i64(2, 2, 1), 1), i64(2, 2, 1), 0, 2, 1, 1),
                scatter("replaced elements", x, byElement(x, i64(2, 2), 1), false, i64(2, 2), 0, 0, 3, -1),
                scatter("added elements", x, byElement(x, i64(2, 2), 1), true, i64(2, 2), 0, 0, 3, 3),
                scatter("replaced rows", cube, byTuple(cube, i64(3, 2), 0), false, i64(3, 2), 0, 1, 1, 2, 0, 1),
                scatter("added rows", cube, byTuple(cube, i64(3, 1), 0), true, i64(3, 1), 0, 1, 1),
                scatter("added integers", numbers, byElement(numbers, i64(2, 2), 1), true, i64(2, 2), 0, 0, 3, 3),
                scatter("replaced integers", numbers, byTuple(numbers, i64(3, 1), 0), false, i64(3, 1), 2, 0, 2),
                scatter("narrow rows", narrow, byTuple(narrow, i64(50, 1), 0), false, i64(50, 1), repeated(50, 9)),
                pick("narrow", narrow, byTuple(narrow, i64(50, 1), 0), i64(50, 1), repeated(50, 9)),
                pick("many", wide, byElement(wide, i64(90, 30), 0), i64(90, 30), repeated(2700, 40)),
                scatter("many added", wide, byElement(wide, i64(40, 20), 1), true, i64(40, 20), repeated(800, 30)),
                scatter("many put", wide, byElement(wide, i64(40, 20), 1), false, i64(40, 20), repeated(800, 30)));
    }

    /** Indices below {@code size}, most of them more than once. */
    private static double[] repeated(int n, int size) {
        return new SplittableRandom(n).ints(n, 0, size).asDoubleStream().toArray();
    }

    @Test
    void an_index_outside_is_refused_whatever_its_place_in_the_tuple() {
        Places places = byTuple(f32(2, 3, 4), i64(1, 3), 0);
        for (long[] bad : new long[][] {{2, 0, 0}, {0, 3, 0}, {0, 0, 4}, {0, 0, -5}}) {
            assertThrows(InvalidDataException.class, () -> places.starts(i -> bad[(int) i]));
        }
        Places elements = byElement(f32(2, 3), i64(2, 1), 1);
        assertThrows(InvalidDataException.class, () -> elements.starts(i -> 3));
    }
}
