package dev.octet.trainer.config;

import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.optimizer.Optimizer.Variant;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The optimizer; maths and defaults are torch's.
 *
 * @param lr peak learning rate of the schedule
 * @param momentum SGD only
 * @param dampening SGD only: a new gradient enters the momentum with weight 1 - dampening
 * @param nesterov SGD only: Nesterov momentum; needs momentum and no dampening
 * @param beta1 decay of Adam's first moment
 * @param beta2 decay of Adam's second moment
 * @param eps added to the square root of Adam's second moment
 * @param noDecay parameters that match one of these patterns (anywhere in the name) get no weight decay
 * @param states how parameters and the optimizer's memory are kept between steps
 */
public record OptimizerConfig(
        Type type,
        double lr,
        double momentum,
        double dampening,
        boolean nesterov,
        double beta1,
        double beta2,
        double eps,
        double weightDecay,
        List<Pattern> noDecay,
        StatesConfig states) {
    /** Kinds of optimizer. */
    public enum Type {
        SGD,
        ADAM,
        ADAMW,
        /** AdamW whose updates are clipped tensor by tensor. */
        STABLEADAMW
    }

    private static final Map<String, Type> TYPES =
            Map.of("sgd", Type.SGD, "adam", Type.ADAM, "adamw", Type.ADAMW, "stableadamw", Type.STABLEADAMW);

    /** Largest number below 1: with a decay of 1 a moment would never forget. */
    private static final double BELOW_ONE = Math.nextDown(1.0);

    static OptimizerConfig read(Section s) {
        Type type = s.choice("type", TYPES, Type.ADAMW);
        double beta2 = (type == Type.STABLEADAMW ? Optimizer.Adam.STABLE_ADAMW : Optimizer.Adam.ADAMW).beta2();
        List<Double> betas = s.numbers("betas", List.of(0.9, beta2), 2, 0, BELOW_ONE);
        OptimizerConfig optimizer = new OptimizerConfig(
                type,
                s.number("lr", 1e-3, 0, Double.MAX_VALUE),
                s.number("momentum", 0, 0, BELOW_ONE),
                s.number("dampening", 0, 0, 1),
                s.flag("nesterov", false),
                betas.getFirst(),
                betas.getLast(),
                s.number("eps", 1e-8, 0, Double.MAX_VALUE),
                s.number(
                        "weight_decay", type == Type.ADAMW || type == Type.STABLEADAMW ? 0.01 : 0, 0, Double.MAX_VALUE),
                s.patterns("no_decay"),
                s.has("states") ? s.section("states").read(StatesConfig::read) : StatesConfig.F32);
        requireEngine(s, type, optimizer.states);
        for (String key : type == Type.SGD ? List.of("betas", "eps") : List.of("momentum", "dampening", "nesterov")) {
            if (s.has(key)) {
                throw s.error(
                        key,
                        type.name().toLowerCase(Locale.ROOT) + " has no " + key,
                        "leave the key out, or choose another type");
            }
        }
        if (optimizer.nesterov && (optimizer.momentum == 0 || optimizer.dampening != 0)) {
            throw s.error(
                    "nesterov",
                    "Nesterov momentum needs momentum and no dampening, but they are " + optimizer.momentum + " and "
                            + optimizer.dampening,
                    "add momentum: 0.9 and leave dampening out, or leave nesterov out");
        }
        return optimizer;
    }

    /**
     * This optimizer with the states of MS-AMP's levels.
     *
     * @param run the whole configuration, for messages
     */
    OptimizerConfig withMsamp(MsampPolicy policy, Section run) {
        Section s = run.section("optimizer");
        if (s.has("states")) {
            throw s.error(
                    "states",
                    "precision.mode: msamp says itself how states are kept",
                    "leave the key out, or choose precision: {mode: fp8}");
        }
        if (type != Type.ADAM && type != Type.ADAMW) {
            throw s.error(
                    "type",
                    "MS-AMP has Adam and AdamW, not " + type.name().toLowerCase(Locale.ROOT),
                    "use type: adamw, or another precision.mode");
        }
        StatesConfig.Level level =
                policy.level() == MsampPolicy.Level.O1 ? StatesConfig.Level.O1 : StatesConfig.Level.O2;
        return new OptimizerConfig(
                type,
                lr,
                momentum,
                dampening,
                nesterov,
                beta1,
                beta2,
                eps,
                weightDecay,
                noDecay,
                new StatesConfig(
                        new StatesConfig.Engine.Msamp(level, StatesConfig.Masters.FP16, policy.isOriginal()), false));
    }

    /** Rejects an engine whose library lacks the optimizer. */
    private static void requireEngine(Section s, Type type, StatesConfig states) {
        String library = switch (states.engine()) {
            case StatesConfig.Engine.Msamp _ -> "MS-AMP has Adam and AdamW";
            case StatesConfig.Engine.Te _ -> "Transformer Engine's FusedAdam is Adam and AdamW";
            case StatesConfig.Engine.Fp32 _, StatesConfig.Engine.Torchao _, StatesConfig.Engine.Bf16 _ -> "";
        };
        if (!library.isEmpty() && type != Type.ADAM && type != Type.ADAMW) {
            throw s.section("states")
                    .error(
                            "engine",
                            library + ", not " + type.name().toLowerCase(Locale.ROOT),
                            "use engine: torchao or bf16, or type: adamw");
        }
    }

    /** Whether it is Adam or AdamW, which the libraries have, each with its own order of roundings. */
    static boolean isAdam(Optimizer optimizer) {
        return optimizer instanceof Optimizer.Adam a && a.variant() != Variant.STABLE_ADAMW;
    }

    /** The optimizer with these hyperparameters. */
    public Optimizer optimizer() {
        return switch (type) {
            case SGD -> new Optimizer.Sgd(momentum, dampening, weightDecay, nesterov);
            case ADAM -> adam(Variant.ADAM);
            case ADAMW -> adam(Variant.ADAMW);
            case STABLEADAMW -> adam(Variant.STABLE_ADAMW);
        };
    }

    private Optimizer adam(Variant variant) {
        return new Optimizer.Adam(beta1, beta2, eps, weightDecay, variant);
    }
}
