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
        if (mesh.pipeline() > 1) {
            requireStaged(config, device, world, mesh);
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
    private static void requireStaged(TrainingConfig config, Device device, Collectives world, Mesh mesh) {
        String own = "distributed.pipeline: " + mesh.pipeline();
        int microBatches = config.gradientAccumulation() / mesh.data();
        if (mesh.chunks() > 1 && microBatches % mesh.pipeline() != 0) {
            throw refused(
                    world,
                    "distributed.chunks: " + mesh.chunks() + ", gradient_accumulation: " + config.gradientAccumulation(),
                    microBatches + " micro-batches of a step go through " + mesh.pipeline()
                            + " stages in groups of as many, where stages have chunks",
                    "set gradient_accumulation to a multiple of " + mesh.pipeline() * mesh.data()
                            + ", or leave chunks out");
        }
        if (config.distributed().zero().cutsGradients()) {
            throw refused(
                    world,
                    "distributed.zero: " + config.distributed().zero().number() + ", " + own,
                    "a stage adds up gradients of micro-batches that others have not begun",
                    "set zero: 1, or leave pipeline out");
        }
        if (config.precision().msamp().isPresent()) {
            throw refused(world, "precision.mode: msamp; " + own, "windows of MS-AMP move on one rank", "use mode: fp8");
        }
        if (config.precision().qat().isPresent()) {
            throw refused(
                    world,
                    "precision.mode: qat; " + own,
                    "where learned scales start is computed with all weights on one rank",
                    "leave pipeline out");
        }
        if (config.adapter().isPresent()) {
            throw refused(
                    world, "adapter; " + own, "the file of an adapter is written by one rank", "leave pipeline out");
        }
        if (config.precision().ranks().isOn()
                && config.precision().ranks().reduction() != GradientReduction.F32) {
            throw refused(
                    world,
                    "precision.gradient_reduction: " + config.precision().ranks().reduction().text() + "; " + own,
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

    private static InvalidOptionException refused(Collectives world, String where, String what, String fix) {
        return new InvalidOptionException(what, where + "; " + world.name(), fix);
    }
}
