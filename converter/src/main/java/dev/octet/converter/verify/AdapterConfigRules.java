package dev.octet.converter.verify;

import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** What an adapter's configuration asks of its readers. */
final class AdapterConfigRules {
    private static final String PEFT_HELPER = "vllm-project/vllm:vllm/lora/peft_helper.py";
    private static final String LORA_MODEL = "vllm-project/vllm:vllm/lora/lora_model.py";
    private static final String CONFIG = "huggingface/peft:src/peft/tuners/lora/config.py";

    /** vLLM's default of {@code --max-lora-rank}. */
    static final int DEFAULT_RANK_LIMIT = 16;

    /** The values that vLLM takes for {@code --max-lora-rank}. */
    private static final List<Integer> RANK_LIMITS = List.of(8, 16, 32, 64, 128, 256, 320, 512);

    /** Tables whose weight vLLM skips in an adapter, as it skips these keys. */
    private static final Set<String> VLLM_TABLES = Set.of("embed_tokens", "lm_head");

    private AdapterConfigRules() {}

    /** The method. */
    static final AdapterRule METHOD = Demand.error("adapter-method", Consumer.OF_ADAPTERS)
            .text("The consumer reads adapters of this method: vLLM LoRA alone, PEFT all but bottleneck adapters.")
            .fix("train a LoRA, or merge the adapter into its base")
            .source(PEFT_HELPER + ", huggingface/peft:src/peft/utils/peft_types.py")
            .onAdapters(AdapterConfigRules::method);

    private static void method(AdapterSubject subject, Report report) {
        PeftType type = subject.config().type();
        if (type != PeftType.LORA) {
            report.add(Set.of(Consumer.VLLM), "vLLM serves LoRA adapters only", type.name(), "");
        }
        if (!type.isOfPeft()) {
            report.add(Set.of(Consumer.PEFT), "PEFT does not have this method", type.name(), "");
        }
    }

    /** Keys without which vLLM refuses. */
    static final AdapterRule KEYS = Demand.error("adapter-keys", Consumer.VLLM)
            .text("adapter_config.json has r, lora_alpha and target_modules: vLLM has no defaults for them.")
            .fix("write the keys with the values that the adapter was trained with")
            .source(PEFT_HELPER)
            .onAdapters((subject, report) -> {
                if (subject.config().type() == PeftType.LORA) {
                    for (String key : List.of("r", "lora_alpha", "target_modules")) {
                        if (!subject.config().has(key)) {
                            report.add("a key is missing in adapter_config.json", key, "");
                        }
                    }
                }
            });

    /** Trained norms. */
    static final AdapterRule DORA = Demand.error("adapter-dora", Consumer.VLLM)
            .text("The adapter is no DoRA: vLLM refuses use_dora and lora_magnitude_vector.")
            .fix("merge the adapter into its base, or train without use_dora")
            .source(PEFT_HELPER + ", vllm-project/vllm#9280, " + LORA_MODEL)
            .onAdapters((subject, report) -> {
                if (lora(subject) && subject.config().lora().useDora()) {
                    report.add("use_dora is true", PeftConfig.FILE_NAME, "");
                }
                subject.adapter().modules().forEach((path, module) -> {
                    if (module.tensor(PeftRole.LORA_MAGNITUDE).isPresent()) {
                        report.add("a module has norms of DoRA", path, "");
                    }
                });
            });

    /** Modules that were trained whole. */
    static final AdapterRule MODULES_TO_SAVE = Demand.error("adapter-modules-to-save", Consumer.VLLM)
            .text("No module was trained whole: vLLM refuses modules_to_save, and tensors that are no factors.")
            .fix("merge the adapter into its base, or train the module with a product (add it to target_modules)")
            .source(PEFT_HELPER + ", hiyouga/LLaMA-Factory#9545, " + LORA_MODEL)
            .onAdapters(AdapterConfigRules::modulesToSave);

