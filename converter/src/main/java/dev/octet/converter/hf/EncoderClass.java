package dev.octet.converter.hf;

import java.util.Arrays;
import java.util.List;

/** The classes that transformers has of each encoder of tokens, which differ in what stands behind the layers ({@link EncoderHeads}). */
enum EncoderClass {
    /** The last layer's output. */
    BARE("Model"),
    /** Scores of all words for each token. */
    MASKED_LM("ForMaskedLM"),
    /** Scores of classes for each sample. */
    SEQUENCES("ForSequenceClassification"),
    /** Scores of classes for each token. */
    TOKENS("ForTokenClassification"),
    /** Scores of each token as the first of an answer, and as the last. */
    ANSWERS("ForQuestionAnswering");

    private final String ending;

    EncoderClass(String ending) {
        this.ending = ending;
    }

    /** The class of a family: {@code BertForMaskedLM}. */
    String of(String family) {
        return family + ending;
    }

    /** All classes of a family, the bare one first. */
    static List<String> all(String family) {
        return Arrays.stream(values()).map(c -> c.of(family)).toList();
    }

    /**
     * Which class a name is of.
     *
     * @param modelClass one of {@link #all}
     */
    static EncoderClass named(String modelClass) {
        return Arrays.stream(values())
                .filter(c -> modelClass.endsWith(c.ending))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(modelClass + " is no class of an encoder of tokens"));
    }
}
