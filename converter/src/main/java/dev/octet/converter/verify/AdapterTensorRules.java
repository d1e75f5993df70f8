package dev.octet.converter.verify;

import dev.octet.formats.peft.AdaptedModule;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.peft.TargetModules;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** The tensors of an adapter, beside its configuration and its base. */
final class AdapterTensorRules {
    private static final String LORA_LAYER = "huggingface/peft:src/peft/tuners/lora/layer.py";
    private static final String TUNERS = "huggingface/peft:src/peft/tuners/tuners_utils.py";
    private static final String SAVE_AND_LOAD = "huggingface/peft:src/peft/utils/save_and_load.py";
    private static final String LORA_MODEL = "vllm-project/vllm:vllm/lora/lora_model.py";

    private static final Set<DType> FLOATS = Set.of(DType.F32, DType.F16, DType.BF16);

    private AdapterTensorRules() {}

    /** Tensors that the configuration promises. */
    static final AdapterRule MISSING = Demand.error("adapter-tensor-missing", Consumer.OF_ADAPTERS)
            .text("Every module has all tensors of its method: PEFT leaves a missing one at its initial value.")
            .fix("save the adapter again; a shard of a distributed run was perhaps not gathered")
            .source(SAVE_AND_LOAD + ", " + LORA_MODEL)
            .onAdapters(AdapterTensorRules::missing);

    private static void missing(AdapterSubject subject, Report report) {
        PeftConfig config = subject.config();
        if (config.type().isPrompt()) {
            if (subject.adapter().prompt().isEmpty()) {
                report.add("the virtual tokens are missing", PeftRole.PROMPT.suffix(), "");
            }
            return;
        }
        if (subject.adapter().tensors().isEmpty()) {
            report.add("the adapter has no tensors", "adapter_model.safetensors", "");
        }
        subject.adapter().modules().forEach((path, module) -> {
            for (PeftRole role : required(config, module)) {
                if (module.tensor(role).isEmpty()) {
                    report.add("a module lacks a tensor", PeftKeys.key(path, role), "");
                }
            }
        });
        targets(subject)
                .ifPresent(targets -> subject.base()
                        .ifPresent(base -> targets.select(base.kinds()).stream()
                                .filter(path -> subject.adapter().modules().keySet().stream()
                                        .noneMatch(m -> isSame(m, path)))
                                .filter(path -> base.kind(path)
                                        .filter(k -> k != ModuleKind.NORM || isNorms(config))
                                        .isPresent())
                                .forEach(path -> report.add(
                                        Set.of(Consumer.PEFT),
                                        "target_modules match a module that has no tensors",
                                        path,
                                        ""))));
    }

    /** Whether two paths name one module: one may have more parts in front. */
    private static boolean isSame(String a, String b) {
        return a.equals(b) || a.endsWith("." + b) || b.endsWith("." + a);
    }

    private static boolean isNorms(PeftConfig config) {
        return config.type() == PeftType.LN_TUNING;
    }

    private static List<PeftRole> required(PeftConfig config, AdaptedModule module) {
        return switch (config.type()) {
            case LORA -> {
                if (module.tensor(PeftRole.LORA_EMBEDDING_A).isPresent()
                        || module.tensor(PeftRole.LORA_EMBEDDING_B).isPresent()) {
                    yield List.of(PeftRole.LORA_EMBEDDING_A, PeftRole.LORA_EMBEDDING_B);
                }
                boolean product = module.tensor(PeftRole.LORA_A).isPresent()
                        || module.tensor(PeftRole.LORA_B).isPresent();
                yield !product
                        ? List.of()
                        : config.lora().useDora()
                                ? List.of(PeftRole.LORA_A, PeftRole.LORA_B, PeftRole.LORA_MAGNITUDE)
                                : config.lora().loraBias()
                                        ? List.of(PeftRole.LORA_A, PeftRole.LORA_B, PeftRole.LORA_B_BIAS)
                                        : List.of(PeftRole.LORA_A, PeftRole.LORA_B);
            }
            case IA3 -> List.of(PeftRole.IA3);
            case LN_TUNING -> List.of(PeftRole.NORM_WEIGHT);
            case BOTTLENECK -> List.of(PeftRole.DOWN_WEIGHT, PeftRole.UP_WEIGHT);
            case PROMPT_TUNING, P_TUNING, PREFIX_TUNING -> List.of();
        };
    }

    /** Tensors that no module of the configuration takes. */
    static final AdapterRule UNEXPECTED = Demand.error("adapter-tensor-unexpected", Consumer.PEFT)
            .text("Every tensor belongs to a module that the configuration names: PEFT drops others without an error.")
            .fix("put the adapter's own adapter_config.json next to its tensors")
            .source(SAVE_AND_LOAD + ", " + TUNERS)
            .onAdapters(AdapterTensorRules::unexpected);

