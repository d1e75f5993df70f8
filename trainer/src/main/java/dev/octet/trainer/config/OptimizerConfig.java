package dev.octet.trainer.config;

import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.optimizer.Optimizer.Variant;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.AdagradRule;
import dev.octet.trainer.rule.LambRule;
import dev.octet.trainer.rule.MuonRule;
import dev.octet.trainer.rule.UpdateRule;
import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The optimizer; maths and defaults are those of the library that its type names, torch where none is named.
 *
 * @param lr peak learning rate of the schedule
 * @param momentum SGD and Muon only
 * @param dampening SGD only: a new gradient enters the momentum with weight 1 - dampening
 * @param nesterov SGD and Muon only: Nesterov momentum; with SGD it needs momentum and no dampening
 * @param beta1 decay of the first moment
 * @param beta2 decay of the second moment, Lion's second beta
 * @param eps added to the square root of the second moment; Muon's least norm
 * @param noDecay parameters that match one of these patterns (anywhere in the name) get no weight decay
 * @param states how parameters and the optimizer's memory are kept between steps
 * @param rule what only Adagrad, LAMB, Adafactor and Muon have
 * @param others Muon only: which parameters are its own, and what the rest is updated by
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
        StatesConfig states,
        Optional<UpdateRule> rule,
        Optional<MuonOthers> others) {
    /** Kinds of optimizer. */
    public enum Type {
        SGD,
        ADAM,
        ADAMW,
        /** AdamW whose updates are clipped tensor by tensor. */
        STABLEADAMW,
        ADAGRAD,
        LION,
        /** AdamW with a learning rate for each tensor. */
        LAMB,
        ADAFACTOR,
        /** Muon for hidden matrices, AdamW for the rest. */
        MUON;

        String key() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /**
     * What a run with Muon does with parameters that are not its own.
     *
     * @param lr learning rate of their AdamW, where the run's is {@code optimizer.lr}
     * @param match Muon's own parameters; empty for all matrices but embeddings and output layers
     */
    public record MuonOthers(
            double lr, double beta1, double beta2, double eps, double weightDecay, List<Pattern> match) {
        public MuonOthers {
            match = List.copyOf(match);
        }
    }

    private static final String BETAS = "betas";
    private static final String EPS = "eps";
    private static final String WEIGHT_DECAY = "weight_decay";
    private static final String FORMULA = "formula";

    private static final Map<String, Type> TYPES = Map.of(
            "sgd", Type.SGD,
            "adam", Type.ADAM,
            "adamw", Type.ADAMW,
            "stableadamw", Type.STABLEADAMW,
            "adagrad", Type.ADAGRAD,
            "lion", Type.LION,
            "lamb", Type.LAMB,
            "adafactor", Type.ADAFACTOR,
            "muon", Type.MUON);

    /** Keys that not every type has. */
    static final Map<Type, Set<String>> KEYS = Map.of(
            Type.SGD, Set.of("momentum", "dampening", "nesterov"),
            Type.ADAM, Set.of(BETAS, EPS),
            Type.ADAMW, Set.of(BETAS, EPS),
            Type.STABLEADAMW, Set.of(BETAS, EPS),
            Type.ADAGRAD, Set.of("lr_decay", EPS),
            Type.LION, Set.of(BETAS),
            Type.LAMB, Set.of(BETAS, EPS, FORMULA, "bias_correction", "min_coeff", "max_coeff", "always_adapt"),
            Type.ADAFACTOR,
                    Set.of(
                            EPS,
                            FORMULA,
                            "clip_threshold",
                            "decay_rate",
                            "beta1",
                            "scale_parameter",
                            "relative_step",
                            "warmup_init"),
            Type.MUON,
                    Set.of(
                            "momentum",
                            "nesterov",
                            EPS,
                            "ns_steps",
                            "ns_coefficients",
                            "ns_dtype",
                            "adjust_lr",
                            "match",
                            "adamw"));

    /** Largest number below 1: with a decay of 1 a moment would never forget. */
    private static final double BELOW_ONE = Math.nextDown(1.0);

    static OptimizerConfig read(Section s) {
        Type type = s.choice("type", TYPES, Type.ADAMW);
        requireOwnKeys(s, type);
        Optional<UpdateRule> rule = UpdateRules.read(s, type);
        Defaults defaults = Defaults.of(type, rule);
        List<Double> betas = s.numbers(BETAS, List.of(defaults.beta1, defaults.beta2), 2, 0, BELOW_ONE);
        OptimizerConfig optimizer = new OptimizerConfig(
                type,
                s.number("lr", defaults.lr, 0, Double.MAX_VALUE),
                s.number("momentum", type == Type.MUON ? MuonRule.DEFAULT.momentum() : 0, 0, BELOW_ONE),
                s.number("dampening", 0, 0, 1),
                s.flag("nesterov", type == Type.MUON),
                betas.getFirst(),
                betas.getLast(),
                type == Type.ADAFACTOR ? 0 : s.number(EPS, defaults.eps, 0, Double.MAX_VALUE),
                s.number(WEIGHT_DECAY, defaults.weightDecay, 0, Double.MAX_VALUE),
                s.patterns("no_decay"),
                s.has("states") ? s.section("states").read(StatesConfig::read) : StatesConfig.F32,
                rule,
                type == Type.MUON ? Optional.of(others(s)) : Optional.empty());
        requireEngine(s, type, optimizer.states);
        if (optimizer.others.isPresent() && optimizer.lr == 0) {
            throw s.error("lr", "Muon needs a learning rate above 0", "give optimizer: {lr: 1.0e-3}, for example");
        }
        if (type == Type.MUON) {
            return optimizer;
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
                    "MS-AMP has Adam and AdamW, not " + type.key(),
                    "use type: adamw, or another precision.mode");
        }
        StatesConfig.Level level = switch (policy.level()) {
            case O1 -> StatesConfig.Level.O1;
            case O2 -> StatesConfig.Level.O2;
            case O3 -> StatesConfig.Level.O3;
        };
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
                        new StatesConfig.Engine.Msamp(level, StatesConfig.Masters.FP16, policy.isOriginal()), false),
                rule,
                others);
    }

    /**
     * What is taken where nothing is written.
     *
     * @param beta1 of the types that have it
     */
    private record Defaults(double lr, double beta1, double beta2, double eps, double weightDecay) {
        static Defaults of(Type type, Optional<UpdateRule> rule) {
            boolean deepspeed = rule.orElse(null) instanceof LambRule l && l.formula() == LambRule.Formula.DEEPSPEED;
            boolean torch = rule.orElse(null) instanceof AdafactorRule a && a.formula() == AdafactorRule.Formula.TORCH;
            return switch (type) {
                case SGD, ADAM -> new Defaults(1e-3, 0.9, 0.999, 1e-8, 0);
                case ADAMW -> new Defaults(1e-3, 0.9, 0.999, 1e-8, 0.01);
                case STABLEADAMW -> new Defaults(1e-3, 0.9, Optimizer.Adam.STABLE_ADAMW.beta2(), 1e-8, 0.01);
                case ADAGRAD -> new Defaults(1e-2, 0.9, 0.999, 1e-10, 0);
                case LION -> new Defaults(1e-4, 0.9, 0.99, 1e-8, 0);
                case LAMB -> new Defaults(1e-3, 0.9, 0.999, deepspeed ? 1e-8 : 1e-6, deepspeed ? 0 : 0.01);
                case ADAFACTOR -> new Defaults(torch ? 1e-2 : 1e-3, 0.9, 0.999, 0, 0);
                case MUON -> new Defaults(1e-3, 0.9, 0.999, MuonRule.DEFAULT.eps(), 0.1);
            };
        }
    }

    private static void requireOwnKeys(Section s, Type type) {
        for (Set<String> keys : KEYS.values()) {
            for (String key : keys) {
                if (!KEYS.getOrDefault(type, Set.of()).contains(key) && s.isWritten(key) && s.has(key)) {
                    throw s.error(key, type.key() + " has no " + key, "leave the key out, or choose another type");
                }
            }
        }
    }

    /** Defaults of the AdamW in MuonWithAuxAdam of Muon's authors. */
    private static MuonOthers others(Section s) {
        Section adam = s.section("adamw");
        return adam.read(a -> {
            List<Double> betas = a.numbers(BETAS, List.of(0.9, 0.95), 2, 0, BELOW_ONE);
            return new MuonOthers(
                    a.number("lr", 3e-4, 0, Double.MAX_VALUE),
                    betas.getFirst(),
                    betas.getLast(),
                    a.number(EPS, 1e-10, 0, Double.MAX_VALUE),
                    a.number(WEIGHT_DECAY, 0, 0, Double.MAX_VALUE),
                    s.patterns("match"));
        });
    }

    /** Rejects an engine whose library lacks the optimizer. */
    private static void requireEngine(Section s, Type type, StatesConfig states) {
        String library = switch (states.engine()) {
            case StatesConfig.Engine.Msamp _ -> "MS-AMP has Adam and AdamW";
            case StatesConfig.Engine.Te _ -> "Transformer Engine's FusedAdam is Adam and AdamW";
            case StatesConfig.Engine.Fp32 _, StatesConfig.Engine.Torchao _, StatesConfig.Engine.Bf16 _ -> "";
        };
        boolean coded = !(states.engine() instanceof StatesConfig.Engine.Fp32);
        if (coded && (type == Type.ADAFACTOR || type == Type.MUON)) {
            throw s.section("states")
                    .error(
                            "engine",
                            type == Type.ADAFACTOR
                                    ? "Adafactor's moments are rows and columns of matrices, which are few and not"
                                            + " kept in codes"
                                    : "Muon's momentum enters matrix products as it is and is not kept in codes",
                            "leave states out, or use type: adamw, lion or lamb");
        }
        if (!library.isEmpty() && type != Type.ADAM && type != Type.ADAMW) {
            throw s.section("states")
                    .error("engine", library + ", not " + type.key(), "use engine: torchao or bf16, or type: adamw");
        }
    }

    /** Whether it is Adam or AdamW, which the libraries have, each with its own order of roundings. */
    static boolean isAdam(Optimizer optimizer) {
        return optimizer instanceof Optimizer.Adam a && a.variant() != Variant.STABLE_ADAMW;
    }

    /** Whether a schedule may move its first beta. */
    boolean cyclesMomentum() {
        return (type == Type.ADAM || type == Type.ADAMW) && states.engine() instanceof StatesConfig.Engine.Fp32;
    }

    /** The optimizer with these hyperparameters. */
    public Optimizer optimizer() {
        return switch (type) {
            case SGD -> new Optimizer.Sgd(momentum, dampening, weightDecay, nesterov);
            case ADAM -> adam(Variant.ADAM);
            case ADAMW -> adam(Variant.ADAMW);
            case STABLEADAMW -> adam(Variant.STABLE_ADAMW);
            case ADAGRAD -> new Optimizer.Adagrad(((AdagradRule) rule.orElseThrow()).lrDecay(), eps, weightDecay);
            case LION -> new Optimizer.Lion(beta1, beta2, weightDecay);
            case LAMB -> new Optimizer.Lamb(beta1, beta2, eps, weightDecay, (LambRule) rule.orElseThrow());
            case ADAFACTOR -> new Optimizer.Adafactor((AdafactorRule) rule.orElseThrow(), weightDecay);
            case MUON -> muon((MuonRule) rule.orElseThrow(), others.orElseThrow());
        };
    }

    private Optimizer adam(Variant variant) {
        return new Optimizer.Adam(beta1, beta2, eps, weightDecay, variant);
    }

    private Optimizer muon(MuonRule muon, MuonOthers o) {
        Optimizer.Adam adam = new Optimizer.Adam(o.beta1, o.beta2, o.eps, o.weightDecay, Variant.ADAMW);
        return new Optimizer.Muon(muon, weightDecay, new Optimizer.Scaled(adam, o.lr / lr), o.match);
    }
}