    private static void modulesToSave(AdapterSubject subject, Report report) {
        subject.config().modulesToSave().forEach(name -> report.add("modules_to_save names a module", name, ""));
        subject.adapter().saved().keySet().stream()
                .filter(path -> !path.endsWith(".bias")) // adapter-bias
                .forEach(path -> report.add("a parameter of the base is stored whole", path, ""));
        subject.adapter().modules().forEach((path, module) -> {
            String name = path.substring(path.lastIndexOf('.') + 1);
            if (module.tensor(PeftRole.BASE_WEIGHT).isPresent() && !VLLM_TABLES.contains(name)) {
                report.add("a target module is stored with its weight of the base", path, "");
            }
            if (module.tensor(PeftRole.TOKENS).isPresent()) {
                report.add("vectors of single tokens are stored", path, "");
            }
        });
    }

    /** Biases. */
    static final AdapterRule BIAS = Demand.error("adapter-bias", Consumer.VLLM)
            .text("The adapter trains no bias: bias is none, lora_bias false.")
            .fix("merge the adapter into its base, or train with bias: none and lora_bias: false")
            .source("vllm-project/vllm:vllm/lora/utils.py, vllm-project/vllm:tests/lora/test_peft_helper.py")
            .onAdapters((subject, report) -> {
                if (lora(subject) && subject.config().lora().bias() != LoraConfig.Bias.NONE) {
                    String bias = subject.config().lora().bias().name().toLowerCase(Locale.ROOT);
                    report.add("bias is not none", PeftConfig.FILE_NAME, bias);
                }
                for (String key : subject.adapter().tensors().keySet()) {
                    if (lora(subject) && key.endsWith(".bias")) {
                        report.add("a bias is stored", key, "");
                    }
                }
            });

    /** Ranks. */
    static final AdapterRule RANK_LIMIT = Demand.error("adapter-rank-limit", Consumer.VLLM)
            .text("No rank is above vLLM's largest --max-lora-rank, 512; above its default, 16, the server must be"
                    + " started with it.")
            .fix("start vLLM with --max-lora-rank as named, or train with a smaller r")
            .source(PEFT_HELPER + ", vllm-project/vllm:vllm/config/lora.py")
            .onAdapters(AdapterConfigRules::rankLimit);

    private static void rankLimit(AdapterSubject subject, Report report) {
        if (!lora(subject)) {
            return;
        }
        LoraConfig lora = subject.config().lora();
        int rank = Math.max(
                lora.r(),
                lora.rankPattern().values().stream()
                        .mapToInt(Integer::intValue)
                        .max()
                        .orElse(0));
        if (rank > RANK_LIMITS.getLast()) {
            report.add("the rank is above the largest that vLLM takes", "r", rank + " > " + RANK_LIMITS.getLast());
        } else if (rank > DEFAULT_RANK_LIMIT) {
            int limit = RANK_LIMITS.stream().filter(l -> l >= rank).findFirst().orElseThrow();
            report.add(
                    Severity.WARNING,
                    "the rank is above vLLM's default limit",
                    "r",
                    rank + " > " + DEFAULT_RANK_LIMIT + "; start it with --max-lora-rank " + limit);
        }
    }

    /** Scalings that differ by module. */
    static final AdapterRule PATTERNS = Demand.error("adapter-patterns", Consumer.VLLM)
            .text("All modules have one scaling: vLLM ignores rank_pattern and alpha_pattern and takes lora_alpha /"
                    + " r for all.")
            .fix("merge the adapter into its base, or train with one r and lora_alpha")
            .source(PEFT_HELPER + ", vllm-project/vllm:vllm/lora/lora_weights.py")
            .onAdapters(AdapterConfigRules::patterns);

