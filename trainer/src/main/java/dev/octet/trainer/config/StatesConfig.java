package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForm.OfZeros;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateForms.Arithmetic;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * How parameters and the optimizer's memory are kept between steps: {@code optimizer.states}.
 *
 * @param engine whose scheme
 * @param convert whether a run may resume from a checkpoint of another engine
 */
public record StatesConfig(Engine engine, boolean convert) {
    /** All in F32. */
    public static final StatesConfig F32 = new StatesConfig(new Engine.Fp32(), false);

    /** A library's scheme, or Octet's own. Keys and defaults are those of the library. */
    public sealed interface Engine {
        /** All in F32, as torch keeps it. */
        record Fp32() implements Engine {}

        /**
         * MS-AMP: codes and a power of two for each tensor.
         *
         * @param level O1 keeps the moments in F32, O2 in E4M3 and F16
         * @param masters whether the matrices of products are kept in scaled F16
         * @param quirks whether the scale rule keeps the library's oddities
         */
        record Msamp(Level level, Masters masters, boolean quirks) implements Engine {}

        /**
         * Transformer Engine's FusedAdam: codes and a scale for each tensor.
         *
         * @param master FP32 or FP16
         * @param remainders whether an F32 master is kept as a BF16 and 16 bits of remainder
         * @param expAvg of the first moment
         * @param expAvgSq of the second moment
         */
        record Te(Kept master, boolean remainders, Kept expAvg, Kept expAvgSq) implements Engine {}

        /**
         * torchao's low-bit optimizers: codes and a scale for each block.
         *
         * @param stochastic whether parameters are kept in BF16, rounded stochastically
         */
        record Torchao(Format format, boolean stochastic) implements Engine {}

        /**
         * BF16 without scales.
         *
         * @param masters whether parameters are, too
         * @param stochastic whether it is rounded stochastically
         */
        record Bf16(boolean masters, boolean stochastic) implements Engine {}
    }

    /** Levels of MS-AMP. */
    public enum Level {
        /** Masters in few bits. */
        O1,
        /** Moments, too. */
        O2,
        /** As O2; products read weights that are kept in E4M3 for a step. The level of a precision mode only. */
        O3
    }

    /** Types of MS-AMP's masters. */
    public enum Masters {
        FP16,
        FP32
    }

    /** Types of Transformer Engine's states. */
    public enum Kept {
        FP32,
        FP16,
        BF16,
        FP8
    }

    /** Formats of torchao's optimizers. */
    public enum Format {
        /** {@code AdamW8bit}. */
        INT8,
        /** {@code AdamW4bit}. */
        INT4,
        /** {@code AdamWFp8}. */
        FP8
    }

    private static final String EXP_AVG_SQ = "exp_avg_sq";

    private static final Map<String, String> ENGINES =
            Map.of("fp32", "fp32", "msamp", "msamp", "te", "te", "torchao", "torchao", "bf16", "bf16");

    private static final Map<String, List<String>> KEYS = Map.of(
            "fp32", List.of(),
            "msamp", List.of("opt_level", "masters", "compat"),
            "te", List.of("master_weight_dtype", "store_param_remainders", "exp_avg_dtype", "exp_avg_sq_dtype"),
            "torchao", List.of("format", "bf16_stochastic_round"),
            "bf16", List.of("masters", "rounding"));

    private static final Map<String, Level> LEVELS = Map.of("O1", Level.O1, "O2", Level.O2, "O3", Level.O3);

    private static final Map<String, Kept> KEPT =
            Map.of("fp32", Kept.FP32, "fp16", Kept.FP16, "bf16", Kept.BF16, "fp8", Kept.FP8);

    static StatesConfig read(Section s) {
        boolean msamp = s.text("engine").filter("msamp"::equals).isPresent();
        if (msamp && s.text("opt_level").filter("O3"::equals).isPresent()) {
            throw s.error(
                    "opt_level",
                    "O3 is a matter of the products, too: it keeps the weights that they read in E4M3",
                    "use precision: {mode: msamp, opt_level: O3}, or opt_level: O2 here");
        }
        return readAny(s);
    }

