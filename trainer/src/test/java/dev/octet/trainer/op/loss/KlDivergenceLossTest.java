package dev.octet.trainer.op.loss;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

class KlDivergenceLossTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (float temperature : new float[] {0.5f, 1, 3}) {
            cases.add(of("all", f32(3, 4, 5), temperature, false, null, null));
            cases.add(of("one row", f32(7), temperature, false, null, null));
            cases.add(of("many", f32(67, 1001), temperature, false, null, null));
        }
        cases.add(of("BF16", f32(5, 1536).as(DType.BF16), 2, false, null, null));
        cases.add(of("F16", f32(9, 77).as(DType.F16), 2, false, null, null));
        // classes out of range are refused, so what is ignored is told from labels that count
        cases.add(of("labels", f32(2, 3, 4), 2, false, new double[] {0, -100, 3, -100, -100, 1}, null));
        // the first label of a sequence belongs to no position: one that is not a class does no harm there
        cases.add(of("next labels", f32(2, 3, 4), 2, true, new double[] {99, -100, 3, -100, 1, 1}, null));
        cases.add(of("masked", f32(2, 3, 4), 2, false, null, new double[] {1, 1, 0, 1, 0, 0}));
        cases.add(of("weighed", f32(2, 3, 4), 1, false, null, new double[] {1, 2, 0.5, 1, 0, 0.25}));
        Case drawn = of("excluded classes", f32(4, 6), 1, false, null, null);
        double[] teacher = requireNonNull(drawn.inputs().get(1));
        teacher[3] = Double.NEGATIVE_INFINITY;
        teacher[12] = Double.NEGATIVE_INFINITY;
        cases.add(drawn);
        return cases;
    }

    private static Case of(
            String name,
            OperandType scores,
            float temperature,
            boolean shift,
            double @Nullable [] labels,
            double @Nullable [] weights) {
        KlDivergenceLoss op = KlDivergenceLoss.of(scores, scores, temperature, -100L, shift);
        Case drawn = Case.normal(name + " at " + temperature, op, scores, scores);
        OperandType positions = op.positions().perPosition();
        List<@Nullable OperandType> types = new ArrayList<>(drawn.types());
        types.add(labels == null ? null : positions.as(DType.I64));
        types.add(weights == null ? null : positions);
        List<double @Nullable []> inputs = new ArrayList<>(drawn.inputs());
        inputs.add(labels);
        inputs.add(weights);
        return new Case(drawn.name(), op, types, inputs);
    }
}
