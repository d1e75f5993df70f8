package dev.octet.trainer;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.shard.ZeroStage;

/** What several ranks cannot do together yet: a run that asks for it is refused before it starts. */
final class RankSupport {
    private RankSupport() {}

    /** @throws InvalidOptionException with the first key that asks for it */
    static void require(TrainingConfig config, Device device, Collectives world) {
        int ranks = config.precision().ranks().ranks();
        if (config.distributed().tensor() > 1) {
            throw refused(
                    world,
                    "distributed.tensor: " + config.distributed().tensor(),
                    "layers are not shared among ranks yet",
                    "leave tensor out");
        }
        if (config.distributed().pipeline() > 1) {
            throw refused(
                    world,
                    "distributed.pipeline: " + config.distributed().pipeline(),
                    "layers are not dealt out to stages yet",
                    "leave pipeline out");
        }
        Mesh mesh = config.distributed().mesh(world.size());
        if (world.isAlone()) {
            if (ranks > 1 && config.precision().ranks().reduction() == GradientReduction.NCCL) {
                throw new InvalidOptionException(
                        "NCCL joins processes, and this one plays all " + ranks + " ranks",
                        "precision.gradient_reduction: nccl",
                        "start it with mpirun -n " + ranks + ", or use gradient_reduction: f32");
            }
            return;
        }
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
        if (config.guard().isOn()) {
            throw refused(world, "guard", "a guard judges what one process sees", "leave guard out");
        }
        if (!config.debug().equals(DebugSettings.NONE)) {
            throw refused(world, "debug", "it reads the tensors of one process", "leave debug out");
        }
        if (config.offload().isOn()) {
            throw refused(
                    world, "offload", "offloaded values are not exchanged between ranks yet", "leave offload out");
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

    private static InvalidOptionException refused(Collectives world, String where, String what, String fix) {
        return new InvalidOptionException(what, where + "; " + world.name(), fix);
    }
}