    /** With the levels that only {@code precision} chooses. */
    private static StatesConfig readAny(Section s) {
        String engine = s.choice("engine", ENGINES, "fp32");
        boolean convert = s.flag("convert", false);
        List<String> own = KEYS.getOrDefault(engine, List.of());
        for (Map.Entry<String, List<String>> keys : KEYS.entrySet()) {
            for (String key : keys.getValue()) {
                if (s.has(key) && !own.contains(key)) {
                    throw s.error(
                            key,
                            "the engine " + engine + " has no " + key,
                            own.isEmpty()
                                    ? "leave the key out, or choose another engine"
                                    : "leave the key out; keys of " + engine + ": " + String.join(", ", own));
                }
            }
        }
        return new StatesConfig(
                switch (engine) {
                    case "msamp" ->
                        new Engine.Msamp(
                                s.choice("opt_level", LEVELS, Level.O2),
                                s.choice("masters", Map.of("fp16", Masters.FP16, "fp32", Masters.FP32), Masters.FP16),
                                s.choice("compat", Map.of("none", false, "msamp", true), false));
                    case "te" -> te(s);
                    case "torchao" ->
                        new Engine.Torchao(
                                s.choice(
                                        "format",
                                        Map.of("int8", Format.INT8, "int4", Format.INT4, "fp8", Format.FP8),
                                        Format.INT8),
                                s.flag("bf16_stochastic_round", false));
                    case "bf16" ->
                        new Engine.Bf16(
                                s.choice("masters", Map.of("fp32", false, "bf16", true), false),
                                s.choice("rounding", Map.of("nearest", false, "stochastic", true), true));
                    default -> new Engine.Fp32();
                },
                convert);
    }

    private static Engine te(Section s) {
        Kept master = s.choice("master_weight_dtype", Map.of("fp32", Kept.FP32, "fp16", Kept.FP16), Kept.FP32);
        boolean remainders = s.flag("store_param_remainders", false);
        if (remainders && master != Kept.FP32) {
            throw s.error(
                    "store_param_remainders",
                    "remainders complete BF16 to F32, but master_weight_dtype is "
                            + master.name().toLowerCase(Locale.ROOT),
                    "leave one of the two keys out");
        }
        return new Engine.Te(
                master,
                remainders,
                s.choice("exp_avg_dtype", KEPT, Kept.FP32),
                s.choice("exp_avg_sq_dtype", KEPT, Kept.FP32));
    }

