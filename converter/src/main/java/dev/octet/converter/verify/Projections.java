package dev.octet.converter.verify;

import java.util.Set;

/** How inference engines split the well-known products of transformers among devices. */
enum Projections {
    /** Each device computes some of the outputs. */
    BY_OUTPUT,
    /** Each device takes some of the inputs; the results are added. */
    BY_INPUT,
    /** Every device has the whole. */
    WHOLE,
    /** Not a well-known product. */
    UNKNOWN;

    private static final Set<String> OUTPUTS = Set.of(
            "q_proj",
            "k_proj",
            "v_proj",
            "gate_proj",
            "up_proj",
            "w1",
            "w3",
            "q_b_proj",
            "kv_b_proj",
            "qkv_proj",
            "gate_up_proj",
            "query_key_value",
            "Wqkv",
            "c_fc",
            "fc1",
            "dense_h_to_4h");
    private static final Set<String> INPUTS =
            Set.of("o_proj", "down_proj", "w2", "out_proj", "fc2", "dense_4h_to_h", "wo");
    private static final Set<String> WHOLES = Set.of("q_a_proj", "kv_a_proj_with_mqa");

    /** By the last part of the module's path. */
    static Projections of(String last) {
        if (OUTPUTS.contains(last)) {
            return BY_OUTPUT;
        }
        if (INPUTS.contains(last)) {
            return BY_INPUT;
        }
        return WHOLES.contains(last) ? WHOLE : UNKNOWN;
    }
}
