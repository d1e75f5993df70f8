package dev.octet.formats.onnx;

/**
 * How much structure a model file may make the reader build. They bound heap use by what a file of any size can ask for; tensor
 * data is not counted, for it stays in the mapped file.
 *
 * @param messageDepth protobuf messages inside one another, the model being the first; one nested subgraph takes three. 100 is
 *     what protobuf's own readers allow, so a deeper model opens nowhere else either
 * @param messages protobuf messages in all: nodes, attributes, value types, dimensions. A language model of 100 layers has about
 *     300,000
 * @param values fields and list elements in all, tensor data left out
 * @param textBytes bytes of names, documentation, text and pass-through fields in all; tensors that can only be passed through
 *     count again
 */
public record OnnxLimits(int messageDepth, long messages, long values, long textBytes) {
    /**
     * Wide enough for every model known to us, narrow enough that the worst file within them (a million empty tensors, 15 MB) opens in
     * a heap of 1 GiB.
     */
    public static final OnnxLimits DEFAULT = new OnnxLimits(100, 1_000_000, 8_000_000, 256L << 20);

    /** Largest file that protobuf can hold: 2 GiB less one byte. Larger models keep their tensors in external data. */
    public static final long MAX_FILE_BYTES = Integer.MAX_VALUE;

    public OnnxLimits {
        if (messageDepth < 1 || messages < 1 || values < 1 || textBytes < 1) {
            throw new IllegalArgumentException("limits are at least 1");
        }
    }
}
