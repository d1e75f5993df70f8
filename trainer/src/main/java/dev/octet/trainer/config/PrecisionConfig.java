package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.FloatName;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.precision.ApexLevel;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.AutocastList;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.qat.QatSettings;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The floating-point type that each operator computes in, and loss scaling.
 *
 * @param mode its name in the configuration
 * @param policy the precision policy of the mode
 * @param scaling loss scaling
 * @param notes for the user, on keys that have no effect
 * @param ranks data-parallel ranks that are simulated
 * @param qat what is fake-quantised in mode {@code qat}; empty in other modes
 */
public record PrecisionConfig(
        String mode,
        PrecisionPolicy policy,
        LossScaling scaling,
        List<String> notes,
        RankSettings ranks,
        Optional<QatSettings> qat) {
    private static final String LOSS_SCALE = "loss_scale";
    private static final Map<String, AutocastList> LISTS = Map.of(
            "cpu", AutocastList.CPU, "cuda", AutocastList.CUDA, "apex", AutocastList.APEX, "all", AutocastList.ALL);
    private static final String MSAMP = "msamp";
    private static final String QAT = "qat";
    private static final Mode FP32 = (s, _, _) -> fp32(s);
    private static final Map<String, Mode> MODES = modes();
    /** Keys that only one mode uses; in another mode they are an error, and the message suggests this mode. */
    private static final Map<String, List<String>> KEYS_OF_MODES = Map.of(
            "fp8",
            List.of(
                    "recipe",
                    "fp8_format",
                    "base",
                    "amax_history_len",
                    "amax_compute_algo",
                    "margin",
                    "layers",
                    "accumulation"),
            "O2",
            List.of("keep_batchnorm_fp32", "master_weights"),
            MSAMP,
            List.of("opt_level", "use_te", "compat"),
            QAT,
            List.of("weights", "inputs", "method", "scales"));
    /** Keys of other modes that a mode has, too. */
    private static final Map<String, Set<String>> SHARED_KEYS =
            Map.of(MSAMP, Set.of("base"), QAT, Set.of("base", "layers"));

    /** Reads the remaining keys of a mode. */
    private interface Mode {
        PrecisionConfig read(Section s, String name, Path folder);
    }

    private static Map<String, Mode> modes() {
        Map<String, Mode> modes = new LinkedHashMap<>();
        modes.put("fp32", FP32);
        modes.put(
                "bf16",
                (s, name, _) -> new PrecisionConfig(
                        name, new Autocast(name, DType.BF16, list(s)), scaling(s, LossScaling.Fixed.NONE)));
        modes.put(
                "fp16",
                (s, name, _) -> new PrecisionConfig(
                        name, new Autocast(name, DType.F16, list(s)), scaling(s, LossScaling.GradScaler.DEFAULT)));
        modes.put("fp8", (s, _, _) -> fp8(s));
        modes.put(MSAMP, (s, _, _) -> msamp(s));
        modes.put(QAT, (s, _, folder) -> qat(s, folder));
        for (ApexLevel level : ApexLevel.values()) {
            modes.put(level.name(), (s, _, _) -> apex(s, level));
        }
        return modes;
    }

    public PrecisionConfig {
        notes = List.copyOf(notes);
    }

    private PrecisionConfig(String mode, PrecisionPolicy policy, LossScaling scaling) {
        this(mode, policy, scaling, List.of());
    }

    /** Without ranks. */
    public PrecisionConfig(String mode, PrecisionPolicy policy, LossScaling scaling, List<String> notes) {
        this(mode, policy, scaling, notes, RankSettings.NONE, Optional.empty());
    }

    /** Whether the policy has FP8 Linears. */
    public boolean isFp8() {
        return policy instanceof Fp8Policy;
    }

    /** MS-AMP's policy; empty in other modes. */
    public Optional<MsampPolicy> msamp() {
        return policy instanceof MsampPolicy p ? Optional.of(p) : Optional.empty();
    }

    /** @param folder base of relative paths */
    static PrecisionConfig read(Section s, Path folder) {
        String name = s.text("mode").map(FloatName::normal).orElse("fp32");
        Mode mode = s.choice("mode", MODES, FP32);
        boolean apex = Arrays.stream(ApexLevel.values()).anyMatch(l -> l.name().equals(name));
        KEYS_OF_MODES.forEach((owner, keys) -> {
            boolean has = owner.equals(name) || (apex && owner.equals("O2"));
            Set<String> shared = SHARED_KEYS.getOrDefault(name, Set.of());
            keys.stream()
                    .filter(k -> !has && !shared.contains(k) && s.isWritten(k))
                    .findFirst()
                    .ifPresent(k -> {
                        throw s.error(
                                k, "mode " + name + " has no " + k, "leave the key out, or choose mode: " + owner);
                    });
        });
        PrecisionConfig read = mode.read(s, name, folder);
        return new PrecisionConfig(read.mode, read.policy, read.scaling, read.notes, RanksConfig.read(s), read.qat);
    }

    private static PrecisionConfig fp32(Section s) {
        if (s.has(LOSS_SCALE)) {
            throw s.error(LOSS_SCALE, "fp32 needs no loss scaling", "leave the key out, or choose mode: fp16");
        }
        return new PrecisionConfig("fp32", PrecisionPolicy.FP32, LossScaling.Fixed.NONE);
    }

    private static PrecisionConfig fp8(Section s) {
        DType base = s.choice("base", FloatName.types(), DType.BF16);
        String name = s.text("base").map(FloatName::normal).orElse("bf16");
        LossScaling usual = base == DType.F16 ? LossScaling.GradScaler.DEFAULT : LossScaling.Fixed.NONE;
        Fp8Policy policy = Fp8Config.read(s, new Autocast(name, base, list(s)));
        return new PrecisionConfig(
                "fp8",
                policy,
                scaling(s, usual),
                Fp8Config.notes(s, policy.settings().recipe()));
    }

    private static PrecisionConfig msamp(Section s) {
        DType base = s.choice("base", FloatName.types(), DType.BF16);
        String name = s.text("base").map(FloatName::normal).orElse("bf16");
        boolean quirks = s.choice("compat", Map.of("none", false, MSAMP, true), false);
        Map<String, MsampPolicy.Level> levels = new LinkedHashMap<>();
        for (MsampPolicy.Level level : MsampPolicy.Level.values()) {
            levels.put(level.name(), level);
        }
        MsampPolicy policy = new MsampPolicy(
                new Autocast(name, base, list(s)),
                new TrainingRecipe.Msamp(quirks ? MsampScale.ORIGINAL : MsampScale.MENDED, s.flag("use_te", false)),
                s.choice("opt_level", levels, MsampPolicy.Level.O2),
                RanksConfig.read(s));
        LossScaling usual = base == DType.F16 ? LossScaling.GradScaler.DEFAULT : LossScaling.Fixed.NONE;
        return new PrecisionConfig(MSAMP, policy, scaling(s, usual));
    }

    private static PrecisionConfig qat(Section s, Path folder) {
        DType base = s.choice("base", FloatName.types(), DType.F32);
        String name = s.text("base").map(FloatName::normal).orElse("fp32");
        LossScaling usual = base == DType.F16 ? LossScaling.GradScaler.DEFAULT : LossScaling.Fixed.NONE;
        return new PrecisionConfig(
                QAT,
                new Autocast(name, base, list(s)),
                scaling(s, usual),
                List.of(),
                RankSettings.NONE,
                Optional.of(QatConfig.read(s, folder)));
    }

    private static AutocastList list(Section s) {
        return s.choice("autocast", LISTS, AutocastList.CPU);
    }

    private static PrecisionConfig apex(Section s, ApexLevel level) {
        if (level.patchesFunctions()) {
            for (String key : new String[] {"keep_batchnorm_fp32", "master_weights", "cast_model_type"}) {
                if (s.has(key)) {
                    throw s.error(
                            key,
                            level + " casts individual functions and has no " + key,
                            "leave the key out, or choose mode: O2");
                }
            }
            return new PrecisionConfig(level.name(), level.policy(), scaling(s, level.lossScaling()));
        }
        if (s.has("master_weights") && !s.flag("master_weights", true)) {
            throw s.error("master_weights", "F32 masters are kept at every level", "leave the key out");
        }
        return new PrecisionConfig(
                level.name(),
                s.has("keep_batchnorm_fp32") ? level.policy(s.flag("keep_batchnorm_fp32", true)) : level.policy(),
                scaling(s, level.lossScaling()));
    }

    private static LossScaling scaling(Section s, LossScaling usual) {
        if (!s.has(LOSS_SCALE)) {
            return usual;
        }
        return s.section(LOSS_SCALE).read(PrecisionConfig::scaling);
    }

    private static LossScaling scaling(Section s) {
        Map<String, ScalingReader> kinds = Map.of(
                "fixed", PrecisionConfig::fixed,
                "torch", PrecisionConfig::torch,
                "deepspeed", PrecisionConfig::deepSpeed,
                "apex", PrecisionConfig::apexScaler);
        return s.requiredChoice("type", kinds).read(s);
    }

    /** Reads the remaining keys of a kind of loss scaling. */
    private interface ScalingReader {
        LossScaling read(Section s);
    }

    private static LossScaling fixed(Section s) {
        return new LossScaling.Fixed((float) s.number("scale", 1, Float.MIN_NORMAL, Float.MAX_VALUE));
    }

    private static LossScaling torch(Section s) {
        LossScaling.GradScaler usual = LossScaling.GradScaler.DEFAULT;
        return new LossScaling.GradScaler(
                (float) s.number("init_scale", usual.initialScale(), Float.MIN_NORMAL, Float.MAX_VALUE),
                (float) s.number("growth_factor", usual.growthFactor(), Math.nextUp(1f), Float.MAX_VALUE),
                (float) s.number("backoff_factor", usual.backoffFactor(), Float.MIN_NORMAL, Math.nextDown(1f)),
                (int) s.whole("growth_interval", usual.growthInterval(), 1, Integer.MAX_VALUE));
    }

    private static LossScaling deepSpeed(Section s) {
        LossScaling.DeepSpeedScaler usual = LossScaling.DeepSpeedScaler.DEFAULT;
        return new LossScaling.DeepSpeedScaler(
                (int) s.whole("initial_scale_power", usual.initialScalePower(), 0, 100),
                (int) s.whole("loss_scale_window", usual.window(), 1, Integer.MAX_VALUE),
                (int) s.whole("hysteresis", usual.hysteresis(), 1, Integer.MAX_VALUE),
                s.flag("consecutive_hysteresis", usual.consecutiveHysteresis()),
                (float) s.number("min_loss_scale", usual.minScale(), Float.MIN_NORMAL, Float.MAX_VALUE));
    }

    private static LossScaling apexScaler(Section s) {
        LossScaling.ApexScaler usual = LossScaling.ApexScaler.DEFAULT;
        return new LossScaling.ApexScaler(
                (float) s.number("init_scale", usual.initialScale(), Float.MIN_NORMAL, Float.MAX_VALUE),
                (int) s.whole("scale_window", usual.window(), 1, Integer.MAX_VALUE),
                (float) s.number("max_loss_scale", usual.maxScale(), Float.MIN_NORMAL, Float.MAX_VALUE));
    }
}
