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
import dev.octet.trainer.reduction.RankSettings;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * What a step on simulated ranks does besides training programs and the update: {@code collect} adds the gradients of a micro-batch to those of its rank, {@code average} puts
 * the average of all ranks where the gradients were.
 *
 * @param collect a program for each rank
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
    record Coded(Value preScale, Value saturated, long elements) {}

    RankPrograms {
        collect = List.copyOf(collect);
        parameters = new TreeSet<>(parameters);
        coded = Collections.unmodifiableMap(new LinkedHashMap<>(coded));
    }

    /**
     * The programs for gradients of {@code training}.
     *
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
                List<Value> inputs = inputs(builder, name, g, settings.ranks());
                builder.step(
                        Phase.UPDATE,
                        name,
                        new RankAverage(g.type(), settings.ranks()),
                        inputs,
                        List.of(builder.gradient(name, g.type())));
            }
        });
        return new RankPrograms(collect, builder.build(), training.gradients().keySet(), coded);
    }

    private static Coded averageCodes(ProgramBuilder builder, String name, Value g, RankSettings settings) {
        OperandType tensor = g.type();
        List<Value> inputs = inputs(builder, name, g, settings.ranks());
        Value scale = builder.state(SCALE + name, UpdateOp.SCALAR, 1);
        Value preScale = builder.state(PRE_SCALE + name, UpdateOp.SCALAR, settings.firstPreScale());
        Value saturated = builder.state(SATURATED + name, UpdateOp.SCALAR, 0);
        inputs.addAll(List.of(scale, preScale));
        List<Value> outputs = List.of(builder.gradient(name, tensor), scale, preScale, saturated);
        CodedRankAverage op = new CodedRankAverage(tensor, settings.rule(), settings.automatic());
        builder.step(Phase.UPDATE, name, op, List.copyOf(inputs), outputs);
        return new Coded(preScale, saturated, tensor.count());
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
