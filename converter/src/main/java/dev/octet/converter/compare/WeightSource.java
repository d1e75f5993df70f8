package dev.octet.converter.compare;

import java.io.IOException;
import java.util.List;
import java.util.Map;

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

    /** Sentences about the model as a whole. */
    List<String> notes();

    @Override
    void close() throws IOException;
}
