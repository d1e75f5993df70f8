package dev.octet.formats.onnx;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Where {@link OnnxWriter} puts tensor data.
 *
 * @param external when to use a data file next to the model
 * @param minTensorBytes constants smaller than this stay in the model even then
 * @param dataFileName plain name of the data file, in the model's folder; null for the model's name with {@code .data} added
 * @param alignment every tensor in the data file begins at a multiple of this, in bytes; a power of two. 4096 lets readers map
 *     single tensors (ONNX docs/ExternalData.md)
 */
public record OnnxWriteOptions(
        External external, long minTensorBytes, @Nullable String dataFileName, int alignment) {
    /** When constants go to a data file. */
    public enum External {
        /** When the model would not fit in one protobuf file of 2 GiB. */
        WHEN_NEEDED,
        /** Always. */
        ALWAYS
    }

    /** One file where possible. */
    public static final OnnxWriteOptions DEFAULT = new OnnxWriteOptions(External.WHEN_NEEDED, 1024, null, 4096);

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

    /** With another name of the data file. */
    public OnnxWriteOptions withDataFileName(String name) {
        return new OnnxWriteOptions(external, minTensorBytes, name, alignment);
    }

    /** Where data go that are not in the model at {@code model}: next to it. */
    public Path dataFile(Path model) {
        return model.resolveSibling(dataFileName != null ? dataFileName : model.getFileName() + ".data");
    }
}
