package dev.octet.formats.onnx;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Options of {@link OnnxWriter} for tensor data.
 *
 * @param external when to use a data file
 * @param minTensorBytes smaller constants always stay in the model
 * @param dataFileName plain name of the data file, in the model's folder; null for the model's name with {@code .data} added
 * @param alignment alignment of tensors in the data file in bytes, a power of two. 4096 lets readers map single tensors (ONNX
 *     docs/ExternalData.md)
 */
public record OnnxWriteOptions(
        External external, long minTensorBytes, @Nullable String dataFileName, int alignment) {
    /** When constants go to a data file. */
    public enum External {
        /** Only if the model does not fit in one protobuf file of 2 GiB. */
        WHEN_NEEDED,
        /** Always. */
        ALWAYS
    }

    /** One file if possible. */
    public static OnnxWriteOptions defaults() {
        return new OnnxWriteOptions(External.WHEN_NEEDED, 1024, null, 4096);
    }

    public OnnxWriteOptions {
        if (minTensorBytes < 0) {
            throw new IllegalArgumentException("minTensorBytes is negative: " + minTensorBytes);
        }
        if (alignment < 1 || Integer.bitCount(alignment) != 1) {
            throw new IllegalArgumentException("alignment is not a power of two: " + alignment);
        }
        if (dataFileName != null
                && (dataFileName.isEmpty()
                        || dataFileName.equals(".")
                        || dataFileName.equals("..")
                        || dataFileName.contains("/")
                        || dataFileName.contains("\\"))) {
            throw new IllegalArgumentException("the data file needs a plain name, not '" + dataFileName + "'");
        }
    }

    /** Constants of at least {@code minTensorBytes} in a data file next to the model. */
    public static OnnxWriteOptions externalData(long minTensorBytes) {
        return new OnnxWriteOptions(External.ALWAYS, minTensorBytes, null, 4096);
    }

    /** A copy with this name of the data file. */
    public OnnxWriteOptions withDataFileName(String name) {
        return new OnnxWriteOptions(external, minTensorBytes, name, alignment);
    }

    /** The path of the data file of the model at {@code model}. */
    public Path dataFile(Path model) {
        return model.resolveSibling(dataFileName != null ? dataFileName : model.getFileName() + ".data");
    }
}
