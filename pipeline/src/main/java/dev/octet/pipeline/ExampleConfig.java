package dev.octet.pipeline;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;

/** Configurations of training to start from: complete, with a comment on every key that is likely to be changed. */
public enum ExampleConfig {
    /** Fine-tunes a language model on texts. */
    LANGUAGE_MODEL("lm"),
    /** Trains an adapter over a language model. */
    ADAPTER("lora"),
    /** Fine-tunes a classifier on texts with labels. */
    CLASSIFIER("classifier"),
    /** A model learns to answer as another does. */
    DISTILLATION("distillation"),
    /** Quantisation-aware training: a model gets used to the FP8 it will be deployed in. */
    QUANTIZATION_AWARE("qat"),
    /** Trains a language model from random weights. */
    FROM_SCRATCH("pretrain");

    private final String key;

    ExampleConfig(String key) {
        this.key = key;
    }

    /** All of them. */
    public static List<ExampleConfig> all() {
        return List.of(values());
    }

    /** Their names. */
    public static List<String> names() {
        return all().stream().map(ExampleConfig::key).toList();
    }

    /** Its name on a command line. */
    public String key() {
        return key;
    }

    /** The configuration, as YAML with comments. */
    public String text() {
        try (InputStream in =
                Objects.requireNonNull(ExampleConfig.class.getResourceAsStream("examples/" + key + ".yaml"), key)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
