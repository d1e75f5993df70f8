package dev.octet.trainer.op.update;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.op.update.AdamStep.Variant;
import dev.octet.trainer.rule.LambRule;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class UpdateOpsTest extends TwinTest {
    private static final OperandType MANY = f32(3, 20011);

    /** Arrays, then scalars, then arrays again. Second moments are not negative. */
    private static Case adam(String name, OperandType p, Variant variant, double leftOut) {
        AdamStep op = new AdamStep(p, p.as(DType.F32), 0.9, 0.99, 1e-8, 0.1, variant);
        Case drawn = Case.normal(name, op, p, p, p.as(DType.F32), p.as(DType.F32));
        List<double[]> inputs = new ArrayList<>(drawn.inputs());
        inputs.set(3, Arrays.stream(inputs.get(3)).map(x -> x * x).toArray());
        List<OperandType> types = new ArrayList<>(drawn.types());
        for (double s : new double[] {0.125, 3, 0.5, leftOut, 1.75}) {
            inputs.add(new double[] {s});
            types.add(f32());
        }
        if (!op.measuresRate()) {
            inputs.removeLast();
            types.removeLast();
        }
        return new Case(name, op, types, List.copyOf(inputs));
    }

    /** The same with its first beta as an input. */
    private static Case cycling(String name, OperandType p, Variant variant) {
        Case fixed = adam(name, p, variant, 0);
        List<double[]> inputs = new ArrayList<>(fixed.inputs());
        inputs.add(new double[] {0.8125});
        List<OperandType> types = new ArrayList<>(fixed.types());
        types.add(f32());
        return new Case(name, ((AdamStep) fixed.op()).cycling(), types, List.copyOf(inputs));
    }

    /** Its first beta is exact, so that no sign depends on rounding. */
    private static Case lion(String name, OperandType p, double leftOut) {
        Case drawn = Case.normal(name, new LionStep(p, p.as(DType.F32), 0.875, 0.99, 0.1), p, p, p.as(DType.F32));
        List<double[]> inputs = new ArrayList<>(drawn.inputs());
        List<OperandType> types = new ArrayList<>(drawn.types());
        double[] scalars = {0.125, 3, 0.5, leftOut};
        for (int i = 0; i < scalars.length; i++) {
            inputs.add(2 + i, new double[] {scalars[i]});
            types.add(2 + i, f32());
        }
        return new Case(name, drawn.op(), types, List.copyOf(inputs));
    }

    private static Case trust(String name, OperandType p, LambRule rule, double decay) {
        TrustRatio op = new TrustRatio(p, p.as(DType.F32), 0.9, 0.99, 1e-6, decay, rule, SharedTensor.alone(p.shape()));
        Case drawn = Case.normal(name, op, p, p, p.as(DType.F32), p.as(DType.F32));
        List<double[]> inputs = new ArrayList<>(drawn.inputs());
        inputs.set(3, Arrays.stream(inputs.get(3)).map(x -> x * x).toArray());
        return with(name, drawn, inputs, 3, 0.5);
    }

    private static Case muonMomentum(String name, DType to, boolean nesterov, double leftOut) {
        Case drawn = Case.normal(name, new MuonMomentum(f32(33, 70), to, 0.95, nesterov), f32(33, 70), f32(33, 70));
        return with(name, drawn, new ArrayList<>(drawn.inputs()), 0.5, leftOut);
    }

    private static Case muonScale(String name, OperandType x, double squares) {
        Case drawn = Case.normal(name, new MuonScale(x, 1e-3), x);
        List<double[]> inputs = new ArrayList<>(drawn.inputs());
        inputs.add(new double[] {squares});
        return new Case(name, drawn.op(), List.of(x, SquareSum.RESULT), List.copyOf(inputs));
    }

    private static Case muonStep(String name, OperandType p, DType update, double leftOut) {
        Case drawn = Case.normal(name, new MuonStep(p, p.as(update), 0.1, 1.5), p, p.as(update));
        return with(name, drawn, new ArrayList<>(drawn.inputs()), 0.125, leftOut);
    }

    private static Case rms(String name, OperandType g, double eps) {
        Case drawn = Case.normal(
                name, new UpdateRms(g, g.as(DType.F32), 0.9, eps, SharedTensor.alone(g.shape())), g, g.as(DType.F32));
        List<double[]> inputs = new ArrayList<>(drawn.inputs());
        inputs.set(1, Arrays.stream(inputs.get(1)).map(x -> x * x).toArray());
        return with(name, drawn, inputs, 3, 0.5);
    }

    /** From step 3 on, every third. */
    private static Case average(String name, OperandType p, double decay, double t, double leftOut) {
        Case drawn = Case.normal(name, new WeightAverage(p, p.as(DType.F32), decay, 3, 3), p.as(DType.F32), p);
        return with(name, drawn, new ArrayList<>(drawn.inputs()), t, leftOut);
    }

    /** A case with scalars behind its arrays. */
    private static Case with(String name, Case drawn, List<double[]> inputs, double... scalars) {
        List<OperandType> types = new ArrayList<>(drawn.types());
        for (double s : scalars) {
            inputs.add(new double[] {s});
            types.add(f32());
        }
        return new Case(name, drawn.op(), types, List.copyOf(inputs));
    }

    private static Case sgd(
            String name, OperandType p, double momentum, boolean nesterov, double step, double leftOut) {
        SgdStep op = new SgdStep(p, p.as(DType.F32), momentum, nesterov ? 0 : 0.25, 0.1, nesterov);
        Case drawn = Case.normal(name, op, p, p, p.as(DType.F32));
        List<double[]> inputs = new ArrayList<>(drawn.inputs().subList(0, 2));
        List<OperandType> types = new ArrayList<>(drawn.types().subList(0, 2));
        for (double s : new double[] {0.125, step, 0.5, leftOut}) {
            inputs.add(new double[] {s});
            types.add(f32());
        }
        if (momentum != 0) {
            inputs.add(drawn.inputs().get(2));
            types.add(drawn.types().get(2));
        }
        return new Case(name, op, types, List.copyOf(inputs));
    }

    private static Case squares(String name, double size) {
        Case drawn = Case.normal(name, new SquareSum(MANY), MANY);
        double[] g = Arrays.stream(requireNonNull(drawn.inputs().getFirst()))
                .map(x -> x * size)
                .toArray();
        List<double[]> inputs = List.of(g);
        return new Case(name, drawn.op(), drawn.types(), List.copyOf(inputs));
    }

    private static Case check(String name, double badLoss, double maxNorm, double... squares) {
        Op op = new FiniteGradients(squares.length, maxNorm);
        List<double[]> inputs = new ArrayList<>(List.of(new double[] {0.5}, new double[] {7}, new double[] {badLoss}));
        List<OperandType> types = new ArrayList<>(List.of(f32(), f32(), f32()));
        for (double s : squares) {
            inputs.add(new double[] {s});
            types.add(SquareSum.RESULT);
        }
        return new Case(name, op, types, List.copyOf(inputs));
    }

    private static Case loss(String name, double loss, double seen) {
        List<double[]> inputs = List.of(new double[] {loss}, new double[] {seen});
        return new Case(name, new LossCheck(f32()), List.of(f32(), f32()), List.copyOf(inputs));
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                adam("AdamW", f32(3, 5), Variant.ADAMW, 0),
                adam("AdamW, many", MANY, Variant.ADAMW, 0),
                adam("AdamW, left out", f32(3, 5), Variant.ADAMW, 1),
                adam("Adam", f32(1), Variant.ADAM, 0),
                adam("StableAdamW, many", MANY, Variant.STABLE_ADAMW, 0),
                adam("StableAdamW, left out", f32(3, 5), Variant.STABLE_ADAMW, 1),
                adam("AdamW, multiplied, many", MANY, Variant.SCALED_ADAMW, 0),
                adam("AdamW, multiplied, left out", f32(3, 5), Variant.SCALED_ADAMW, 1),
                adam("AdamW, multiplied, uncorrected", MANY, Variant.SCALED_UNCORRECTED, 0),
                cycling("AdamW, beta1 an input", MANY, Variant.ADAMW),
                cycling("AdamW, multiplied, beta1 an input", f32(7), Variant.SCALED_ADAMW),
                lion("Lion", f32(3, 5), 0),
                lion("Lion, many", MANY, 0),
                lion("Lion, left out", f32(7), 1),
                trust("trust ratio", f32(3, 5), LambRule.APEX, 0.1),
                trust("trust ratio, many", MANY, LambRule.APEX, 0.1),
                trust("trust ratio without decay", f32(7), LambRule.APEX, 0),
                trust("trust ratio, DeepSpeed", MANY, LambRule.DEEPSPEED, 0),
                trust(
                        "trust ratio, bounded",
                        f32(7),
                        new LambRule(LambRule.Formula.DEEPSPEED, false, 0.75, 0.875, true),
                        0),
                muonMomentum("Muon's momentum", DType.F32, true, 0),
                muonMomentum("Muon's momentum without Nesterov in BF16", DType.BF16, false, 0),
                muonMomentum("Muon's momentum, left out", DType.BF16, true, 1),
                muonScale("Muon's norm", f32(33, 70), 5),
                muonScale("Muon's norm, none", f32(3, 4), 0),
                muonScale("Muon's norm in BF16", f32(3, 40).as(DType.BF16), 7),
                muonStep("Muon's step", f32(33, 70), DType.F32, 0),
                muonStep("Muon's step from BF16", f32(33, 70), DType.BF16, 0),
                muonStep("Muon's step, left out", f32(3, 4), DType.BF16, 1),
                rms("rms", f32(3, 5), 1e-8),
                rms("rms, many", MANY, 1e-8),
                rms("rms, floor", f32(7), 3),
                average("EMA, a copy first", f32(3, 5), 0.75, 6, 0),
                average("EMA", MANY, 0.75, 9, 0),
                average("SWA", MANY, 0, 12, 0),
                average("an average that nothing enters", f32(7), 0, 8, 0),
                average("an average before its start", f32(7), 0, 3, 0),
                average("an average, left out", f32(7), 0, 9, 1),
                sgd("SGD", f32(7), 0, false, 3, 0),
                sgd("SGD, momentum", f32(7), 0.5, false, 3, 0),
                sgd("SGD, first step", f32(7), 0.5, false, 1, 0),
                sgd("SGD, Nesterov, many", MANY, 0.5, true, 3, 0),
                sgd("SGD, left out", f32(7), 0.5, false, 3, 1),
                Case.normal("squares", new SquareSum(MANY), MANY),
                squares("squares beyond F32", 0x1p80),
                squares("squares summed in F64", 0x1p-48),
                check("clipped", 0, 1, 9, 16),
                check("short enough", 0, 3, 9, 16),
                check("not clipped", 0, Double.POSITIVE_INFINITY, 9, 16),
                check("a bad loss", 1, 3, 9, 16),
                loss("a loss", 3.5, 0),
                loss("a loss behind a bad one", 3.5, 1),
                loss("an infinite loss", Double.POSITIVE_INFINITY, 0),
                loss("no number", Double.NaN, 0));
    }

    @Test
    void a_gradient_that_is_not_finite_makes_the_step_not_count() {
        for (double bad : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
            double[] out = new FiniteGradients(1, 1).outputs(1, 7, 0, bad);
            assertArrayEquals(new double[] {bad, 0, 1, 7}, out);
        }
    }

    @Test
    void a_norm_is_clipped_with_a_millionth_added_to_it_as_torch_does() {
        double[] out = new FiniteGradients(1, 1e-6).outputs(1, 7, 0, 1e-12);
        assertEquals(0.5, out[FiniteGradients.FACTOR], 1e-9);
    }
}
