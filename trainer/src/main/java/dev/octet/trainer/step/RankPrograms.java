package dev.octet.trainer.step;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.state.DecodeState;
import dev.octet.trainer.op.update.CodedRankAverage;
import dev.octet.trainer.op.update.RankAverage;
import dev.octet.trainer.op.update.UpdateOp;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a step on simulated ranks does besides training programs and the update: {@code collect} puts the gradients that a rank's micro-batches summed aside, {@code average} puts
 * the average of all ranks where the gradients were.
 *
 * <p>Ranks run one after the other, so each one's gradients are summed as a lone process sums them.
 *
 * @param collect a program for each rank
 * @param average the reduction
 * @param coded what is known of each tensor averaged in E4M3, by parameter
 */
record RankPrograms(List<Program> collect, Program average, Map<String, Coded> coded) {
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
        coded = Collections.unmodifiableMap(new LinkedHashMap<>(coded));
    }

    /**
     * The programs for gradients of {@code training}.
     *
     * @param matrices the parameters whose gradients are averaged in E4M3
     */
    static RankPrograms of(Program training, RankSettings settings, StateForms states, Set<String> matrices) {
        List<Program> collect = new ArrayList<>();
        for (int r = 0; r < settings.ranks(); r++) {
            collect.add(collect(training, states, r));
        }
        Map<String, Coded> coded = new LinkedHashMap<>();
        ProgramBuilder builder = new ProgramBuilder();
        training.gradients().forEach((name, g) -> {
            StateForm form = states.gradient(name, g.type().shape());
            if (matrices.contains(name) && CodedRankAverage.keeps(form)) {
                coded.put(name, averageCodes(builder, name, g, settings, form));
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
        return new RankPrograms(collect, builder.build(), coded);
    }

    private static Coded averageCodes(
            ProgramBuilder builder, String name, Value g, RankSettings settings, StateForm form) {
        OperandType tensor = form.isFloats() ? g.type() : g.type().as(DType.F32);
        List<Value> inputs = inputs(builder, name, g, settings.ranks());
        Value scale = builder.state(SCALE + name, UpdateOp.SCALAR, 1);
        Value preScale = builder.state(PRE_SCALE + name, UpdateOp.SCALAR, settings.firstPreScale());
        Value saturated = builder.state(SATURATED + name, UpdateOp.SCALAR, 0);
        inputs.addAll(List.of(scale, preScale));
        List<Value> outputs = new ArrayList<>(
                form.isFloats()
                        ? List.of(builder.gradient(name, tensor))
                        : builder.keptGradient(name, form, tensor));
        outputs.addAll(List.of(scale, preScale, saturated));
        CodedRankAverage op = new CodedRankAverage(tensor, form, settings.rule(), settings.automatic());
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
        return builder.gradient(name + "@rank" + rank, g.type().as(DType.F32));
    }

    private static Program collect(Program training, StateForms states, int rank) {
        ProgramBuilder builder = new ProgramBuilder();
        training.gradients().forEach((name, g) -> {
            Value kept = ofRank(builder, name, g, rank);
            StateForm form = states.gradient(name, g.type().shape());
            if (form.isFloats()) {
                Value summed = builder.gradient(name, g.type());
                builder.step(
                        Phase.UPDATE, name, new Accumulate(kept.type(), g.type()), List.of(kept, summed), List.of(kept));
            } else {
                List<Value> parts = builder.keptGradient(name, form, kept.type());
                DecodeState op = new DecodeState(form, kept.type(), DType.F32);
                builder.step(Phase.UPDATE, name, op, List.copyOf(parts), List.of(kept));
            }
        });
        return builder.build();
    }
}
