package dev.octet.pipeline.plan;

import dev.octet.trainer.collective.Mesh;
import org.jspecify.annotations.Nullable;

/**
 * Bytes and seconds of a way to train, by formulas. Seconds rest on shares of what data sheets promise; they are the same for all accelerators, and chosen so that published
 * step times of GPT-3 and Llama 3 come out within 20 %.
 */
public final class Estimate {
    /** Large products reach this share of the peak. */
    public static final double PRODUCTS = 0.68;

    /** Attention reaches this share. */
    public static final double ATTENTION = 0.45;

    /** Operators that only read and write reach this share of the memory's rate. */
    public static final double MEMORY = 0.7;

    /** Exchanges reach this share of a link's rate. */
    public static final double LINK = 0.7;

    /** What runs need besides: contexts, libraries, buffers of exchanges, gaps. This share of the memory is left for the plan. */
    public static final double USABLE = 0.92;

    /** Backward takes so many times forward's operations in attention that keeps no scores: five products for two. */
    private static final double ATTENTION_BACKWARD = 2.5;

    private final Workload model;
    private final PlannedStep work;
    private final Hardware hardware;

    /** Of a model's step on some hardware. */
    public Estimate(Workload model, PlannedStep work, Hardware hardware) {
        this.model = model;
        this.work = work;
        this.hardware = hardware;
    }

    /** Bytes of an accelerator that a plan may use. */
    public static long usable(Accelerator accelerator) {
        return (long) (USABLE * accelerator.memory());
    }

    /** What a way to train comes to; of a mesh that nothing speaks against, and that divides the samples. */
    public Choice of(Mesh mesh, int microBatch, boolean recompute) {
        long count = work.samples() / mesh.data() / microBatch;
        @Nullable DeviceBytes most = null;
        @Nullable StageLoad busiest = null;
        double longest = -1;
        for (int stage = 0; stage < mesh.pipeline(); stage += Math.max(1, mesh.pipeline() - 1)) {
            StageLoad load = model.stage(mesh, stage, microBatch, work);
            DeviceBytes bytes = bytes(mesh, stage, load, count, recompute);
            most = most == null || bytes.total() > most.total() ? bytes : most;
            double seconds = forward(load) + backward(load);
            if (seconds > longest) {
                longest = seconds;
                busiest = load;
            }
        }
        if (most == null || busiest == null) {
            throw new IllegalStateException("a mesh without stages");
        }
        Traffic traffic = traffic(mesh, busiest, most, count, recompute);
        return new Choice(
                mesh,
                microBatch,
                count,
                recompute,
                most,
                time(mesh, busiest, most, new Run(count, recompute), traffic),
                traffic);
    }

    private record Run(long count, boolean recompute) {}

    /** Bytes of an accelerator of one stage, which need not be the fullest. */
    DeviceBytes bytes(Mesh mesh, int stage, int microBatch, boolean recompute) {
        long count = work.samples() / mesh.data() / microBatch;
        return bytes(mesh, stage, model.stage(mesh, stage, microBatch, work), count, recompute);
    }

    /** Micro-batches whose activations a stage keeps at once: Megatron's warm-up and the one that is computed. */
    static double underWay(Mesh mesh, int stage, long count) {
        int p = mesh.pipeline();
        if (mesh.chunks() == 1) {
            return Math.min(count, p - stage);
        }
        double chunks = 2.0 * (p - stage - 1) + (mesh.chunks() - 1.0) * p + 1;
        return Math.min((double) count, chunks / mesh.chunks());
    }