    private static void patterns(AdapterSubject subject, Report report) {
        if (!lora(subject)) {
            return;
        }
        LoraConfig lora = subject.config().lora();
        double all = lora.loraAlpha() / (lora.useRslora() ? Math.sqrt(lora.r()) : lora.r());
        subject.adapter().modules().keySet().forEach(path -> {
            if (lora.scaling(path) != all) {
                report.add(
                        "the scaling of a module differs from lora_alpha / r",
                        path,
                        String.format(Locale.ROOT, "%.4g instead of %.4g", lora.scaling(path), all));
            }
        });
    }

    /** Variants of LoRA that neither Octet nor vLLM computes. */
    static final AdapterRule VARIANT = Demand.error("adapter-variant", Consumer.VLLM)
            .text("No key asks for a variant that vLLM ignores: it would compute something else without a word.")
            .fix("serve the adapter with PEFT, or train a plain LoRA")
            .source(PEFT_HELPER + ", " + CONFIG)
            .onAdapters((subject, report) -> {
                if (lora(subject)) {
                    subject.config()
                            .lora()
                            .foreignKeys()
                            .forEach(key -> report.add("a key changes what the adapter computes", key, ""));
                }
            });

    /** The base's name. */
    static final AdapterRule BASE_NAME = Demand.warning("adapter-base-name", Consumer.OF_ADAPTERS)
            .text("base_model_name_or_path names the base: without it no tool can find or check it.")
            .fix("write the name or path of the base into adapter_config.json")
            .source("huggingface/peft:src/peft/auto.py, vllm-project/vllm:vllm/entrypoints/openai/serving_models.py")
            .onAdapters((subject, report) -> {
                if (subject.config().baseModel().isEmpty()) {
                    report.add("base_model_name_or_path is missing or empty", PeftConfig.FILE_NAME, "");
                }
            });

    /** Names of tables. */
    static final AdapterRule EMBEDDING_NAME = Demand.error("adapter-embedding-name", Consumer.VLLM)
            .text("Only the tables embed_tokens and lm_head have products: vLLM finds no others.")
            .fix("merge the adapter into its base, or train without the table")
            .source("vllm-project/vllm:vllm/lora/utils.py, " + LORA_MODEL)
            .onAdapters((subject, report) -> subject.adapter().modules().forEach((path, module) -> {
                String name = path.substring(path.lastIndexOf('.') + 1);
                if (module.tensor(PeftRole.LORA_EMBEDDING_A).isPresent() && !VLLM_TABLES.contains(name)) {
                    report.add("a table of another name has a product", path, "");
                }
            }));

    /** Keys as PEFT writes them. */
    static final AdapterRule KEY_NAME = Demand.error("adapter-key-name", Consumer.OF_ADAPTERS)
            .text("Keys are base_model.model. + module + suffix, without the adapter's name: readers ignore others,"
                    + " or refuse them.")
            .fix("save with save_pretrained of PEFT, which removes the adapter's name and adds the prefix")
            .source("huggingface/peft:src/peft/utils/save_and_load.py, vllm-project/vllm:vllm/lora/utils.py")
            .onAdapters(AdapterConfigRules::keyName);

    private static void keyName(AdapterSubject subject, Report report) {
        PeftAdapter adapter = subject.adapter();
        for (String key : adapter.tensors().keySet()) {
            PeftKeys.Place place = PeftKeys.parse(key);
            if (place.role() == PeftRole.SAVED && (key.contains(".lora_") || key.contains(".ia3_"))) {
                report.add("a key has parts that no reader expects, such as the adapter's name", key, "");
            } else if (place.role() != PeftRole.PROMPT && !key.startsWith(PeftKeys.PREFIX)) {
                report.add(Set.of(Consumer.PEFT), "a key lacks the prefix " + PeftKeys.PREFIX, key, "");
            } else if (!place.key().equals(key)) {
                report.add("a key has an old spelling", key, "now " + place.key());
            }
        }
    }

    private static boolean lora(AdapterSubject subject) {
        return subject.config().type() == PeftType.LORA;
    }
}
