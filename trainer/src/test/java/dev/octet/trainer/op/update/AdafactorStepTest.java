package dev.octet.trainer.op.update;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.AdafactorRule.Formula;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalDouble;

class AdafactorStepTest extends TwinTest {
    private static final AdafactorRule RELATIVE =
            new AdafactorRule(Formula.TRANSFORMERS, 1e-30, 1e-3, 1, -0.8, OptionalDouble.empty(), true, true, true);
    private static final AdafactorRule MOMENT =
            new AdafactorRule(Formula.TRANSFORMERS, 1e-30, 1e-3, 0.5, -0.7, OptionalDouble.of(0.9), true, false, false);

    private static Case step(String name, AdafactorRule rule, OperandType p, double t, double leftOut) {
        List<OperandType> arrays = new ArrayList<>(List.of(p, p));
        arrays.addAll(rule.memory(p).values());
        AdafactorStep op = new AdafactorStep(p, rule, 0.1, SharedTensor.alone(p.shape()));
        Case drawn = Case.normal(name, op, arrays.toArray(OperandType[]::new));
        List<double[]> inputs = new ArrayList<>();
        for (int i = 0; i < arrays.size(); i++) {
            double[] x = requireNonNull(drawn.inputs().get(i));
            boolean second = i >= 1 + op.second();
            inputs.add(second ? Arrays.stream(x).map(v -> v * v).toArray() : x);
        }
        List<OperandType> types = new ArrayList<>(arrays);
        double[] scalars = {0.125, t, 0.5, leftOut};
        for (int k = 0; k < scalars.length; k++) {
            inputs.add(2 + k, new double[] {scalars[k]});
            types.add(2 + k, f32());
        }
        return new Case(name, op, types, List.copyOf(inputs));
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                step("a matrix", AdafactorRule.TRANSFORMERS, f32(3, 5), 3, 0),
                step("the first step", AdafactorRule.TRANSFORMERS, f32(3, 5), 1, 0),
                step("a vector", AdafactorRule.TRANSFORMERS, f32(7), 3, 0),
                step("a scalar", AdafactorRule.TRANSFORMERS, f32(), 3, 0),
                step("many rows", AdafactorRule.TRANSFORMERS, f32(1031, 37), 3, 0),
                step("long rows", RELATIVE, f32(3, 20011), 3, 0),
                step("a long vector", RELATIVE, f32(40013), 3, 0),
                step("matrices", RELATIVE, f32(4, 300, 33), 30, 0),
                step("a first moment", MOMENT, f32(17, 65), 3, 0),
                step("a first moment of a vector", MOMENT, f32(65), 3, 0),
                step("left out", MOMENT, f32(17, 65), 3, 1),
                step("a vector, left out", MOMENT, f32(17), 3, 1),
                step("torch, a matrix", AdafactorRule.TORCH, f32(3, 5), 3, 0),
                step("torch, a vector", AdafactorRule.TORCH, f32(5), 3, 0),
                step("torch, many rows", AdafactorRule.TORCH, f32(2, 700, 41), 3, 0),
                step("torch, left out", AdafactorRule.TORCH, f32(3, 5), 3, 1),
                step(
                        "BF16",
                        AdafactorRule.TRANSFORMERS,
                        new OperandType(DType.BF16, f32(9, 33).shape()),
                        3,
                        0));
    }
}
