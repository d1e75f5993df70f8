package dev.octet.trainer.device.cuda;

import static dev.octet.trainer.device.cuda.CudnnAttribute.*;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.device.cuda.CudnnAttention.Slot;
import dev.octet.trainer.device.cuda.CudnnAttribute.Kind;
import dev.octet.trainer.kernel.CudaAttention;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * cuDNN's plans for attention, one for each shape: the first of its proposals that it carries out, and whose results are the same every time. What it refuses is
 * remembered as well, and told once.
 */
final class AttentionPlans implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(AttentionPlans.class.getName());

    /** The capability on which gradients without sums in any order are one of the library's ways; Blackwell has others. */
    private static final int HOPPER = 90;

    /** {@code CUDNN_HEUR_MODE_A}, and the fall-back where that has nothing. */
    private static final int[] MODES = {3, 2};

    private final Cudnn cudnn;
    private final Target target;
    private final int capability;
    private final Map<CudaAttention, Answer> answers = new HashMap<>();

    /** For which GPU plans are. */
    sealed interface Target {
        /** The one of a handle. */
        record Handle(long handle) implements Target {}

        /** One that is not there, by a finished descriptor of its properties. */
        record Properties(long descriptor) implements Target {}
    }

    /** A plan, or why there is none. */
    sealed interface Answer {}

    /** Why the library does not compute a shape. */
    record Refusal(String reason) implements Answer {}

    /**
     * What the library does for a shape.
     *
     * @param plan its descriptor
     * @param engine the number of what computes it
     * @param bytes of workspace, and of what {@link Slot#DOTS} needs behind it
     */
    record Plan(CudnnAttention attention, List<Long> descriptors, long plan, long engine, long bytes, long dots)
            implements Answer {
        /** Bytes that it needs together. */
        long all() {
            return dots == 0 ? bytes : bytes + CudaMemory.aligned(dots);
        }
    }

    /** @param capability of the GPU, as {@link GpuInfo#capability} */
    AttentionPlans(Cudnn cudnn, Target target, int capability) {
        this.cudnn = cudnn;
        this.target = target;
        this.capability = capability;
    }

    /** The answer for a shape. */
    Answer of(CudaAttention attention) {
        if (!attention.isAligned()) {
            return new Refusal("rows are not multiples of " + CudaAttention.ALIGNMENT + " bytes");
        }
        if (attention.isBackward() && capability != HOPPER) {
            return new Refusal("gradients in the same bits every time are known of compute capability 9.0 alone");
        }
        return answers.computeIfAbsent(attention.plan(), shape -> {
            Answer answer = ask(shape);
            switch (answer) {
                case Refusal r ->
                    LOG.log(
                            System.Logger.Level.INFO,
                            "cuDNN {0} does not compute {1}, Octet''s own kernel does: {2}",
                            cudnn.versionText(),
                            shape.name(),
                            r.reason());
                case Plan p ->
                    LOG.log(
                            System.Logger.Level.DEBUG,
                            "{0}: engine {1} of cuDNN {2}, workspace of {3} bytes",
                            shape.name(),
                            p.engine(),
                            cudnn.versionText(),
                            p.bytes());
            }
            return answer;
        });
    }

    /** Bytes of workspace for an attention; empty when the library does not compute it. */
    OptionalLong workspaceBytes(CudaAttention attention) {
        return of(attention) instanceof Plan p ? OptionalLong.of(p.all()) : OptionalLong.empty();
    }

    private Answer ask(CudaAttention shape) {
        CudnnAttention attention;
        try {
            attention = new CudnnAttention(cudnn, shape);
        } catch (UnavailableException e) {
            return new Refusal(e.what());
        }
        List<Long> made = new ArrayList<>();
        try {
            long graph = attention.graph().finish(target instanceof Target.Handle h ? h.handle() : 0);
            String reason = "it proposes nothing";
            for (int mode : MODES) {
                for (long config : proposals(graph, mode, made)) {
                    try {
                        Plan plan = plan(shape, attention, config, made);
                        if (plan != null) {
                            return plan;
                        }
                        reason = "what it proposes gives other bits each time";
                    } catch (UnavailableException e) {
                        reason = e.what();
                    }
                }
            }
            free(made);
            attention.close();
            return new Refusal(reason);
        } catch (UnavailableException e) {
            free(made);
            attention.close();
            return new Refusal(e.what());
        }
    }

    /** The library's proposals for a graph, the fastest by its estimate first. */
    private long[] proposals(long graph, int mode, List<Long> made) {
        try {
            long heuristic = descriptor(Kind.ENGINE_HEURISTIC, made);
            cudnn.set(heuristic, ENGINEHEUR_OPERATION_GRAPH, graph);
            cudnn.set(heuristic, ENGINEHEUR_MODE, mode);
            if (target instanceof Target.Properties p) {
                cudnn.set(heuristic, ENGINEHEUR_DEVICEPROP, p.descriptor());
            }
            cudnn.finish(heuristic, "proposals");
            long[] configs = new long[cudnn.count(heuristic, ENGINEHEUR_RESULTS)];
            for (int i = 0; i < configs.length; i++) {
                configs[i] = descriptor(Kind.ENGINE_CONFIG, made);
            }
            return configs.length == 0 ? configs : cudnn.get(heuristic, ENGINEHEUR_RESULTS, configs);
        } catch (UnavailableException e) {
            LOG.log(System.Logger.Level.DEBUG, "no proposals of mode {0}: {1}", mode, e.what());
            return new long[0];
        }
    }

    /** The plan of a proposal; null where its results may have other bits each time. */
    private @Nullable Plan plan(CudaAttention shape, CudnnAttention attention, long config, List<Long> made) {
        long engine = cudnn.get(config, ENGINECFG_ENGINE, descriptor(Kind.ENGINE, made))[0];
        long[] notes = cudnn.get(engine, ENGINE_NUMERICAL_NOTE, new long[MOST_NOTES]);
        if (Arrays.stream(notes).anyMatch(n -> n == NONDETERMINISTIC)) {
            return null;
        }
        long plan = descriptor(Kind.EXECUTION_PLAN, made);
        cudnn.set(plan, EXECUTION_PLAN_ENGINE_CONFIG, config);
        cudnn.finish(plan, "a plan");
        long bytes = CudaMemory.aligned(cudnn.get(plan, EXECUTION_PLAN_WORKSPACE_SIZE, 0)[0]);
        long dots = shape.isBackward() ? Float.BYTES * shape.rows() : 0;
        return new Plan(attention, made, plan, cudnn.get(engine, ENGINE_GLOBAL_INDEX, 0)[0], bytes, dots);
    }

    private long descriptor(Kind kind, List<Long> made) {
        long d = cudnn.create(kind);
        made.add(d);
        return d;
    }

    private void free(List<Long> made) {
        for (int i = made.size() - 1; i >= 0; i--) {
            cudnn.free(made.get(i));
        }
    }

    /**
     * Work for an attention.
     *
     * @param workspace of as many bytes as its plan says
     * @param enter makes the GPU current
     * @throws UnavailableException when there is no plan for it
     */
    AttentionWork work(CudaAttention attention, long workspace, Runnable enter) {
        if (!(target instanceof Target.Handle(long handle))) {
            throw new IllegalStateException("plans for a GPU that is not there are not carried out");
        }
        return switch (of(attention)) {
            case Plan p -> new AttentionWork(cudnn, handle, p, attention, workspace, enter);
            case Refusal r ->
                throw new UnavailableException(
                        "cuDNN does not compute " + attention.name() + ": " + r.reason(),
                        cudnn.path() + ", version " + cudnn.versionText(),
                        "leave octet.cuda.attention at its default, and report it");
        };
    }

    @Override
    public void close() {
        for (Answer answer : answers.values()) {
            if (answer instanceof Plan p) {
                free(p.descriptors());
                p.attention().close();
            }
        }
        answers.clear();
    }
}
