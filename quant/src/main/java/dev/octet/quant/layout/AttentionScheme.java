package dev.octet.quant.layout;

import java.util.List;

/** How attention layers are quantised: which of their inputs have static scales of E4M3, and how many. */
public enum AttentionScheme {
    /** Not at all. */
    NONE("none"),
    /** Cached keys and values, with one scale for all heads. */
    CACHE("--kv-cache fp8"),
    /** Cached keys and values, with a scale for each head. */
    CACHE_PER_HEAD("--kv-cache fp8-per-head"),
    /** Queries, keys and values, with one scale for all heads. */
    ALL("--attention fp8"),
    /** Queries, keys and values, with a scale for each head. */
    ALL_PER_HEAD("--attention fp8-per-head");

    private final String option;

    AttentionScheme(String option) {
        this.option = option;
    }

    /** As {@code octet quantize} is asked for it. */
    public String option() {
        return option;
    }

    /** The inputs that have scales. */
    public List<AttentionInput> inputs() {
        return switch (this) {
            case NONE -> List.of();
            case CACHE, CACHE_PER_HEAD -> AttentionInput.CACHED;
            case ALL, ALL_PER_HEAD -> List.of(AttentionInput.values());
        };
    }

    /** Whether queries have scales too. */
    public boolean queries() {
        return this == ALL || this == ALL_PER_HEAD;
    }

    /** Whether each head has its own scale: of queries as many as there are heads, of keys and values as many as those have. */
    public boolean perHead() {
        return this == CACHE_PER_HEAD || this == ALL_PER_HEAD;
    }

    /** The same of cached keys and values alone. */
    public AttentionScheme ofCache() {
        return switch (this) {
            case ALL -> CACHE;
            case ALL_PER_HEAD -> CACHE_PER_HEAD;
            case NONE, CACHE, CACHE_PER_HEAD -> this;
        };
    }

    /** The same with one scale for all heads. */
    public AttentionScheme forAllHeads() {
        return switch (this) {
            case CACHE_PER_HEAD -> CACHE;
            case ALL_PER_HEAD -> ALL;
            case NONE, CACHE, ALL -> this;
        };
    }

    /** The same with a scale for each head. */
    public AttentionScheme forEachHead() {
        return switch (this) {
            case CACHE -> CACHE_PER_HEAD;
            case ALL -> ALL_PER_HEAD;
            case NONE, CACHE_PER_HEAD, ALL_PER_HEAD -> this;
        };
    }
}
