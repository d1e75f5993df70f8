package dev.octet.trainer;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.activation.Recompute;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.config.StatesConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.shard.ZeroStage;
import java.util.Locale;

/** What several ranks cannot do together yet: a run that asks for it is refused before it starts. */
final class RankSupport {
    private RankSupport() {}

    /** @throws InvalidOptionException with the first key that asks for it */
    static void require(TrainingConfig config, Device device, Collectives world) {
        int ranks = config.precision().ranks().ranks();
        requireShareable(config, device, world);
        requireStageable(config, device, world);
        if (world.isAlone()) {
            if (ranks > 1 && config.precision().ranks().reduction() == GradientReduction.NCCL) {
                throw new InvalidOptionException(
                        "NCCL joins processes, and this one plays all " + ranks + " ranks",
                        "precision.gradient_reduction: nccl",
                        "start it with mpirun -n " + ranks + ", or use gradient_reduction: f32");
            }
            return;
        }
        Mesh mesh = config.distributed().mesh(world.size());
        if (ranks != mesh.data()) {
            throw refused(
                    world,
                    "precision.ranks: " + ranks,
                    "the run has " + world.size() + " processes, which are " + mesh.text() + " ranks",
                    "set precision: {ranks: " + mesh.data() + "}");
        }
        if (config.distributed().zero().cutsGradients()
                && config.precision().ranks().reduction().isCoded()) {
            throw refused(
                    world,
                    "precision.gradient_reduction: "
                            + config.precision().ranks().reduction().text(),
                    "codes are averaged on every rank, and with distributed.zero: "
                            + config.distributed().zero().number() + " no rank has all gradients",
                    "choose gradient_reduction: f32, or zero: 1");
        }
        if (config.distributed().zero().cutsGradients()
                && config.precision().ranks().reduction() == GradientReduction.NCCL) {
            throw refused(
                    world,
                    "precision.gradient_reduction: nccl",
                    "NCCL averages gradients on every rank, and with distributed.zero: "
                            + config.distributed().zero().number() + " no rank has all",
                    "choose gradient_reduction: f32, or zero: 1");
        }
        if (config.distributed().zero() != ZeroStage.NONE && device.name().startsWith("cuda")) {
            throw refused(
                    world,
                    "distributed.zero: " + config.distributed().zero().number() + ", device " + device.name(),
                    "what ranks share out passes through the memory of processors so far",
                    "leave zero out, or --device");
        }
        if (device.name().equals("reference")) {
            throw refused(
                    world,
                    "device " + device.name(),
                    "it computes in F64 for comparisons, on one process",
                    "leave --device out, or the launcher");
        }
    }

    /** What the stages of a pipeline cannot do yet. */
    private static void requireStageable(TrainingConfig config, Device device, Collectives world) {
        int stages = config.distributed().pipeline();
        if (stages == 1) {
            return;
        }
        String own = "distributed.pipeline: " + stages;
        int chunks = config.distributed().chunks();
        int data =
                Math.max(config.distributed().data(), config.precision().ranks().ranks());
        int microBatches = config.gradientAccumulation() / data;
        if (chunks > 1 && microBatches % stages != 0) {
            throw refused(
                    world,
                    "distributed.chunks: " + chunks + ", gradient_accumulation: " + config.gradientAccumulation(),
                    microBatches + " micro-batches of a step go through " + stages
                            + " stages in groups of as many, where stages have chunks",
                    "set gradient_accumulation to a multiple of " + stages * data + ", or leave chunks out");
        }
        if (config.distributed().zero().cutsGradients()) {
            throw refused(
                    world,
                    "distributed.zero: " + config.distributed().zero().number() + ", " + own,
                    "a stage adds up gradients of micro-batches that others have not begun",
                    "set zero: 1, or leave pipeline out");
        }
        if (config.precision().msamp().isPresent()) {
            throw refused(
                    world, "precision.mode: msamp; " + own, "windows of MS-AMP move on one rank", "use mode: fp8");
        }
        if (config.precision().ranks().isOn() && config.precision().ranks().reduction() != GradientReduction.F32) {
            throw refused(
                    world,
                    "precision.gradient_reduction: "
                            + config.precision().ranks().reduction().text() + "; " + own,
                    "gradients of stages are averaged in F32 alone",
                    "set gradient_reduction: f32, or leave it out");
        }
        if (device.name().startsWith("cuda")) {
            throw refused(
                    world,
                    own + ", device " + device.name(),
                    "what passes between stages passes through the memory of processors so far",
                    "leave pipeline out, or --device");
        }
    }

    /** What ranks that share layers cannot do yet. */
    private static void requireShareable(TrainingConfig config, Device device, Collectives world) {
        int ranks = config.distributed().tensor();
        if (ranks == 1) {
            return;
        }
        String tensor = "distributed.tensor: " + ranks;
        if (config.precision().qat().isPresent()) {
            throw refused(
                    world,
                    "precision.mode: qat, " + tensor,
                    "learned scales are those of whole layers",
                    "leave tensor out, or choose another mode");
        }
        if (config.precision().msamp().isPresent()) {
            throw refused(
                    world,
                    "precision.mode: msamp, " + tensor,
                    "MS-AMP's weights have one scale for the whole tensor",
                    "leave tensor out, or choose mode: fp8");
        }
        if (config.precision().ranks().isOn() && config.precision().ranks().reduction() != GradientReduction.F32) {
            throw refused(
                    world,
                    "precision.gradient_reduction: "
                            + config.precision().ranks().reduction().text() + ", " + tensor,
                    "gradients of parts of weights are averaged in F32 alone",
                    "choose gradient_reduction: f32");
        }
        if (!config.optimizer().states().equals(StatesConfig.F32)) {
            throw refused(
                    world,
                    "optimizer.states, " + tensor,
                    "states in few bits are those of whole tensors",
                    "leave states out");
        }
        Optimizer optimizer = config.optimizer().optimizer();
        if (!isElementwise(optimizer)) {
            throw refused(
                    world,
                    "optimizer: {type: " + optimizer.title().toLowerCase(Locale.ROOT) + "}, " + tensor,
                    "it needs whole matrices, and each rank has a part of them",
                    "choose an optimizer that updates each element by itself: sgd, adam, adamw, lion, adagrad");
        }
        if (config.activations().recompute() instanceof Recompute.Budget) {
            throw refused(
                    world,
                    "gradient_checkpointing: {budget: ...}, " + tensor,
                    "ranks that have different amounts would compute different steps again",
                    "name layers instead: gradient_checkpointing: {layers: all}");
        }
        if (device.name().startsWith("cuda")) {
            throw refused(
                    world,
                    tensor + ", device " + device.name(),
                    "what ranks exchange between layers passes through the memory of processors so far",
                    "leave tensor out, or --device");
        }
    }

    /** Whether an update of an element follows from that element, its gradient and its moments. */
    private static boolean isElementwise(Optimizer optimizer) {
        return switch (optimizer) {
            case Optimizer.Adam a -> a.variant() != Optimizer.Adam.Variant.STABLE_ADAMW;
            case Optimizer.Cycled c -> isElementwise(c.adam());
            case Optimizer.Scaled s -> isElementwise(s.adam());
            case Optimizer.Sgd _, Optimizer.Lion _, Optimizer.Adagrad _ -> true;
            case Optimizer.Lamb _, Optimizer.Adafactor _, Optimizer.Muon _ -> false;
        };
    }

    private static InvalidOptionException refused(Collectives world, String where, String what, String fix) {
        return new InvalidOptionException(what, where + "; " + world.name(), fix);
    }
}