    private static void unexpected(AdapterSubject subject, Report report) {
        PeftConfig config = subject.config();
        subject.adapter().modules().forEach((path, module) -> {
            module.tensors().keySet().stream()
                    .filter(role -> !role.belongsTo(config.type()))
                    .forEach(role -> report.add("a tensor belongs to another method", PeftKeys.key(path, role), ""));
            if (!isTarget(subject, path, module)) {
                report.add("target_modules do not match a module that has tensors", path, "");
            }
        });
        if (subject.adapter().prompt().isPresent() && !config.type().isPrompt()) {
            report.add("virtual tokens are stored with another method", PeftRole.PROMPT.suffix(), "");
        }
        boolean biases = config.type() == PeftType.LORA && config.lora().bias() == LoraConfig.Bias.ALL;
        for (String path : subject.adapter().saved().keySet()) {
            // PEFT compares the ends of paths, and what is below a module that matches belongs to it
            boolean named =
                    config.modulesToSave().stream().anyMatch(name -> path.contains(name + ".") || path.endsWith(name));
            if (!named && !(biases && path.endsWith(".bias")) && !path.contains(".lora_") && !path.contains(".ia3_")) {
                report.add("a parameter is stored whole that modules_to_save does not name", path, "");
            }
        }
    }

    private static boolean isTarget(AdapterSubject subject, String path, AdaptedModule module) {
        boolean tokensOnly = module.tensors().keySet().equals(Set.of(PeftRole.TOKENS));
        boolean ofParameters = subject.config().type() == PeftType.LORA
                && !subject.config().lora().targetParameters().isEmpty();
        Optional<TargetModules> targets = targets(subject);
        if (tokensOnly
                || ofParameters
                || targets.isEmpty()
                || targets.get().entries().isEmpty()) {
            return true;
        }
        return targets.get().matches(path, ModuleKind.LINEAR);
    }

    /** The rule by which modules are chosen; empty where the method has none. */
    private static Optional<TargetModules> targets(AdapterSubject subject) {
        return subject.config().targets();
    }

    /** Entries that match nothing, or a module that the method cannot change. */
    static final AdapterRule TARGET = Demand.warning("adapter-target", Consumer.OF_ADAPTERS)
            .text("Every entry of target_modules matches a module, and no norm: PEFT refuses an adapter whose"
                    + " targets match nothing.")
            .fix("correct target_modules; `octet inspect` of the base lists its modules")
            .source(TUNERS + ", " + LORA_MODEL)
            .onAdapters(AdapterTensorRules::target);

    private static void target(AdapterSubject subject, Report report) {
        Optional<TargetModules> targets = targets(subject);
        if (targets.isEmpty()) {
            return;
        }
        Map<String, ModuleKind> modules = new LinkedHashMap<>();
        subject.adapter().modules().keySet().forEach(path -> modules.put(path, ModuleKind.LINEAR));
        subject.base().ifPresent(base -> modules.putAll(base.kinds()));
        Map<String, Integer> counts = targets.get().counts(modules);
        boolean none = counts.values().stream().allMatch(n -> n == 0);
        counts.forEach((entry, count) -> {
            if (count == 0) {
                report.add(
                        none ? Severity.ERROR : Severity.WARNING,
                        none ? "target_modules match nothing" : "an entry of target_modules matches nothing",
                        entry,
                        "");
            }
        });
        if (!isNorms(subject.config())) {
            subject.base()
                    .ifPresent(base -> targets.get().select(base.kinds()).stream()
                            .filter(path -> base.kinds().get(path) == ModuleKind.NORM)
                            .forEach(path -> report.add(
                                    Severity.ERROR, "target_modules match a norm, which has no product", path, "")));
        }
        if (subject.config().type() == PeftType.LORA) {
            subject.config()
                    .lora()
                    .unmatchedPatterns(List.copyOf(modules.keySet()))
                    .forEach(key -> report.add("a key of rank_pattern or alpha_pattern matches nothing", key, ""));
        }
    }

    /** Shapes. */
    static final AdapterRule SHAPE = Demand.error("adapter-shape", Consumer.OF_ADAPTERS)
            .text("Tensors have the shapes that rank, configuration and base give them.")
            .fix("put the adapter's own adapter_config.json next to its tensors; give its own base")
            .source(LORA_LAYER + ", huggingface/peft:src/peft/tuners/ia3/layer.py")
            .onAdapters(AdapterTensorRules::shape);

