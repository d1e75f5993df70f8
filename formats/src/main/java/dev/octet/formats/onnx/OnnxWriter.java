package dev.octet.formats.onnx;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.EarlySync;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.proto.ModelProto;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes ONNX models. Streams tensor data from their segments, never all on the heap. All numbers go to {@code raw_data} or external data.
 */
public final class OnnxWriter {
    /**
     * Bytes of tensors per write: the system copies few long writes in half the time of many short ones, because it caches them in larger
     * pages.
     */
    private static final long WRITTEN_TOGETHER_BYTES = 256L << 20;

    private OnnxWriter() {}

    /** Writes {@code model} with {@link OnnxWriteOptions#defaults}. */
    public static void write(GraphModel model, Path path) throws IOException {
        write(model, path, OnnxWriteOptions.defaults());
    }

    /**
     * Writes {@code model} to {@code path} atomically. A data file is written and renamed before the model, so a model never refers to
     * missing data. (If both replace older files, a power cut between the two renames leaves the old model with new data; give the data
     * file another name to rule that out.)
     *
     * @throws UnsupportedModelException when the parts that cannot go to a data file (text, sparse tensors, attributes) do not fit in 2
     *     GiB, or graphs are nested more than 32 deep
     * @throws IOException when there is no space or no permission; nothing half-written is left
     */
    public static void write(GraphModel model, Path path, OnnxWriteOptions options) throws IOException {
        if (options.external() == OnnxWriteOptions.External.WHEN_NEEDED) {
            SplicedMessage whole = encode(model, ExternalLayout.none());
            if (whole.size() <= OnnxLimits.MAX_FILE_BYTES) {
                writeModel(whole, path);
                return;
            }
        }
        Path dataFile = options.dataFile(path);
        if (dataFile.equals(path)) {
            throw new IllegalArgumentException("model and data file have the same name: " + path);
        }
        ExternalLayout layout = ExternalLayout.to(
                String.valueOf(dataFile.getFileName()), options.minTensorBytes(), options.alignment());
        SplicedMessage message = encode(model, layout);
        if (message.size() > OnnxLimits.MAX_FILE_BYTES) {
            throw new UnsupportedModelException(
                    "the model without its external data has " + message.size() + " bytes, a protobuf file at most "
                            + OnnxLimits.MAX_FILE_BYTES,
                    path.toString(),
                    "turn large tensors in attributes (Constant nodes) into initializers, lower minTensorBytes");
        }
        if (layout.items().isEmpty()) {
            writeModel(message, path);
            return;
        }
        try (AtomicFile data = AtomicFile.create(dataFile);
                AtomicFile file = AtomicFile.create(path)) {
            data.expect(layout.items().stream()
                    .mapToLong(i -> i.offset() + i.bytes().byteSize())
                    .max()
                    .orElse(0));
            file.expect(message.size());
            writeData(layout, data, options.alignment());
            message.writeTo(file);
            data.commit();
            file.commit();
        }
    }

    /** The message to write; fills {@code layout} with the contents of the data file. */
    static SplicedMessage encode(GraphModel model, ExternalLayout layout) {
        TensorEncoder tensors = new TensorEncoder();
        ModelProto proto = new GraphEncoder(tensors, layout).model(model);
        return SplicedMessage.of(proto, tensors.segments());
    }

    private static void writeModel(SplicedMessage message, Path path) throws IOException {
        try (AtomicFile file = AtomicFile.create(path)) {
            file.expect(message.size());
            message.writeTo(file);
            file.commit();
        }
    }

    /** Writes the data file while a second thread syncs it to disk, so that little is left to sync at the end. */
    private static void writeData(ExternalLayout layout, AtomicFile file, int alignment) throws IOException {
        MemorySegment zeros = MemorySegment.ofBuffer(ByteBuffer.allocateDirect(alignment));
        List<MemorySegment> together = new ArrayList<>();
        long end = 0;
        long pending = 0;
        try (EarlySync sync = new EarlySync(file, WRITTEN_TOGETHER_BYTES)) {
            for (ExternalLayout.Item item : layout.items()) {
                together.add(zeros.asSlice(0, item.offset() - end)); // less than the alignment
                together.add(item.bytes());
                end = item.offset() + item.bytes().byteSize();
                pending += item.bytes().byteSize();
                if (pending >= WRITTEN_TOGETHER_BYTES) {
                    file.write(together);
                    together.clear();
                    sync.wrote(pending);
                    pending = 0;
                }
            }
            file.write(together);
            sync.finish();
        }
    }
}
