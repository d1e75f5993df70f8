package dev.octet.trainer.op.loss;

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
        ClassLabels c = ClassLabels.of(f32(dims), ignore, reduction);
        OperandType labelType = c.perPosition().as(DType.I64);
        List<@Nullable OperandType> types = new ArrayList<>(List.of(f32(dims), labelType));
        Case drawn = Case.normal(name, make.apply(c, second), f32(dims), f32(c.classes()));
        double[] labels = new double[c.positions()];
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

    @Override
    protected List<Case> cases() {
        return variants("softmax", SoftmaxCrossEntropyLoss::new);
    }

    @Test
    void a_label_out_of_range_is_named_with_its_position() {
        ClassLabels c = ClassLabels.of(f32(2, 4, 3), -100L, Reduction.MEAN);
        InvalidDataException e =
                assertThrows(InvalidDataException.class, () -> c.check(i -> i == 5 ? 4 : i == 1 ? -100 : 0));
        assertEquals("label [1, 2] is 4, classes are 0 to 3", e.what());
        assertTrue(assertThrows(InvalidDataException.class, () -> c.check(i -> -1))
                .what()
                .startsWith("label [0, 0] is -1"));
    }
}
