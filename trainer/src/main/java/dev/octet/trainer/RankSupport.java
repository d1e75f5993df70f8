package dev.octet.trainer;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.PrecisionPolicy;

/** What several ranks cannot do together yet: a run that asks for it is refused before it starts. */
final class RankSupport {
    private RankSupport() {}

    /** @throws InvalidOptionException with the first key that asks for it */
    static void require(TrainingConfig config, Device device, Collectives world) {
        if (world.isAlone()) {
            return;
        }
        int ranks = config.precision().ranks().ranks();
        if (ranks != world.size()) {
            throw refused(
                    world,
                    "precision.ranks: " + ranks,
                    "the run has " + world.size() + " processes, and each is one rank",
                    "set precision: {ranks: " + world.size() + "}");
        }
        PrecisionPolicy policy = config.precision().policy();
        if (config.precision().qat().isPresent()
                || !(policy instanceof Autocast || policy.equals(PrecisionPolicy.FP32))) {
            throw refused(
                    world,
                    "precision.mode: " + config.precision().mode(),
                    "its scales follow from the micro-batches of one process, and ranks do not share them yet",
                    "choose fp32, bf16, fp16 or O0 to O3; or leave the launcher out: with precision.ranks one process"
                            + " plays all ranks");
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
        if (!device.name().equals("cpu")) {
            throw refused(
                    world,
                    "device " + device.name(),
                    "ranks exchange gradients in the memory of the host, on the CPU alone so far",
                    "leave --device out, or the launcher");
        }
    }

    private static InvalidOptionException refused(Collectives world, String where, String what, String fix) {
        return new InvalidOptionException(what, where + "; " + world.name(), fix);
    }
}
