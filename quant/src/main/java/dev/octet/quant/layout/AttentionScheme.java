package dev.octet.quant.layout;

import java.util.Arrays;
import java.util.List;

/** How attention layers are quantised: which of their inputs have static scales of E4M3, and how many. */
public enum AttentionScheme {
    /** Not at all. */
    NONE("none", List.of(), false),
    /** Cached keys and values, with one scale for all heads. */
    CACHE("--kv-cache fp8", AttentionInput.CACHED, false),
    /** Cached keys and values, with a scale for each head. */
    CACHE_PER_HEAD("--kv-cache fp8-per-head", AttentionInput.CACHED, true),
    /** Queries, keys and values, with one scale for all heads. */
    ALL("--attention fp8", List.of(AttentionInput.values()), false),
    /** Queries, keys and values, with a scale for each head. */
    ALL_PER_HEAD("--attention fp8-per-head", List.of(AttentionInput.values()), true);

    private final String option;
    private final List<AttentionInput> inputs;
    private final boolean perHead;

    AttentionScheme(String option, List<AttentionInput> inputs, boolean perHead) {
        this.option = option;
        this.inputs = inputs;
        this.perHead = perHead;
    }

    /** The scheme of layers that have scales of a cache. */
    public static AttentionScheme of(boolean queries, boolean perHead) {
        return Arrays.stream(values())
                .filter(s -> s != NONE && s.queries() == queries && s.perHead == perHead)
                .findFirst()
                .orElseThrow();
    }

    /** As {@code octet quantize} is asked for it. */
    public String option() {
        return option;
    }

    /** The inputs that have scales. */
    public List<AttentionInput> inputs() {
        return inputs;
    }

    /** Whether queries have scales too. */
    public boolean queries() {
        return inputs.contains(AttentionInput.Q);
    }

    /** Whether each head has its own scale: of queries as many as there are heads, of keys and values as many as those have. */
    public boolean perHead() {
        return perHead;
    }
}
