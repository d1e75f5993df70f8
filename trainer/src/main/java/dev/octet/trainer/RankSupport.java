package dev.octet.trainer;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.config.StatesConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.reduction.GradientReduction;

/** What several ranks cannot do together yet: a run that asks for it is refused before it starts. */
final class RankSupport {
    private RankSupport() {}

    /** @throws InvalidOptionException with the first key that asks for it */
    static void require(TrainingConfig config, Device device, Collectives world) {
        int ranks = config.precision().ranks().ranks();
        requireShareable(config, world);
        requireStageable(config, world);
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
                && config.precision().ranks().isOn()
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
        if (device.name().equals("reference")) {
            throw refused(
                    world,
                    "device " + device.name(),
                    "it computes in F64 for comparisons, on one process",
                    "leave --device out, or the launcher");
        }
    }

    /** What the stages of a pipeline cannot do yet. */
    private static void requireStageable(TrainingConfig config, Collectives world) {
        int stages = config.distributed().pipeline();
        if (stages == 1) {
            return;
        }
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
        if (chunks > 1
                && config.precision().ranks().isOn()
                && config.precision().ranks().reduction().isCoded()) {
            throw refused(
                    world,
                    "distributed.chunks: " + chunks + ", precision.gradient_reduction: "
                            + config.precision().ranks().reduction().text(),
                    "codes are rounded after each micro-batch, and chunks of a stage compute theirs at different times",
                    "leave chunks out, or set gradient_reduction: f32");
        }
    }

    /** What ranks that share layers cannot do yet. */
    private static void requireShareable(TrainingConfig config, Collectives world) {
        int ranks = config.distributed().tensor();
        if (ranks == 1) {
            return;
        }
        String tensor = "distributed.tensor: " + ranks;
        if (config.optimizer().states().engine() instanceof StatesConfig.Engine.Torchao ao
                && ao.format() == StatesConfig.Format.INT4) {
            throw refused(
                    world,
                    "optimizer: {states: {engine: torchao, format: int4}}, " + tensor,
                    "two of its codes share a byte, and ranks may have one of them each",
                    "choose format: int8 or fp8, or leave states out");
        }
    }

    private static InvalidOptionException refused(Collectives world, String where, String what, String fix) {
        return new InvalidOptionException(what, where + "; " + world.name(), fix);
    }
}
