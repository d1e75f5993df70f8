package dev.octet.trainer.op.update;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.reduction.AutoScale;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.ReductionRule;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

class RankAverageTest extends TwinTest {
    private static final OperandType MANY = f32(3, 20011);

    private static Case floats(String name, OperandType g, int ranks) {
        OperandType[] types = Stream.generate(() -> g).limit(ranks).toArray(OperandType[]::new);
        return Case.normal(name, new RankAverage(g, ranks), types);
    }

    /** Rank r's gradient times 2^(-3r), so that their scales differ. */
    private static Case coded(
            String name,
            OperandType g,
            ReductionRule rule,
            Optional<AutoScale> automatic,
            float preScale,
            double size) {
        OperandType[] drawnTypes = Stream.generate(() -> g).limit(rule.ranks()).toArray(OperandType[]::new);
        CodedRankAverage op = new CodedRankAverage(g, rule, automatic);
        Case drawn = Case.normal(name, op, drawnTypes);
        List<double[]> inputs = new ArrayList<>();
        for (int r = 0; r < rule.ranks(); r++) {
            double by = size * Math.scalb(1.0, -3 * r);
            inputs.add(Arrays.stream(requireNonNull(drawn.inputs().get(r)))
                    .map(x -> x * by)
                    .toArray());
        }
        List<OperandType> types = new ArrayList<>(List.of(drawnTypes));
        inputs.addAll(List.of(new double[] {16}, new double[] {preScale}));
        types.addAll(List.of(f32(), f32()));
        return new Case(name, op, types, List.copyOf(inputs));
    }

    private static Case coded(String name, OperandType g, ReductionRule rule) {
        return coded(name, g, rule, Optional.empty(), rule.preScale(), 1);
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>(List.of(
                floats("mean of one", f32(7), 1),
                floats("mean of three", f32(3, 5), 3),
                floats("mean, many", MANY, 4)));
        for (GradientReduction reduction : GradientReduction.values()) {
            all.add(coded(reduction.text(), f32(3, 5), ReductionRule.of(reduction, 3)));
            all.add(coded(
                    reduction.text() + " with quirks, many",
                    MANY,
                    new ReductionRule(reduction, MsampScale.ORIGINAL, 4)));
            all.add(coded(
                    reduction.text() + ", automatic, many",
                    MANY,
                    ReductionRule.of(reduction, 2),
                    Optional.of(AutoScale.DEFAULT),
                    0.7f,
                    1));
            all.add(coded(
                    reduction.text() + ", saturated, automatic",
                    f32(3, 5),
                    ReductionRule.of(reduction, 2),
                    Optional.of(AutoScale.DEFAULT),
                    3,
                    1));
            all.add(coded(
                    reduction.text() + " of zeros",
                    f32(7),
                    ReductionRule.of(reduction, 2),
                    Optional.of(AutoScale.DEFAULT),
                    0.5f,
                    0));
        }
        return all;
    }
}
