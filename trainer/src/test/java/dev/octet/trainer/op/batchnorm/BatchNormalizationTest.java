package dev.octet.trainer.op.batchnorm;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

class BatchNormalizationTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                of("images", f32(2, 3, 4, 5)),
                of("rows", f32(7, 5)),
                of("long", f32(3, 2, 5003)),
                of("one", f32(1, 1)));
    }

    /** As drawn, with a variance that is not negative. */
    private static Case of(String name, OperandType x) {
        int channels = (int) x.shape().dim(1);
        BatchNormalization op = BatchNormalization.of(x, (int) x.shape().dim(0), channels, 1e-5f);
        OperandType c = f32(channels);
        Case drawn = Case.normal(name, op, x, c, c, c, c);
        List<double[]> inputs = new ArrayList<>();
        drawn.inputs().forEach(i -> inputs.add(requireNonNull(i)));
        inputs.set(4, Arrays.stream(inputs.get(4)).map(v -> Math.abs(v) + 0.5).toArray());
        return new Case(name, op, drawn.types(), List.copyOf(inputs));
    }
}