    private static void shape(AdapterSubject subject, Report report) {
        PeftConfig config = subject.config();
        subject.adapter().modules().values().forEach(module -> {
            if (config.type() == PeftType.LORA) {
                loraShape(subject, module, report);
            } else if (config.type() == PeftType.IA3) {
                module.tensor(PeftRole.IA3).ifPresent(l -> ia3Shape(subject, module, l, report));
            }
        });
        subject.adapter().prompt().filter(t -> config.type().isPrompt()).ifPresent(t -> {
            Optional<Long> columns = config.prompt().columns();
            Shape wanted = Shape.of(
                    config.prompt().rows(),
                    columns.orElse(t.shape().rank() == 2 ? t.shape().dim(1) : 0));
            if (!t.shape().equals(wanted)) {
                report.add("virtual tokens have another shape", t.name(), t.shape() + ", configured " + wanted);
            }
        });
        subject.adapter().tensors().values().stream()
                .filter(t -> !FLOATS.contains(t.dtype()))
                .forEach(t -> report.add(
                        "a tensor is not F32, F16 or BF16", t.name(), t.dtype().name()));
    }

    private static void loraShape(AdapterSubject subject, AdaptedModule module, Report report) {
        LoraConfig lora = subject.config().lora();
        boolean table = module.tensor(PeftRole.LORA_EMBEDDING_A).isPresent();
        Optional<Tensor> a = module.tensor(table ? PeftRole.LORA_EMBEDDING_A : PeftRole.LORA_A);
        Optional<Tensor> b = module.tensor(table ? PeftRole.LORA_EMBEDDING_B : PeftRole.LORA_B);
        if (a.isEmpty() || b.isEmpty()) {
            return; // adapter-tensor-missing
        }
        Shape down = a.get().shape();
        Shape up = b.get().shape();
        if (down.rank() != 2 || up.rank() != 2 || down.elementCount() == 0 || up.elementCount() == 0) {
            report.add("a factor is not a matrix with elements", module.path(), "A " + down + ", B " + up);
            return;
        }
        long rank = lora.targetParameters().isEmpty() ? lora.rank(module.path()) : down.dim(0);
        if (down.dim(0) != rank || up.dim(1) != rank) {
            report.add(
                    "factors do not have the rank of the configuration",
                    module.path(),
                    "A " + down + ", B " + up + ", r " + rank);
        }
        long out = up.dim(0);
        module.tensor(PeftRole.LORA_MAGNITUDE)
                .filter(m -> m.shape().elementCount() != out)
                .ifPresent(m -> report.add(
                        "norms of DoRA are not one for each row", module.path(), m.shape() + ", rows " + out));
        subject.base().flatMap(base -> base.shape(module.path())).ifPresent(weight -> {
            long in = down.dim(1);
            if (weight.rank() == 2 && !fits(weight, table ? in : out, table ? out : in, lora.fanInFanOut())) {
                report.add(
                        "factors do not fit the weight of the base",
                        module.path(),
                        "B·A " + (table ? Shape.of(in, out) : Shape.of(out, in)) + ", base " + weight);
            }
        });
    }

    private static boolean fits(Shape weight, long rows, long columns, boolean transposed) {
        return (weight.dim(0) == rows && weight.dim(1) == columns)
                || (transposed && weight.dim(0) == columns && weight.dim(1) == rows);
    }

    private static void ia3Shape(AdapterSubject subject, AdaptedModule module, Tensor factors, Report report) {
        boolean feedforward = subject.config().ia3().isFeedforward(module.path());
        long count = factors.shape().elementCount();
        if (!factors.shape().equals(feedforward ? Shape.of(1, count) : Shape.of(count, 1))) {
            report.add(
                    "factors have another shape than feedforward_modules gives them",
                    module.path(),
                    factors.shape() + (feedforward ? ", feedforward" : ", not feedforward"));
            return;
        }
        subject.base()
                .flatMap(base -> base.shape(module.path()))
                .filter(w -> w.rank() == 2)
                .ifPresent(weight -> {
                    boolean transposed = subject.config().ia3().fanInFanOut();
                    if (count != weight.dim(feedforward == transposed ? 0 : 1)) {
                        report.add(
                                "factors do not fit the weight of the base",
                                module.path(),
                                count + " factors, base " + weight);
                    }
                });
    }