    private DeviceBytes bytes(Mesh mesh, int stage, StageLoad load, long count, boolean recompute) {
        ParameterBytes each = work.bytes();
        double d = mesh.data();
        double p = load.parameters();
        double weights = p * each.weights() / (mesh.zero() >= 3 ? d : 1);
        double gathered = mesh.zero() >= 3 && mesh.data() > 1 ? 2 * load.layerParameters() * each.weights() : 0;
        double kept = underWay(mesh, stage, count) * (recompute ? load.inputs() : load.kept());
        double again = recompute ? load.layer() : 0;
        return new DeviceBytes(
                (long) p,
                (long) weights,
                (long) (p * each.masters() / (mesh.zero() >= 1 ? d : 1)),
                (long) (p * each.gradients() / (dealsOut(mesh) ? d : 1)),
                (long) (p * each.moments() / (mesh.zero() >= 1 ? d : 1)),
                (long) (kept + again + load.once()),
                (long) gathered);
    }

    /** Whether gradients of each micro-batch go to their owners at once; in a stage those of all add up on each rank first. */
    private static boolean dealsOut(Mesh mesh) {
        return mesh.zero() >= 2 && mesh.pipeline() == 1;
    }

    private Traffic traffic(Mesh mesh, StageLoad load, DeviceBytes bytes, long count, boolean recompute) {
        double gradients =
                Traffic.ring(mesh.data(), bytes.parameters() * work.bytes().gradients());
        double weights =
                Traffic.ring(mesh.data(), bytes.parameters() * work.bytes().weights());
        double exchanges = dealsOut(mesh) ? count : 1;
        double data = switch (mesh.zero()) {
            case 0 -> 2 * gradients;
            case 1 -> gradients + weights;
            case 2 -> exchanges * gradients + weights;
            default -> exchanges * gradients + count * 2 * weights;
        };
        double tensor = load.sent() * count * (recompute ? 3 : 2);
        double pipeline = mesh.pipeline() == 1 ? 0 : 2.0 * mesh.chunks() * load.passed() * count;
        return new Traffic(data, tensor, pipeline);
    }

    private double forward(StageLoad load) {
        Accelerator a = hardware.accelerator();
        return load.linear() / (PRODUCTS * a.peak(work.type()))
                + load.head() / (PRODUCTS * a.bf16())
                + load.attention() / 2 / (ATTENTION * a.bf16()) // half of the scores are ahead of their token
                + load.touched() / (MEMORY * a.bandwidth());
    }

    private double backward(StageLoad load) {
        Accelerator a = hardware.accelerator();
        return 2 * load.linear() / (PRODUCTS * a.peak(work.type()))
                + 2 * load.head() / (PRODUCTS * a.bf16())
                + ATTENTION_BACKWARD * load.attention() / 2 / (ATTENTION * a.bf16())
                + 2 * load.touched() / (MEMORY * a.bandwidth());
    }

    private StepTime time(Mesh mesh, StageLoad load, DeviceBytes bytes, Run run, Traffic traffic) {
        Accelerator a = hardware.accelerator();
        double headless = forward(load) - load.head() / (PRODUCTS * a.bf16());
        double back = backward(load) + (run.recompute() ? headless : 0);
        double micro = forward(load) + back;
        double tensor = traffic.tensor() / (LINK * hardware.rate(mesh.tensor()));
        double passing = traffic.pipeline() / (LINK * hardware.rate(mesh.size()));
        double idle = (mesh.pipeline() - 1.0) / mesh.chunks();
        double bubble = idle * (micro + (tensor + passing) / run.count());
        double exchange = traffic.data() / (LINK * hardware.rate(mesh.tensor() * mesh.data()));
        // gradients of all micro-batches but the last are summed first, unless each one's are dealt out
        double window = mesh.zero() >= 3 || dealsOut(mesh)
                ? micro * run.count()
                : back + (mesh.zero() >= 1 ? forward(load) : 0);
        double exposed = Math.max(0, exchange - window);
        double update = (2.0 * (bytes.masters() + bytes.moments()) + bytes.gradients() + bytes.weights())
                / (MEMORY * a.bandwidth());
        return new StepTime(micro * run.count(), tensor, passing, bubble, exposed, update);
    }

    /** Part of the peak of BF16 products that a step's own operations are of what all accelerators could do in its time. */
    public double utilisation(StepTime time) {
        return model.flops(work)
                / time.total()
                / hardware.count()
                / hardware.accelerator().bf16();
    }
}
