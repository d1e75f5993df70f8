package dev.octet.trainer.op.loss;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class SoftmaxCrossEntropyLossTest extends TwinTest {
    /** Labels cycle through the classes; with an ignored label, every third one is it. */
    static List<Case> variants(String name, BiFunction<ClassLabels, Boolean, Op> make) {
        List<Case> cases = new ArrayList<>();
        for (Reduction r : Reduction.values()) {
            cases.add(labelled(name + " " + r, make, null, r, false, false, 5, 7));
            cases.add(labelled(name + " ignoring " + r, make, -100L, r, false, true, 5, 7));
            cases.add(labelled(name + " weights, grid " + r, make, 2L, r, true, true, 2, 4, 3, 2));
        }
        cases.add(labelled(name + " many", make, -100L, Reduction.MEAN, true, false, 67, 1001));
        return cases;
    }

    private static Case labelled(
            String name,
            BiFunction<ClassLabels, Boolean, Op> make,
            @Nullable Long ignore,
            Reduction reduction,
            boolean weights,
            boolean second,
            long... dims) {
        ClassLabels c = ClassLabels.of(f32(dims), 1, ignore, reduction);
        OperandType labelType = c.perPosition().as(DType.I64);
        List<@Nullable OperandType> types = new ArrayList<>(List.of(f32(dims), labelType));
        Case drawn = Case.normal(name, make.apply(c, second), f32(dims), f32(c.classes()));
        double[] labels = new double[c.count()];
        for (int i = 0; i < labels.length; i++) {
            labels[i] = ignore != null && i % 3 == 1 ? ignore : (i * 5) % c.classes();
        }
        List<double @Nullable []> inputs = new ArrayList<>();
        inputs.add(drawn.inputs().get(0));
        inputs.add(labels);
        if (weights) {
            types.add(f32(c.classes()));
            inputs.add(Arrays.stream(drawn.inputs().get(1)).map(Math::abs).toArray());
        }
        return new Case(name, drawn.op(), types, inputs);
    }

    private static Case narrow(DType type, int rows, int classes, boolean logarithms) {
        OperandType x = f32(rows, classes).as(type);
        ClassLabels c = ClassLabels.of(x, 1, null, Reduction.MEAN);
        String name = type + " [" + rows + ", " + classes + "]" + (logarithms ? ", logarithms" : "");
        Case drawn = Case.normal(name, new SoftmaxCrossEntropyLoss(c, logarithms), x);
        double[] labels = new double[rows];
        Arrays.setAll(labels, i -> (i * 37 + classes - 1) % classes);
        return new Case(
                name,
                drawn.op(),
                List.of(x, new OperandType(DType.I64, c.positions())),
                List.of(requireNonNull(drawn.inputs().getFirst()), labels));
    }

    private static Case smoothed(OperandType x, int axis) {
        ClassLabels c = ClassLabels.of(x, axis, -100L, Reduction.MEAN);
        Case drawn = Case.normal("smoothed " + x, new SoftmaxCrossEntropyLoss(c, false, 0.5f), x);
        double[] labels = new double[c.count()];
        Arrays.setAll(labels, i -> i % 4 == 3 ? -100 : (i * 3) % c.classes());
        return new Case(
                drawn.name(),
                drawn.op(),
                List.of(x, new OperandType(DType.I64, c.positions())),
                List.of(requireNonNull(drawn.inputs().getFirst()), labels));
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>(variants("softmax", SoftmaxCrossEntropyLoss::new));
        for (Reduction r : Reduction.values()) {
            ClassLabels c = ClassLabels.of(f32(2, 4, 5), 2, -100L, r).shifted();
            Case drawn = Case.normal("shifted " + r, new SoftmaxCrossEntropyLoss(c, false), f32(2, 4, 5));
            // the first label of a sequence belongs to no position: one that is not a class does no harm there
            double[] labels = {99, 1, -100, 4, 99, 0, 2, 3};
            cases.add(new Case(
                    drawn.name(),
                    drawn.op(),
                    List.of(f32(2, 4, 5), new OperandType(DType.I64, c.positions())),
                    List.of(requireNonNull(drawn.inputs().getFirst()), labels)));
        }
        for (DType type : List.of(DType.BF16, DType.F16)) {
            for (boolean logarithms : new boolean[] {false, true}) {
                cases.add(narrow(type, 5, 5003, logarithms)); // rows that begin at odd addresses, one to a block
                cases.add(narrow(type, 19, 61, logarithms));
            }
        }
        for (Case each : variants("smoothed", (c, second) -> new SoftmaxCrossEntropyLoss(c, second, 0.1f))) {
            if (each.types().size() == 2) { // without weights of classes
                cases.add(each);
            }
        }
        cases.add(smoothed(f32(3, 5, 7), 1)); // classes not last
        cases.add(smoothed(f32(19, 61).as(DType.F16), 1));
        cases.add(smoothed(f32(3, 1501).as(DType.BF16), 1));
        // the loss is NaN and the gradient zero; too large for finite differences, which know nothing of NaN
        ClassLabels none = ClassLabels.of(f32(2, 701), 1, -100L, Reduction.MEAN);
        Case drawn = Case.normal("nothing counts", new SoftmaxCrossEntropyLoss(none, false), f32(2, 701));
        cases.add(new Case(
                drawn.name(),
                drawn.op(),
                List.of(f32(2, 701), new OperandType(DType.I64, none.positions())),
                List.of(requireNonNull(drawn.inputs().getFirst()), new double[] {-100, -100})));
        return cases;
    }

    @Test
    void a_shifted_label_out_of_range_is_named_where_it_stands() {
        ClassLabels c = ClassLabels.of(f32(2, 4, 5), 2, -100L, Reduction.MEAN).shifted();
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> c.check(i -> i == 6 ? 5 : 0));
        assertEquals("label [1, 2] is 5, classes are 0 to 4", e.what());
    }

    @Test
    void a_label_out_of_range_is_named_with_its_position() {
        ClassLabels c = ClassLabels.of(f32(2, 4, 3), 1, -100L, Reduction.MEAN);
        InvalidDataException e =
                assertThrows(InvalidDataException.class, () -> c.check(i -> i == 5 ? 4 : i == 1 ? -100 : 0));
        assertEquals("label [1, 2] is 4, classes are 0 to 3", e.what());
        assertTrue(assertThrows(InvalidDataException.class, () -> c.check(i -> -1))
                .what()
                .startsWith("label [0, 0] is -1"));
    }
}