    /** The engine of a run whose settings are known by dotted key; F32 where they name none. */
    public static StatesConfig of(Map<String, String> settings) {
        String prefix = "optimizer.states.";
        StringBuilder yaml = new StringBuilder();
        new TreeMap<>(settings).forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                yaml.append(key.substring(prefix.length()))
                        .append(": ")
                        .append(value)
                        .append('\n');
            }
        });
        return yaml.isEmpty()
                ? F32
                : YamlFile.parse(yaml.toString(), "settings of the checkpoint").read(StatesConfig::readAny);
    }

    /** The name of the engine, as configurations have it. */
    public String engineName() {
        return switch (engine) {
            case Engine.Fp32() -> "fp32";
            case Engine.Msamp _ -> "msamp";
            case Engine.Te _ -> "te";
            case Engine.Torchao _ -> "torchao";
            case Engine.Bf16 _ -> "bf16";
        };
    }

    /** For messages: {@code te (exp_avg_dtype: fp8, ...)}. */
    public String text() {
        Map<String, String> keys = settings();
        keys.remove("engine");
        return keys.isEmpty()
                ? engineName()
                : engineName() + " ("
                        + keys.entrySet().stream()
                                .map(e -> e.getKey() + ": " + e.getValue())
                                .collect(Collectors.joining(", "))
                        + ")";
    }

    /** All keys with their values, but {@code convert}. */
    Map<String, String> settings() {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("engine", engineName());
        switch (engine) {
            case Engine.Fp32() -> {}
            case Engine.Msamp(Level level, Masters masters, boolean quirks) -> {
                all.put("opt_level", level.name());
                all.put("masters", text(masters));
                all.put("compat", quirks ? "msamp" : "none");
            }
            case Engine.Te(Kept master, boolean remainders, Kept expAvg, Kept expAvgSq) -> {
                all.put("master_weight_dtype", text(master));
                all.put("store_param_remainders", String.valueOf(remainders));
                all.put("exp_avg_dtype", text(expAvg));
                all.put("exp_avg_sq_dtype", text(expAvgSq));
            }
            case Engine.Torchao(Format format, boolean stochastic) -> {
                all.put("format", text(format));
                all.put("bf16_stochastic_round", String.valueOf(stochastic));
            }
            case Engine.Bf16(boolean masters, boolean stochastic) -> {
                all.put("masters", masters ? "bf16" : "fp32");
                all.put("rounding", stochastic ? "stochastic" : "nearest");
            }
        }
        return all;
    }

    private static String text(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    /** Whether only the matrices of products are kept as {@link #forms} says of parameters, as in MS-AMP; otherwise all that are trained. */
    public boolean onlyMatrices() {
        return engine instanceof Engine.Msamp;
    }

    /** The forms of all tensors, for the buffers of an optimizer. */
    public StateForms forms(Optimizer optimizer) {
        Arithmetic own = arithmetic(optimizer);
        return switch (engine) {
            case Engine.Fp32() -> StateForms.F32;
            case Engine.Msamp(Level level, Masters masters, boolean quirks) -> {
                MsampScale rule = quirks ? MsampScale.ORIGINAL : MsampScale.MENDED;
                StateForm parameter = masters == Masters.FP16
                        ? new StateForm.PowerOfTwo(DType.F16, rule, OfZeros.AS_BEFORE)
                        : StateForm.Plain.F32;
                yield forms(
                        parameter,
                        level == Level.O1
                                ? Map.of()
                                : Map.of(
                                        "exp_avg",
                                        new StateForm.PowerOfTwo(DType.F8_E4M3FN, rule, OfZeros.ONE),
                                        EXP_AVG_SQ,
                                        new StateForm.PowerOfTwo(DType.F16, rule, OfZeros.ONE)),
                        own);
            }
            case Engine.Te(Kept master, boolean remainders, Kept expAvg, Kept expAvgSq) ->
                forms(
                        remainders ? new StateForm.Split() : fused(master),
                        Map.of("exp_avg", fused(expAvg), EXP_AVG_SQ, fused(expAvgSq)),
                        own);
            case Engine.Torchao(Format format, boolean stochastic) ->
                forms(stochastic ? new StateForm.Stochastic() : StateForm.Plain.F32, memory(optimizer, format), own);
            case Engine.Bf16(boolean masters, boolean stochastic) -> {
                StateForm bf16 = stochastic ? new StateForm.Stochastic() : new StateForm.Plain(DType.BF16);
                Map<String, StateForm> memory = new TreeMap<>();
                buffers(optimizer).forEach(what -> memory.put(what, bf16));
                yield forms(masters ? bf16 : StateForm.Plain.F32, memory, own);
            }
        };
    }

    private static StateForms forms(StateForm parameters, Map<String, StateForm> memory, Arithmetic arithmetic) {
        return new StateForms(parameters, StateForm.Plain.F32, memory, null, arithmetic);
    }

    /** Octet's own engines, and optimizers that a library lacks, compute as torch does. */
    private Arithmetic arithmetic(Optimizer optimizer) {
        if (!OptimizerConfig.isAdam(optimizer)) {
            return Arithmetic.TORCH;
        }
        return switch (engine) {
            case Engine.Msamp m -> m.level() == Level.O1 ? Arithmetic.MSAMP_F32 : Arithmetic.MSAMP;
            case Engine.Te _ -> Arithmetic.TRANSFORMER_ENGINE;
            case Engine.Torchao _ -> Arithmetic.TORCHAO;
            case Engine.Fp32 _, Engine.Bf16 _ -> Arithmetic.TORCH;
        };
    }

    private static StateForm fused(Kept type) {
        return switch (type) {
            case FP32 -> StateForm.Plain.F32;
            case FP16 -> new StateForm.Fused(DType.F16);
            case BF16 -> new StateForm.Plain(DType.BF16);
            case FP8 -> new StateForm.Fused(DType.F8_E4M3FN);
        };
    }

    /** Names of the buffers that may be kept in few bits. */
    public static List<String> buffers(Optimizer optimizer) {
        return optimizer instanceof Optimizer.Elementwise e ? e.memory() : List.of();
    }

    private static Map<String, StateForm> memory(Optimizer optimizer, Format format) {
        Map<String, StateForm> memory = new TreeMap<>();
        for (String what : buffers(optimizer)) {
            boolean positive = what.equals(EXP_AVG_SQ);
            memory.put(
                    what,
                    new StateForm.Blocked(
                            switch (format) {
                                case FP8 -> BlockCodes.FP8;
                                case INT8 -> positive ? BlockCodes.UINT8 : BlockCodes.INT8;
                                case INT4 -> positive ? BlockCodes.UINT4 : BlockCodes.INT4;
                            }));
        }
        return memory;
    }
}
