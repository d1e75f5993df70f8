package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * What a configuration of Accelerate really does: the keys of {@link AccelerateKeys} that depend on others. The rules are those of accelerate
 * 1.15.0: commands/launch.py, utils/launch.py, TERecipeKwargs, MSAMPRecipeKwargs, AORecipeKwargs and DeepSpeedPlugin of utils/dataclasses.py.
 */
final class Accelerate {
    private static final String DISTRIBUTED = "distributed_type";
    private static final String MIXED = "mixed_precision";
    private static final String PROCESSES = "num_processes";
    private static final String MODE = "precision.mode";
    private static final String PRECISION = "precision.";
    private static final String FP8 = "fp8_config";
    private static final String DEEPSPEED = "deepspeed_config.";
    private static final String MEGATRON = "megatron_lm_config.megatron_lm_";
    private static final String PARALLEL = "parallelism_config.parallelism_config_";
    private static final String TENSOR = "distributed.tensor";

    /** Distributed types of Accelerate, upper case. */
    private static final Set<String> TYPES = Set.of(
            "NO",
            "MULTI_CPU",
            "MULTI_GPU",
            "MULTI_NPU",
            "MULTI_MLU",
            "MULTI_SDAA",
            "MULTI_MUSA",
            "MULTI_XPU",
            "MULTI_HPU",
            "MULTI_NEURON",
            "DEEPSPEED",
            "FSDP",
            "XLA",
            "TPU",
            "MEGATRON_LM");

    private static final Set<String> SAGEMAKER_TYPES = Set.of("DATA_PARALLEL", "MODEL_PARALLEL");

    /** A spelling of the questionnaire that no recipe reads, and the name that is read. */
    private static final Map<String, String> UNREAD = Map.of(
            "amax_history_length", "amax_history_len",
            "amax_compute_algorithm", "amax_compute_algo",
            "optimization_level", "opt_level");

    private final Draft draft;
    private final Given given;
    private final String type;

