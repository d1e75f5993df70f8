package dev.octet.converter.gguf;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A family of models that llama.cpp and transformers both know, and how the files of the one differ from those of the other. One more family is
 * one more constant. Source: llama.cpp, conversion scripts (permutation, norms) and src/llama-arch.cpp (names).
 */
enum GgufFamily {
    /** Llama and Mistral: rows of q and k are reordered, since llama.cpp rotates neighbouring elements there. */
    LLAMA("llama", List.of("llama", "mistral"), "LlamaForCausalLM", Trait.INTERLEAVED_ROTATION),
    QWEN2("qwen2", List.of("qwen2"), "Qwen2ForCausalLM"),
    QWEN3("qwen3", List.of("qwen3"), "Qwen3ForCausalLM", Trait.HEAD_SIZE),
    /** Norms are stored plus one, the output layer is the embedding. */
    GEMMA("gemma", List.of("gemma"), "GemmaForCausalLM", Trait.HEAD_SIZE, Trait.NORM_OFFSET, Trait.TIED),
    /** As Gemma, with norms behind attention and MLP, caps and windows. */
    GEMMA2(
            "gemma2",
            List.of("gemma2"),
            "Gemma2ForCausalLM",
            Trait.HEAD_SIZE,
            Trait.NORM_OFFSET,
            Trait.TIED,
            Trait.OUTPUT_NORMS);

    /** What a family's files have. */
    enum Trait {
        INTERLEAVED_ROTATION,
        NORM_OFFSET,
        OUTPUT_NORMS,
        /** There is no output layer of its own. */
        TIED,
        /** Heads have a size of their own, {@code attention.key_length}. */
        HEAD_SIZE
    }

    private final String architecture;

    @SuppressWarnings("ImmutableEnumChecker") // nobody changes it
    private final List<String> modelTypes;

    private final String modelClass;

    @SuppressWarnings("ImmutableEnumChecker") // nobody changes it
    private final Set<Trait> traits = EnumSet.noneOf(Trait.class);

    GgufFamily(String architecture, List<String> modelTypes, String modelClass, Trait... traits) {
        this.architecture = architecture;
        this.modelTypes = modelTypes;
        this.modelClass = modelClass;
        this.traits.addAll(List.of(traits));
    }

    /** {@code general.architecture}. */
    String architecture() {
        return architecture;
    }

    /** {@code model_type} of a folder that is made of a file. */
    String modelType() {
        return modelTypes.getFirst();
    }

    /** Class of transformers. */
    String modelClass() {
        return modelClass;
    }

    boolean has(Trait trait) {
        return traits.contains(trait);
    }

    /** The family of {@code general.architecture}. */
    static Optional<GgufFamily> ofArchitecture(String architecture) {
        return Arrays.stream(values())
                .filter(f -> f.architecture.equals(architecture))
                .findFirst();
    }

    /** The family of {@code model_type}. */
    static Optional<GgufFamily> ofModelType(String type) {
        return Arrays.stream(values()).filter(f -> f.modelTypes.contains(type)).findFirst();
    }

    /** All of {@code general.architecture}, for messages. */
    static String architectures() {
        return Arrays.stream(values()).map(GgufFamily::architecture).collect(Collectors.joining(", "));
    }

    /** All of {@code model_type}, for messages. */
    static String allModelTypes() {
        return Arrays.stream(values()).flatMap(f -> f.modelTypes.stream()).collect(Collectors.joining(", "));
    }
}
