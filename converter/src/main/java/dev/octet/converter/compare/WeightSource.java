package dev.octet.converter.compare;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** The weights of one model. Closing ends all reading. */
interface WeightSource extends AutoCloseable {
    /** What the file is, in a word or two: {@code safetensors, fp8}. */
    String format();

    /** Weights that can be compared, by name, in the order of the model. */
    Map<String, Weight> weights();

    /** Weights that cannot be compared, and why. */
    Map<String, String> problems();

    /** Whether a weight without counterpart is worth telling. */
    default boolean listed(Weight weight) {
        return true;
    }

    /** Sentences about the model as a whole. */
    List<String> notes();

    @Override
    void close() throws IOException;
}