    private Accelerate(Draft draft, Given given) {
        this.draft = draft;
        this.given = given;
        this.type = draft.text(DISTRIBUTED).toUpperCase(Locale.ROOT).replaceFirst("^FALSE$", "NO");
    }

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.ACCELERATE, file);
        new Accelerate(draft, given).read();
        return draft.finish();
    }

    private void read() {
        distributed();
        boolean chained = deepSpeed();
        processes();
        precision(chained);
        sharded();
        parallel();
        megatron();
        if (draft.has("use_cpu")) {
            draft.noEffect(
                    "use_cpu",
                    draft.flag("use_cpu")
                            ? "The processor is what octet train uses unless --device says otherwise."
                            : "octet train --device cuda uses a GPU.");
        }
    }

    private void distributed() {
        if (!draft.has(DISTRIBUTED)) {
            if (!draft.isMistaken(DISTRIBUTED)) {
                draft.problem(
                        DISTRIBUTED,
                        "there is no distributed_type, and Accelerate needs it",
                        "add distributed_type: 'NO'");
            }
        } else if (SAGEMAKER_TYPES.contains(type)) {
            draft.refused(DISTRIBUTED, "Octet starts nothing in a cloud: run octet train on the machine itself.");
        } else if (!TYPES.contains(type)) {
            draft.problem(
                    DISTRIBUTED,
                    "Accelerate has no distributed_type '" + draft.text(DISTRIBUTED) + "'",
                    "write 'NO', MULTI_GPU, FSDP, DEEPSPEED or MEGATRON_LM");
        } else {
            draft.noEffect(DISTRIBUTED, "One process trains, whatever the type.");
        }
    }

    /** So many processes with a batch each are so many micro-batches of one process. */
    private void processes() {
        if (!draft.has(PROCESSES)) {
            return;
        }
        long processes = draft.whole(PROCESSES);
        if (processes < 1) {
            draft.noEffect(PROCESSES, "It leaves the number to the launcher; here there is one process.");
        } else if (processes == 1) {
            draft.noEffect(PROCESSES, "There is one process.");
        } else if (type.equals("NO")) {
            draft.noEffect(PROCESSES, "With distributed_type NO accelerate launch starts one process.");
        } else if (processes > Integer.MAX_VALUE) {
            draft.problem(PROCESSES, PROCESSES + " is " + draft.text(PROCESSES), "give the number of processes");
        } else {
            long model = sharers();
            long groups = processes / model;
            if (groups * model != processes) {
                draft.problem(
                        PROCESSES,
                        processes + " processes are no groups of " + model + ", which share the model",
                        "give a multiple of " + model);
                return;
            }
            long each = accumulation();
            draft.mapped(
                    PROCESSES,
                    (model == 1
                                    ? "A batch on each of " + processes + " processes is " + groups
                                            + " micro-batches of one"
                                    : model + " processes share the model: " + groups
                                            + (groups == 1 ? " micro-batch" : " micro-batches"))
                            + (each > 1 ? ", " + each + " times a step." : "."),
                    draft.setting("gradient_accumulation", String.valueOf(groups * each), PROCESSES));
        }
    }

    /** Processes that have parts of one model. */
    private long sharers() {
        List<String> degrees = type.equals("MEGATRON_LM")
                ? List.of(MEGATRON + "tp_degree", MEGATRON + "pp_degree")
                : List.of(PARALLEL + "tp_size");
        long all = 1;
        for (String key : degrees) {
            boolean counts = draft.has(key)
                    && KeyType.WHOLE.takes(draft.text(key), Section.Kind.NUMBER)
                    && draft.number(key) > 1
                    && draft.number(key) <= 1024;
            all *= counts ? draft.whole(key) : 1;
        }
        return all;
    }

    /** Accelerate's ParallelismConfig: processes are replicas of groups that share out what they keep, with parts of layers. */
    private void parallel() {
        String tensor = PARALLEL + "tp_size";
        if (draft.has(tensor) && type.equals("MEGATRON_LM")) {
            draft.noEffect(tensor, "With distributed_type MEGATRON_LM megatron_lm_tp_degree counts.");
        } else {
            draft.ranks(tensor, TENSOR, "Layers are found in the graph, whatever the plan.");
        }
        String shard = PARALLEL + "dp_shard_size";
        if (draft.has(shard) && draft.isWithin(shard, 1, Integer.MAX_VALUE)) {
            if (draft.whole(shard) == 1) {
                draft.noEffect(shard, "With this value it asks for nothing.");
            } else if (hasStrategy()) {
                draft.mapped(shard, "fsdp_config says what they share out.");
            } else {
                draft.mapped(
                        shard,
                        "Processes share out states, gradients and weights; one alone keeps all.",
                        draft.setting("distributed.zero", "3", shard));
            }
        }
        String replicas = PARALLEL + "dp_replicate_size";
        if (draft.has(replicas) && draft.isWithin(replicas, 1, Integer.MAX_VALUE)) {
            draft.noEffect(replicas, "num_processes says how many batches a step has; replicas share out, too.");
        }
    }

    private boolean hasStrategy() {
        return type.equals("FSDP")
                && draft.below("fsdp_config").stream()
                        .filter(key -> key.endsWith("sharding_strategy") || key.endsWith("reshard_after_forward"))
                        .anyMatch(key -> draft.has(key) && STRATEGIES.containsKey(draft.word(key)));
    }

    /** Micro-batches of a process in a step, as far as this file says. */
    private long accumulation() {
        for (String key : List.of(DEEPSPEED + "gradient_accumulation_steps", MEGATRON + "num_micro_batches")) {
            if (draft.has(key)
                    && KeyType.WHOLE.takes(draft.text(key), Section.Kind.NUMBER)
                    && draft.number(key) >= 1
                    && draft.number(key) < 1 << 20) {
                return draft.whole(key);
            }
        }
        return 1;
    }

    private void precision(boolean chained) {
        if (draft.has("fp16")) {
            draft.mapped(
                    "fp16",
                    "An old key, which counts only without mixed_precision.",
                    draft.has(MIXED) || !draft.flag("fp16")
                            ? new Setting[] {}
                            : new Setting[] {
                                draft.setting(MODE, "fp16", "fp16"),
                                draft.setting(PRECISION + "autocast", list(), "fp16")
                            });
        }
        String mode = draft.has(MIXED) ? draft.word(MIXED) : draft.has("fp16") && draft.flag("fp16") ? "fp16" : "";
        if (chained) {
            fp8Unused("The DeepSpeed JSON says the number types.");
            return;
        }
        switch (mode) {
            case "" -> fp8Unused("It counts with mixed_precision: fp8 only.");
            case "no", "false" -> {
                draft.mapped(MIXED, "", draft.setting(MODE, "fp32", MIXED));
                fp8Unused("It counts with mixed_precision: fp8 only, so Accelerate does not read it either.");
            }
            case "fp16", "bf16" -> {
                if (draft.has(MIXED)) {
                    boolean whole = type.equals("DEEPSPEED");
                    draft.mapped(
                            MIXED,
                            whole
                                    ? "DeepSpeed casts the whole model, norms and softmax too."
                                    : mode.equals("fp16")
                                            ? "torch's autocast, with its gradient scaler."
                                            : "torch's autocast; there is no loss scale.",
                            draft.setting(MODE, mode, MIXED),
                            draft.setting(PRECISION + "autocast", whole ? "all" : list(), MIXED));
                }
                fp8Unused("It counts with mixed_precision: fp8 only, so Accelerate does not read it either.");
            }
            case "fp8" -> fp8();
            default ->
                draft.problem(
                        MIXED,
                        "Accelerate has no mixed_precision '" + draft.text(MIXED) + "'",
                        "write no, fp16, bf16 or fp8");
        }
    }

    /** The list of torch's autocast, which differs between processors and GPUs. */
    private String list() {
        return draft.flag("use_cpu") ? "cpu" : "cuda";
    }

    private void fp8Unused(String reason) {
        draft.below(FP8).forEach(key -> draft.noEffect(key, reason));
    }

    /** A key of fp8_config without the prefix that the launcher puts before it. */
    private static String name(String key) {
        return key.substring(FP8.length() + 1).replaceFirst("^fp8_(?!format$)", "");
    }

    /** The key of fp8_config that has this name: the launcher's own spelling, then the questionnaire's; empty where there is none. */
    private String key(String name) {
        String other = UNREAD.entrySet().stream()
                .filter(e -> e.getValue().equals(name))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(name);
        for (String wanted : List.of(name, other)) {
            for (String key : draft.below(FP8)) {
                if (name(key).equals(wanted) && draft.has(key)) {
                    return key;
                }
            }
        }
        return "";
    }

    private void fp8() {
        String backend = key("backend");
        String name = backend.isEmpty() ? "TE" : draft.text(backend).toUpperCase(Locale.ROOT);
        Setting mode = draft.setting(MODE, name.equals("MSAMP") ? "msamp" : "fp8", MIXED);
        switch (name) {
            case "TE" -> transformerEngine(mode, backend);
            case "MSAMP" -> msamp(mode, backend);
            case "AO" -> torchao(mode, backend);
            default -> {
                draft.problem(
                        backend,
                        "Accelerate has no FP8 backend '" + draft.text(backend) + "'",
                        "write TE, MSAMP or AO");
                draft.mapped(MIXED, "", mode);
            }
        }
        for (String key : draft.below(FP8)) {
            if (!draft.decided().contains(key)) {
                draft.noEffect(key, "The backend " + name + " does not read it.");
            }
        }
    }

    private void transformerEngine(Setting mode, String backend) {
        String blocks = key("use_mxfp8_block_scaling");
        boolean mxfp8 = !blocks.isEmpty() && draft.flag(blocks);
        Setting recipe =
                draft.setting(PRECISION + "recipe", mxfp8 ? "mxfp8" : "delayed", backend.isEmpty() ? MIXED : backend);
        Setting filter = draft.setting(PRECISION + "filter", "multiple_of_16", MIXED);
        if (!backend.isEmpty()) {
            draft.mapped(MIXED, "", mode);
            draft.mapped(
                    backend,
                    "Linears whose sizes do not divide by 16 stay narrow; Accelerate also leaves out all that follow"
                            + " such a one in their module.",
                    recipe,
                    filter);
        } else {
            draft.mapped(
                    MIXED,
                    "No backend is named: Accelerate takes AO, TE or MSAMP, whichever is installed; here it is TE.",
                    mode,
                    recipe,
                    filter);
        }
        if (!blocks.isEmpty()) {
            draft.mapped(blocks, mxfp8 ? "" : "Delayed scaling stays.", recipe);
        }
        format(mxfp8);
        history(mxfp8);
        algorithm(mxfp8);
        String margin = key("margin");
        if (!margin.isEmpty()) {
            if (mxfp8) {
                draft.noEffect(margin, "MXFP8 scales have no margin.");
            } else {
                draft.applied(margin, PRECISION + "margin", draft.text(margin), "");
            }
        }
        String interval = key("interval");
        if (!interval.isEmpty()) {
            draft.noEffect(
                    interval,
                    draft.whole(interval) == 1
                            ? "Scales are updated at every step."
                            : "Transformer Engine ignored it, and from 2.2 on it fails with Accelerate's: scales are"
                                    + " updated at every step.");
        }
        override(mxfp8);
        String eval = key("use_autocast_during_eval");
        if (!eval.isEmpty()) {
            if (draft.flag(eval)) {
                draft.noEffect(eval, "Evaluations compute as training does.");
            } else {
                draft.noEffect(eval, "Evaluations compute as training does here, in FP8; with Accelerate they do not.");
            }
        }
    }

    private void format(boolean mxfp8) {
        String key = key("fp8_format").isEmpty() ? key("format") : key("fp8_format");
        if (key.isEmpty()) {
            if (mxfp8) {
                draft.mapped(
                        FP8 + ".fp8_format", "", draft.setting(PRECISION + "fp8_format", "E4M3", FP8 + ".fp8_format"));
            }
            return;
        }
        String format = draft.text(key).toUpperCase(Locale.ROOT);
        switch (format) {
            case "HYBRID" -> {
                if (mxfp8) {
                    // HYBRID equals the default of Accelerate's class and is never sent, so that MXFP8BlockScaling's
                    // own counts
                    draft.mapped(
                            key,
                            "Accelerate does not send HYBRID on, so MXFP8 has its own default, E4M3.",
                            draft.setting(PRECISION + "fp8_format", "E4M3", key));
                } else {
                    draft.applied(key, PRECISION + "fp8_format", format, "");
                }
            }
            case "E4M3" -> draft.applied(key, PRECISION + "fp8_format", format, "");
            case "E5M2" ->
                draft.refused(
                        key, "Transformer Engine refuses E5M2 in training; write HYBRID, with E5M2 for gradients.");
            default -> draft.problem(key, "there is no FP8 format '" + draft.text(key) + "'", "write HYBRID or E4M3");
        }
    }

    private void history(boolean mxfp8) {
        String key = key("amax_history_len");
        if (key.isEmpty()) {
            return;
        }
        if (mxfp8) {
            amaxOfBlocks(key, draft.whole(key) == 1024);
        } else if (draft.number(key) < 1 || draft.number(key) > Integer.MAX_VALUE) {
            draft.problem(key, key + " is " + draft.text(key), "give a whole number of at least 1");
        } else {
            draft.applied(
                    key,
                    PRECISION + "amax_history_len",
                    draft.text(key),
                    unread(key, draft.whole(key) != 1024, "amax_history_len", "1024"));
        }
        twice(key, "amax_history_length");
    }

    /** What Accelerate itself does with an answer in the questionnaire's spelling; empty for the launcher's. */
    private static String unread(String key, boolean differs, String read, String really) {
        if (!UNREAD.containsKey(name(key))) {
            return "";
        }
        return "Accelerate ignores this spelling; it reads " + read
                + (differs ? ", so with it " + really + " counts." : ".");
    }

    /** The questionnaire's spelling beside the launcher's. */
    private void twice(String used, String other) {
        for (String key : draft.below(FP8)) {
            if (name(key).equals(other) && !key.equals(used) && draft.has(key)) {
                draft.noEffect(key, "Accelerate reads " + UNREAD.get(other) + ", which is there too.");
            }
        }
    }

    private void amaxOfBlocks(String key, boolean isDefault) {
        if (isDefault || UNREAD.containsKey(name(key))) {
            draft.noEffect(key, "MXFP8 has no history; Accelerate does not send it on.");
        } else {
            draft.problem(
                    key,
                    "MXFP8 block scaling has no " + name(key) + ", and Accelerate fails with it",
                    "remove the key");
        }
    }

    private void algorithm(boolean mxfp8) {
        String key = key("amax_compute_algo");
        if (key.isEmpty()) {
            return;
        }
        String algorithm = draft.word(key);
        if (!algorithm.equals("max") && !algorithm.equals("most_recent")) {
            draft.problem(key, "there is no algorithm '" + draft.text(key) + "'", "write max or most_recent");
        } else if (mxfp8) {
            amaxOfBlocks(key, algorithm.equals("most_recent"));
        } else if (algorithm.equals("max")) {
            draft.applied(key, PRECISION + "amax_compute_algo", "max", unread(key, false, "amax_compute_algo", "max"));
        } else {
            draft.applied(
                    key,
                    PRECISION + "amax_compute_algo",
                    "most_recent",
                    "Accelerate never sends most_recent on, so with it max counts: --set"
                            + " precision.amax_compute_algo=max.");
        }
        twice(key, "amax_compute_algorithm");
    }

    /** A list of three truths, or the same as text in brackets. */
    private void override(boolean mxfp8) {
        String key = key("override_linear_precision");
        if (key.isEmpty()) {
            return;
        }
        List<String> parts = new ArrayList<>();
        for (String part : draft.text(key).replaceAll("[\\[\\]() ]", "").split(",", -1)) {
            parts.add(part.toLowerCase(Locale.ROOT));
        }
        if (parts.size() != 3 || parts.stream().anyMatch(p -> !KeyType.FLAG.takes(p, Section.Kind.TEXT))) {
            draft.problem(
                    key,
                    "'" + key + "' is " + draft.text(key) + ", not three truths for fprop, dgrad and wgrad",
                    "write [false, false, true], or leave the key out");
            return;
        }
        String text = draft.text(key).strip().startsWith("(")
                ? "Accelerate's launcher takes the characters of this text for the three answers and fails; write a"
                        + " list."
                : "";
        List<String> kept = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            if (KeyType.isTrue(parts.get(i))) {
                kept.add(List.of("fprop", "dgrad", "wgrad").get(i));
            }
        }
        if (kept.isEmpty()) {
            draft.noEffect(key, text.isEmpty() ? "All three products are in FP8." : text);
        } else if (kept.size() == 3) {
            draft.problem(key, "no product is left in FP8", "write mixed_precision: bf16");
        } else {
            draft.mapped(
                    key,
                    text.isEmpty()
                            ? (mxfp8
                                    ? "Accelerate fails with this and MXFP8."
                                    : "Transformer Engine 2 has no such argument and fails.")
                            : text,
                    draft.setting(PRECISION + "high_precision", kept.toString(), key));
        }
    }

    private void msamp(Setting mode, String backend) {
        draft.mapped(MIXED, "", mode);
        draft.mapped(backend, "", mode);
        String key = key("opt_level");
        String level = key.isEmpty() ? "O2" : draft.text(key).toUpperCase(Locale.ROOT);
        String path = key.isEmpty() ? FP8 + ".opt_level" : key;
        if (level.equals("O3")) {
            draft.problem(
                    key,
                    "Accelerate has MS-AMP's levels O1 and O2 only",
                    "write O2, or precision: {opt_level: O3} in --config");
        } else if (!level.matches("O[12]")) {
            draft.problem(key, "MS-AMP has no level '" + draft.text(key) + "'", "write O1 or O2");
        } else {
            String reason = key.isEmpty() ? "" : unread(key, !level.equals("O2"), "opt_level", "O2");
            Setting setting = draft.setting(PRECISION + "opt_level", level, path);
            if (key.isEmpty()) {
                draft.mapped(path, reason, setting);
            } else {
                draft.applied(key, PRECISION + "opt_level", level, reason);
                twice(key, "optimization_level");
            }
        }
    }

    private void torchao(Setting mode, String backend) {
        draft.mapped(MIXED, "", mode);
        draft.mapped(
                backend,
                "Accelerate's own filter: the first and last Linear and sizes that do not divide by 16 stay narrow.",
                draft.setting(PRECISION + "recipe", "tensorwise", backend),
                draft.setting(PRECISION + "filter", "multiple_of_16", backend),
                draft.setting(PRECISION + "exempt_first", "true", backend),
                draft.setting(PRECISION + "exempt_last", "true", backend));
        String gather = key("enable_fsdp_float8_all_gather");
        if (!gather.isEmpty()) {
            draft.noEffect(gather, "It is about sending weights between processes.");
        }
        String pad = key("pad_inner_dim");
        if (!pad.isEmpty()) {
            draft.noEffect(
                    pad,
                    "Zeros at the end of a row change no product; the filter leaves out sizes that would need them.");
        }
    }

    /** What FSDP's strategies share out, by the names and the numbers of torch's ShardingStrategy, and by whether weights are let go of after forward. */
    private static final Map<String, Integer> STRATEGIES = Map.ofEntries(
            Map.entry("full_shard", 3),
            Map.entry("1", 3),
            Map.entry("hybrid_shard", 3),
            Map.entry("4", 3),
            Map.entry("true", 3),
            Map.entry("shard_grad_op", 2),
            Map.entry("2", 2),
            Map.entry("hybrid_shard_zero2", 2),
            Map.entry("5", 2),
            Map.entry("false", 2));

    /** What ranks of FSDP share out, where the file says it. */
    private void strategy(String name) {
        for (String key : List.of("fsdp_config.fsdp_" + name, "fsdp_config." + name)) {
            Integer stage = draft.has(key) ? STRATEGIES.get(draft.word(key)) : null;
            if (stage != null && type.equals("FSDP")) {
                draft.mapped(
                        key,
                        "Processes share out states, gradients" + (stage == 3 ? " and weights" : "")
                                + "; one alone keeps all.",
                        draft.setting("distributed.zero", String.valueOf(stage), key));
            }
        }
    }

    /** Shares, offload and recomputation of FSDP. */
    private void sharded() {
        strategy("sharding_strategy");
        strategy("reshard_after_forward");
        for (String key : draft.below("fsdp_config")) {
            if (draft.isByTable(key) || draft.isMistaken(key)) {
                continue;
            }
            boolean on = type.equals("FSDP") && draft.flag(key);
            if (!on) {
                draft.noEffect(key, type.equals("FSDP") ? "It is off." : "It counts with distributed_type: FSDP only.");
            } else if (key.endsWith("offload_params")) {
                draft.mapped(
                        key,
                        "Moments and masters lie in host memory between their uses, where the device is another.",
                        draft.setting("offload.states", "host", key));
            } else {
                draft.mapped(key, "", draft.setting("gradient_checkpointing.layers", "all", key));
            }
        }
    }

    private void megatron() {
        boolean on = type.equals("MEGATRON_LM");
        for (String name : List.of(
                "tp_degree",
                "pp_degree",
                "sequence_parallelism",
                "use_distributed_optimizer",
                "gradient_clipping",
                "num_micro_batches",
                "recompute_activations",
                "optimizer_cpu_offload")) {
            String key = MEGATRON + name;
            if (!draft.has(key)) {
                continue;
            }
            if (!on) {
                draft.noEffect(key, "It counts with distributed_type: MEGATRON_LM only.");
                continue;
            }
            switch (name) {
                case "tp_degree" -> draft.ranks(key, TENSOR, "Layers are found in the graph, whatever the model.");
                case "pp_degree" ->
                    draft.ranks(key, "distributed.pipeline", "Layers are dealt out by what each costs.");
                case "sequence_parallelism" -> {
                    if (!draft.flag(key)) {
                        draft.noEffect(key, "It is off.");
                    } else if (draft.has(MEGATRON + "tp_degree") && draft.number(MEGATRON + "tp_degree") > 1) {
                        draft.mapped(key, "", draft.setting("distributed.sequence_parallel", "true", key));
                    } else {
                        draft.noEffect(key, "It counts with a tp_degree above 1 only.");
                    }
                }
                case "use_distributed_optimizer" -> {
                    if (draft.flag(key)) {
                        draft.mapped(
                                key,
                                "Processes share out states; one alone keeps all.",
                                draft.setting("distributed.zero", "1", key));
                    } else {
                        draft.noEffect(key, "It is off.");
                    }
                }
                case "gradient_clipping" -> clipping(key);
                case "num_micro_batches" -> {
                    if (draft.number(key) < 1) {
                        draft.problem(key, key + " is " + draft.text(key), "give a whole number of at least 1");
                    } else {
                        accumulated(key);
                    }
                }
                case "recompute_activations" -> {
                    if (draft.flag(key)) {
                        draft.mapped(key, "", draft.setting("gradient_checkpointing.layers", "all", key));
                    } else {
                        draft.noEffect(key, "It is off.");
                    }
                }
                default -> {
                    if (draft.flag(key)) {
                        draft.mapped(key, "", draft.setting("offload.states", "host", key));
                    } else {
                        draft.noEffect(key, "It is off.");
                    }
                }
            }
        }
    }

    private void clipping(String key) {
        if (draft.number(key) > 0) {
            draft.applied(key, "clip_grad_norm", draft.text(key), "");
        } else {
            draft.noEffect(key, "With 0 gradients are not clipped.");
        }
    }

    /** Micro-batches of a step, where num_processes does not multiply them. */
    private void accumulated(String key) {
        if (draft.has(PROCESSES) && draft.number(PROCESSES) > 1) {
            draft.mapped(key, "num_processes multiplies it.");
        } else {
            draft.mapped(key, "", draft.setting("gradient_accumulation", String.valueOf(draft.whole(key)), key));
        }
    }

    /** The DeepSpeed of this file; true where it names a JSON. */
    private boolean deepSpeed() {
        boolean on = type.equals("DEEPSPEED");
        String file = DEEPSPEED + "deepspeed_config_file";
        boolean chained = on && draft.has(file) && !draft.word(file).equals("none");
        for (String key : draft.below("deepspeed_config")) {
            if (draft.isByTable(key) || draft.isMistaken(key)) {
                continue;
            }
            if (!on) {
                draft.noEffect(key, "It counts with distributed_type: DEEPSPEED only.");
            } else if (key.equals(file)) {
                if (chained) {
                    Chained.read(draft, file, given);
                } else {
                    draft.noEffect(key, "It names no file.");
                }
            } else if (chained) {
                draft.problem(
                        key,
                        key + " and a deepspeed_config_file: Accelerate refuses both",
                        "write it into the JSON, and leave it out here");
            } else {
                inline(key);
            }
        }
        if (chained && draft.has(MIXED)) {
            draft.problem(
                    MIXED,
                    "mixed_precision and a deepspeed_config_file: Accelerate refuses both",
                    "write bf16 or fp16 into the JSON, and leave it out here");
        } else if (on && !chained && !draft.has(DEEPSPEED + "gradient_clipping")) {
            draft.mapped(
                    DEEPSPEED + "gradient_clipping",
                    "Accelerate fills it with 1.0.",
                    draft.setting("clip_grad_norm", "1.0", DEEPSPEED + "gradient_clipping"));
        }
        return chained;
    }

    private void inline(String key) {
        String name = key.substring(DEEPSPEED.length());
        if (!draft.has(key)) {
            draft.noEffect(key, draft.isAuto(key) ? "The script says it." : "Null leaves the default.");
            return;
        }
        switch (name) {
            case "zero_stage" -> {
                if (draft.number(key) < 0 || draft.number(key) > 3) {
                    draft.problem(key, "ZeRO has no stage " + draft.text(key), "write 0, 1, 2 or 3");
                } else if (draft.number(key) == 0) {
                    draft.noEffect(key, "Stage 0 splits nothing.");
                } else {
                    draft.mapped(
                            key,
                            "Processes share it out; one alone keeps all.",
                            draft.setting("distributed.zero", String.valueOf(draft.whole(key)), key));
                }
            }
            case "gradient_accumulation_steps" -> {
                if (!KeyType.WHOLE.takes(draft.text(key), Section.Kind.NUMBER) || draft.number(key) < 1) {
                    draft.problem(key, key + " is " + draft.text(key), "give a whole number of at least 1");
                } else {
                    accumulated(key);
                }
            }
            case "gradient_clipping" -> {
                if (!KeyType.NUMBER.takes(draft.text(key), Section.Kind.NUMBER)) {
                    draft.problem(key, key + " is " + draft.text(key), "give a number");
                } else {
                    clipping(key);
                }
            }
            case "offload_optimizer_device" -> offload(key, "offload.states", "offload_optimizer_nvme_path");
            case "offload_param_device" -> {
                if (draft.has(DEEPSPEED + "zero_stage") && draft.whole(DEEPSPEED + "zero_stage") == 3) {
                    offload(key, "offload.parameters", "offload_param_nvme_path");
                } else {
                    draft.noEffect(key, "DeepSpeed offloads weights with stage 3 only.");
                }
            }
            default -> {
                String device = DEEPSPEED + name.replace("_nvme_path", "_device");
                if (!draft.word(device).equals("nvme")) {
                    draft.noEffect(key, "It counts with the device nvme only.");
                } else if (!draft.decided().contains(key)) {
                    draft.mapped(key, "", draft.setting("offload.path", draft.text(key), key));
                }
            }
        }
    }

    private void offload(String key, String here, String path) {
        switch (draft.word(key)) {
            case "none" -> draft.noEffect(key, "Nothing is offloaded.");
            case "cpu" -> draft.mapped(key, "", draft.setting(here, "host", key));
            case "nvme" -> {
                if (draft.has(DEEPSPEED + path)) {
                    draft.mapped(key, "", draft.setting(here, "disk", key));
                } else {
                    draft.problem(key, key + " is nvme, but " + path + " is missing", "add " + path + ": FOLDER");
                }
            }
            default ->
                draft.problem(
                        key, "there is no device '" + draft.text(key) + "' to offload to", "write none, cpu or nvme");
        }
    }
}
