package dev.octet.trainer.step;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.update.CodedRankAverage;
import dev.octet.trainer.op.update.RankAverage;
import dev.octet.trainer.op.update.UpdateOp;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.reduction.ReductionReport;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/**
 * What a step on ranks does besides training programs and the update: {@code collect} adds the gradients of a micro-batch to those of its rank, {@code average} puts
 * the average of all ranks where the gradients were.
 *
 * @param collect a program for each rank that this process plays
 * @param average the reduction
 * @param parameters whose gradients are averaged
 * @param coded what is known of each tensor averaged in E4M3, by parameter
 */
record RankPrograms(List<Program> collect, Program average, Set<String> parameters, Map<String, Coded> coded) {
    /** Names of states: the scale kept for the next step, the next pre-scale, the count of saturated codes of this step. */
    static final String SCALE = "rank_scale:";

    static final String PRE_SCALE = "rank_pre_scale:";
    static final String SATURATED = "rank_saturated:";

    /**
     * A tensor averaged in E4M3.
     *
     * @param elements of the tensor
     */
    record Coded(Value scale, Value preScale, Value saturated, long elements) {}

    RankPrograms {
        collect = List.copyOf(collect);
        parameters = new TreeSet<>(parameters);
        coded = Collections.unmodifiableMap(new LinkedHashMap<>(coded));
    }

    /**
     * The programs of a process that plays one of several ranks. Its {@code average} has what codes need from one step to the next, and steps only where the sum of this rank is
     * averaged in its place: they put it where the gradient was.
     *
     * @param matrices the parameters whose gradients are averaged in E4M3
     */
    static RankPrograms ofOne(Program training, RankSettings settings, Set<String> matrices) {
        Map<String, Coded> coded = new LinkedHashMap<>();
        ProgramBuilder builder = new ProgramBuilder();
        training.gradients().forEach((name, g) -> {
            if (matrices.contains(name)) {
                coded.put(name, states(builder, name, g, settings));
            } else if (settings.reduction() == GradientReduction.NCCL) {
                average(builder, name, g, 1);
            }
        });
        return new RankPrograms(
                List.of(collect(training, 0)),
                builder.build(),
                training.gradients().keySet(),
                coded);
    }

    /**
     * The programs of a process that plays all ranks.
     *
     * @param training whose gradients are averaged
     * @param matrices the parameters whose gradients are averaged in E4M3
     */
    static RankPrograms of(Program training, RankSettings settings, Set<String> matrices) {
        List<Program> collect = new ArrayList<>();
        for (int r = 0; r < settings.ranks(); r++) {
            collect.add(collect(training, r));
        }
        Map<String, Coded> coded = new LinkedHashMap<>();
        ProgramBuilder builder = new ProgramBuilder();
        training.gradients().forEach((name, g) -> {
            if (matrices.contains(name)) {
                coded.put(name, averageCodes(builder, name, g, settings));
            } else {
                average(builder, name, g, settings.ranks());
            }
        });
        return new RankPrograms(collect, builder.build(), training.gradients().keySet(), coded);
    }

    /** How the averages of the last step fitted E4M3; empty where all are in F32. */
    Optional<ReductionReport> report(PersistentBuffers memory) {
        return report(memory, Map.of());
    }

    /**
     * The same of a rank that has parts of parameters.
     *
     * @param whole elements of these
     */
    Optional<ReductionReport> report(PersistentBuffers memory, Map<String, Long> whole) {
        if (coded.isEmpty()) {
            return Optional.empty();
        }
        long saturated = 0;
        long elements = 0;
        String worst = "";
        double worstShare = 0;
        float smallest = Float.POSITIVE_INFINITY;
        float largest = 0;
        for (Map.Entry<String, RankPrograms.Coded> e : coded.entrySet()) {
            long count = (long) memory.readNumber(e.getValue().saturated());
            long of = whole.getOrDefault(e.getKey(), e.getValue().elements());
            double share = (double) count / Math.max(1, of);
            saturated += count;
            elements += of;
            if (share > worstShare) {
                worst = e.getKey();
                worstShare = share;
            }
            float preScale = (float) memory.readNumber(e.getValue().preScale());
            smallest = Math.min(smallest, preScale);
            largest = Math.max(largest, preScale);
        }
        return Optional.of(new ReductionReport(saturated, elements, worst, worstShare, smallest, largest));
    }

    private static void average(ProgramBuilder builder, String name, Value g, int ranks) {
        builder.step(
                Phase.UPDATE,
                name,
                new RankAverage(g.type(), ranks),
                inputs(builder, name, g, ranks),
                List.of(builder.gradient(name, g.type())));
    }

    private static Coded averageCodes(ProgramBuilder builder, String name, Value g, RankSettings settings) {
        OperandType tensor = g.type();
        List<Value> inputs = inputs(builder, name, g, settings.ranks());
        Coded states = states(builder, name, g, settings);
        inputs.addAll(List.of(states.scale, states.preScale));
        List<Value> outputs = List.of(builder.gradient(name, tensor), states.scale, states.preScale, states.saturated);
        CodedRankAverage op = new CodedRankAverage(tensor, settings.rule(), settings.automatic());
        builder.step(Phase.UPDATE, name, op, List.copyOf(inputs), outputs);
        return states;
    }

    private static Coded states(ProgramBuilder builder, String name, Value g, RankSettings settings) {
        return new Coded(
                builder.state(SCALE + name, UpdateOp.SCALAR, 1),
                builder.state(PRE_SCALE + name, UpdateOp.SCALAR, settings.firstPreScale()),
                builder.state(SATURATED + name, UpdateOp.SCALAR, 0),
                g.type().count());
    }

    /** The F32 gradient of the only rank that this process plays. */
    Value own(String parameter) {
        return Objects.requireNonNull(collect.getFirst().gradients().get(ofRank(parameter, 0)), parameter);
    }

    private static List<Value> inputs(ProgramBuilder builder, String name, Value g, int ranks) {
        List<Value> all = new ArrayList<>();
        for (int r = 0; r < ranks; r++) {
            all.add(ofRank(builder, name, g, r));
        }
        return all;
    }

    /** The gradient of a rank: zeroed with the gradients before a step, and not part of a checkpoint. */
    private static Value ofRank(ProgramBuilder builder, String name, Value g, int rank) {
        return builder.gradient(ofRank(name, rank), g.type().as(DType.F32));
    }

    private static Program collect(Program training, int rank) {
        ProgramBuilder builder = new ProgramBuilder();
        training.gradients().forEach((name, g) -> {
            Value kept = ofRank(builder, name, g, rank);
            Value summed = builder.gradient(name, g.type());
            builder.step(
                    Phase.UPDATE, name, new Accumulate(kept.type(), g.type()), List.of(kept, summed), List.of(kept));
        });
        return builder.build();
    }

    /** What stands for a parameter in the name of a rank's gradient. */
    static String ofRank(String parameter, int rank) {
        return parameter + "@rank" + rank;
    }
}
