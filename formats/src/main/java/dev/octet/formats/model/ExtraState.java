package dev.octet.formats.model;

import java.util.List;

/**
 * What Transformer Engine keeps of the FP8 training of one module next to its weights, under {@code MODULE._extra_state}, as it was stored.
 *
 * @param module its name in the checkpoint; of a shard of Megatron with {@code /shard_...} behind it
 * @param linears modules of the weights that it is of, as the checkpoint names them: the module itself, or what a format makes of it
 * @param bytes a tensor's bytes, or an object's of {@code torch.save}; callers must not change them
 * @param where the file, for messages
 */
@SuppressWarnings("ArrayRecordComponent") // compared by nobody
public record ExtraState(String module, List<String> linears, byte[] bytes, String where) {
    public ExtraState {
        linears = List.copyOf(linears);
    }

    /** The state of a module that keeps its name. */
    public ExtraState(String module, byte[] bytes, String where) {
        this(module, List.of(module), bytes, where);
    }

    /** What names of these tensors and objects end in. */
    public static final String NAME = "_extra_state";

    /** Longest that is read; a module of a thousand experts with histories of a thousand rows has some 20 MB. */
    public static final long MAX_BYTES = 64L << 20;

    /** What a user is told of those that a reader of weights leaves out. */
    public static String leftOut(long count) {
        return count + (count == 1 ? " state" : " states") + " of FP8 training (" + NAME
                + ") left out: no weights; octet inspect shows them";
    }

    /** The module of a tensor or object; its name without {@link #NAME}. */
    public static String moduleOf(String name) {
        return name.replace("." + NAME, "").replace(NAME, "");
    }
}
