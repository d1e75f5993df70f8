package dev.octet.converter.compare;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The weights of one model; unreadable after closing. */
interface WeightSource extends AutoCloseable {
    /** The format of the file in a few words: {@code safetensors, fp8}. */
    String format();

    /** Weights that can be compared, by name, in the order of the model. */
    Map<String, Weight> weights();

    /** Weights that cannot be compared, with the reason. */
    Map<String, String> problems();

    /** Whether to report a weight that has no counterpart. */
    default boolean listed(Weight weight) {
        return true;
    }

    /** How the file says that its weights were rounded, {@code gptq} or {@code nearest}; empty when it does not say. */
    default Optional<String> rounding() {
        return Optional.empty();
    }

    /** Sentences about the model as a whole. */
    List<String> notes();

    @Override
    void close() throws IOException;
}
