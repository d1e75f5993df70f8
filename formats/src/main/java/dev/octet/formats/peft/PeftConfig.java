package dev.octet.formats.peft;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.core.util.Separators;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.safetensors.SafetensorsFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * An adapter's {@code adapter_config.json}: the JSON object with all its keys, known and unknown, and views of the known ones by type.
 * Immutable. A key that is missing or {@code null} has PEFT's default; only {@code peft_type} must be there.
 */
public final class PeftConfig {
    /** The file of the configuration. */
    public static final String FILE_NAME = SafetensorsFormat.ADAPTER_CONFIG;

    private static final ObjectMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
                    .disable(JsonWriteFeature.WRITE_HEX_UPPER_CASE)
                    .build())
            .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
            .enable(JsonNodeFeature.WRITE_PROPERTIES_SORTED)
            .enable(SerializationFeature.INDENT_OUTPUT)
            .build();

    private final ObjectNode json;
    private final ConfigKeys keys;
    private final PeftType type;
    private final @Nullable LoraConfig lora;
    private final @Nullable Ia3Config ia3;
    private final @Nullable PromptConfig prompt;
    private final @Nullable TargetModules targets;

    private PeftConfig(ObjectNode json, String where) {
        this.json = json;
        this.keys = new ConfigKeys(json, where);
        this.type = type(json, keys);
        this.lora = type == PeftType.LORA ? new LoraConfig(keys) : null;
        this.ia3 = type == PeftType.IA3 ? new Ia3Config(keys) : null;
        this.prompt = type.isPrompt() ? new PromptConfig(keys, type) : null;
        this.targets = switch (type) {
            case LORA -> Objects.requireNonNull(lora).targetModules();
            case IA3 -> Objects.requireNonNull(ia3).targetModules();
            case LN_TUNING, BOTTLENECK -> new TargetModules(keys);
            case PROMPT_TUNING, P_TUNING, PREFIX_TUNING -> null;
        };
        baseModel();
        taskType();
    }

    private static PeftType type(ObjectNode json, ConfigKeys keys) {
        Optional<String> name = keys.text("peft_type");
        if (name.isEmpty()) {
            JsonNode config = json.get("config");
            boolean adapterHub = config != null && config.isObject();
            throw new MalformedModelException(
                    adapterHub
                            ? "peft_type is missing; the file has the form of AdapterHub's library, not of PEFT"
                            : "peft_type is missing",
                    keys.where(),
                    adapterHub
                            ? "export the adapter with PEFT"
                            : "add the method, for example \"peft_type\": \"LORA\"");
        }
        return PeftType.of(name.get(), keys.where("peft_type"));
    }

    /**
     * The configuration in a JSON object, which is copied.
     *
     * @throws MalformedModelException when {@code peft_type} is missing, or a key has a value of a wrong type
     * @throws dev.octet.formats.error.UnsupportedModelException when {@code peft_type} is none of {@link PeftType}
     */
    public static PeftConfig of(ObjectNode json) {
        return of(json, "the configuration of the adapter");
    }

    /**
     * As {@link #of(ObjectNode)}.
     *
     * @param where the source of the object, for messages
     */
    public static PeftConfig of(ObjectNode json, String where) {
        return new PeftConfig(json.deepCopy(), where);
    }

    /**
     * Reads {@code adapter_config.json}.
     *
     * @param file the file itself
     * @throws NoSuchFileException when there is no such file
     * @throws MalformedModelException when the file is not a JSON object, too long or too deep; and as {@link #of(ObjectNode)}
     * @throws dev.octet.formats.error.UnsupportedModelException as {@link #of(ObjectNode)}
     */
    public static PeftConfig read(Path file) throws IOException {
        Path absolute = file.toAbsolutePath();
        Path folder = absolute.getParent();
        Path name = absolute.getFileName();
        if (folder == null || name == null || !Files.exists(file)) {
            throw new NoSuchFileException(file.toString());
        }
        ObjectNode json = ModelConfig.read(folder, name.toString())
                .orElseThrow(() -> new MalformedModelException(
                        name + " is not a file", file.toString(), "put the adapter's own " + name + " there"));
        return new PeftConfig(json, file.toString());
    }

    /** The method. */
    public PeftType type() {
        return type;
    }

    /** Path or name of the base: {@code base_model_name_or_path}; empty when the key is missing, null or an empty text. */
    public Optional<String> baseModel() {
        return keys.text("base_model_name_or_path").filter(name -> !name.isBlank());
    }

    /** {@code task_type}, for example {@code CAUSAL_LM}. */
    public Optional<String> taskType() {
        return keys.text("task_type");
    }

    /** A copy of the whole object. */
    public ObjectNode json() {
        return json.deepCopy();
    }

    /** Whether the configuration has this key, whatever its value. */
    public boolean has(String key) {
        return json.has(key);
    }

    /** Where the configuration comes from, for messages. */
    public String where() {
        return keys.where();
    }

    /**
     * The keys of a LoRA adapter.
     *
     * @throws IllegalStateException for another method
     */
    public LoraConfig lora() {
        return require(lora);
    }

    /**
     * The keys of an IA3 adapter.
     *
     * @throws IllegalStateException for another method
     */
    public Ia3Config ia3() {
        return require(ia3);
    }

    /**
     * The keys of an adapter of virtual tokens.
     *
     * @throws IllegalStateException for another method
     */
    public PromptConfig prompt() {
        return require(prompt);
    }

    private <T> T require(@Nullable T view) {
        if (view == null) {
            throw new IllegalStateException("an adapter of " + type + " has no such keys");
        }
        return view;
    }

    /** Which modules the adapter changes; empty for virtual tokens. */
    public Optional<TargetModules> targets() {
        return Optional.ofNullable(targets);
    }

    /** Names of modules that are trained and saved whole: {@code modules_to_save}. */
    public List<String> modulesToSave() {
        return keys.namesOrName("modules_to_save").orElse(List.of());
    }

    /**
     * A copy in which every key that PEFT 0.21 writes for this method is there, with PEFT's default where this configuration has none. Own
     * keys stay.
     */
    public PeftConfig withDefaults() {
        ObjectNode all = PeftDefaults.of(type);
        all.setAll(json);
        return new PeftConfig(all, keys.where());
    }

    /** A copy with another base. */
    public PeftConfig withBaseModel(String base) {
        return new PeftConfig(json.deepCopy().put("base_model_name_or_path", base), keys.where());
    }

    /** The text of the file: keys sorted, two blanks for each level, all characters ASCII, as Python's {@code json} writes it. */
    public String toText() {
        DefaultIndenter indenter = new DefaultIndenter("  ", "\n");
        DefaultPrettyPrinter printer = new DefaultPrettyPrinter(Separators.createDefaultInstance()
                .withObjectFieldValueSpacing(Separators.Spacing.AFTER)
                .withObjectEmptySeparator("")
                .withArrayEmptySeparator(""));
        printer.indentObjectsWith(indenter);
        printer.indentArraysWith(indenter);
        try {
            return JSON.writer(printer).writeValueAsString(json);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("an object in memory is always text", e);
        }
    }

    /** Two configurations are equal if their objects are; the order of keys does not matter. */
    @Override
    public boolean equals(Object o) {
        return o instanceof PeftConfig other && json.equals(other.json);
    }

    @Override
    public int hashCode() {
        return json.hashCode();
    }

    @Override
    public String toString() {
        return type + " " + json;
    }
}
