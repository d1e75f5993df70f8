package dev.octet.formats.onnx;

/**
 * Limits of a model's structure. They bound the heap that a file of any size can require; tensor data does not count, because it stays in
 * the mapped file.
 *
 * @param messageDepth nesting depth of protobuf messages, the model being level 1; a nested subgraph takes three levels. protobuf's own
 *     readers allow 100, so no other reader opens a deeper model
 * @param messages total protobuf messages: nodes, attributes, value types, dimensions. A language model of 100 layers has about 300,000
 * @param values total fields and list elements, without tensor data
 * @param textBytes total bytes of names, documentation, text and pass-through fields; tensors that can only be passed through count again
 */
public record OnnxLimits(int messageDepth, long messages, long values, long textBytes) {
    /**
     * Wide enough for every model known to us; the worst file within these limits (a million empty tensors, 15 MB) opens in a heap of 1
     * GiB.
     */
    public static final OnnxLimits DEFAULT = new OnnxLimits(100, 1_000_000, 8_000_000, 256L << 20);

    /** Largest protobuf file: 2 GiB minus one byte. Larger models keep their tensors in external data. */
    public static final long MAX_FILE_BYTES = Integer.MAX_VALUE;

    public OnnxLimits {
        if (messageDepth < 1 || messages < 1 || values < 1 || textBytes < 1) {
            throw new IllegalArgumentException("limits are at least 1");
        }
    }
}