    /** A rank that saves nothing. */
    static final AdapterRule RANK = Demand.warning("adapter-rank", Consumer.OF_ADAPTERS)
            .text("No rank is larger than a dimension of its weight: the product has no more freedom, and needs more"
                    + " memory.")
            .fix("train with an r of at most the smaller dimension, or train the module whole")
            .source("Hu et al. 2021, arXiv:2106.09685 section 4.1")
            .onAdapters((subject, report) -> subject.adapter().modules().values().stream()
                    .filter(m -> m.tensor(PeftRole.LORA_A).isPresent()
                            && m.tensor(PeftRole.LORA_B).isPresent())
                    .filter(m -> subject.config().type() == PeftType.LORA
                            && subject.config().lora().targetParameters().isEmpty())
                    .forEach(m -> {
                        Shape a = m.tensor(PeftRole.LORA_A).orElseThrow().shape();
                        Shape b = m.tensor(PeftRole.LORA_B).orElseThrow().shape();
                        if (a.rank() == 2 && b.rank() == 2 && a.dim(0) > Math.min(a.dim(1), b.dim(0))) {
                            report.add(
                                    "the rank is larger than a dimension of the weight",
                                    m.path(),
                                    "r " + a.dim(0) + ", weight " + Shape.of(b.dim(0), a.dim(1)));
                        }
                    }));

    /** The base. */
    static final AdapterRule BASE = Demand.error("adapter-base", Consumer.OF_ADAPTERS)
            .text("The base has every module of the adapter.")
            .fix("give the base that the adapter was trained on: base_model_name_or_path names it")
            .source(TUNERS + ", " + LORA_MODEL)
            .withOriginal()
            .onAdapters((subject, report) -> subject.base()
                    .ifPresent(base -> subject.adapter().modules().keySet().forEach(path -> {
                        if (base.kind(path).isEmpty()) {
                            report.add("the base has no such module", path, "");
                        }
                    })));

    /** Values. */
    static final AdapterRule NOT_FINITE = Demand.error("adapter-not-finite", Consumer.OF_ADAPTERS)
            .text("No tensor holds NaN or infinity.")
            .fix("look at the training run; go back to a sound checkpoint of it")
            .source("huggingface/peft:src/peft/tuners/lora/layer.py (safe_merge)")
            .onAdapters((subject, report) -> subject.adapter().tensors().forEach((key, tensor) -> {
                long bad = FLOATS.contains(tensor.dtype()) ? count(tensor, v -> !Float.isFinite(v)) : 0;
                if (bad > 0) {
                    report.add(
                            "a tensor holds NaN or infinity",
                            key,
                            bad + " of " + tensor.shape().elementCount());
                }
            }));

    /** Whether the adapter changes anything. */
    static final AdapterRule NO_EFFECT = Demand.warning("adapter-no-effect", Consumer.OF_ADAPTERS)
            .text("The adapter changes the model: no B is all zeros, no factors of IA3 are all ones.")
            .fix("train it, or look for the reason why its parameters never moved")
            .source(LORA_LAYER)
            .onAdapters(AdapterTensorRules::noEffect);

    private static void noEffect(AdapterSubject subject, Report report) {
        List<AdaptedModule> idle = subject.adapter().modules().values().stream()
                .filter(AdapterTensorRules::isIdle)
                .toList();
        boolean all =
                !idle.isEmpty() && idle.size() == subject.adapter().modules().size();
        boolean whole = all && subject.adapter().saved().isEmpty();
        for (AdaptedModule module : idle) {
            report.add(
                    whole ? Severity.ERROR : Severity.WARNING,
                    whole ? "the adapter changes nothing" : "an adapted module changes nothing",
                    module.path(),
                    "");
        }
    }

    private static boolean isIdle(AdaptedModule module) {
        boolean other = module.tensor(PeftRole.LORA_MAGNITUDE).isPresent()
                || module.tensor(PeftRole.BASE_BIAS).isPresent()
                || module.tensor(PeftRole.LORA_B_BIAS).isPresent();
        if (other) {
            return false;
        }
        for (PeftRole factor : List.of(
                PeftRole.LORA_A,
                PeftRole.LORA_B,
                PeftRole.LORA_EMBEDDING_A,
                PeftRole.LORA_EMBEDDING_B,
                PeftRole.UP_WEIGHT)) {
            if (module.tensor(factor).filter(t -> isAll(t, 0)).isPresent()) {
                return true;
            }
        }
        return module.tensor(PeftRole.IA3).filter(t -> isAll(t, 1)).isPresent();
    }

    private static boolean isAll(Tensor tensor, float value) {
        return FLOATS.contains(tensor.dtype()) && count(tensor, v -> v != value) == 0;
    }

    /** Which of the values counts. */
    @FunctionalInterface
    private interface Test {
        boolean of(float value);
    }

    private static long count(Tensor tensor, Test test) {
        long found = 0;
        for (long i = 0; i < tensor.shape().elementCount(); i++) {
            found += test.of(Floats.get(tensor.dtype(), tensor.bytes(), i)) ? 1 : 0;
        }
        return found;
    }
}
