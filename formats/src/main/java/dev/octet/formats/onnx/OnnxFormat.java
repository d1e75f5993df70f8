package dev.octet.formats.onnx;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.WireFormat;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.formats.model.ModelFormat;
import dev.octet.formats.onnx.proto.ModelProto;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** ONNX as a model format: a graph with its tensors. */
public final class OnnxFormat implements ModelFormat {
    private static final int HEAD_BYTES = 4096;
    private static final int MAX_IR_VERSION = 1000;

    /** Creates the stateless format. */
    public OnnxFormat() {}

    @Override
    public String name() {
        return "onnx";
    }

    /**
     * Whether the file begins like a ModelProto. ONNX has no magic number, so all fields in the first 4096 bytes up to the graph or the IR
     * version must be fields of ModelProto with the right wire type. A truncated file is recognised too, so that reading it reports the
     * fault.
     */
    @Override
    public boolean recognises(Path path) throws IOException {
        return Files.isRegularFile(path) && new Head(MappedFile.head(path, HEAD_BYTES)).isModel();
    }

    @Override
    public Model read(Path path, Arena arena) throws IOException {
        return Model.of(OnnxReader.read(path, arena));
    }

    @Override
    public List<Path> otherFiles(Path path) throws IOException {
        return OnnxReader.dataFiles(path);
    }

    /**
     * Writes the model's graph; its initializers are the tensors.
     *
     * @throws UnsupportedModelException when the model has no graph
     */
    @Override
    public void write(Model model, Path path) throws IOException {
        GraphModel graph = model.graph()
                .orElseThrow(() -> new UnsupportedModelException(
                        "the model has tensors but no graph, and ONNX is a graph",
                        path.toString(),
                        "write it as safetensors, or start from an ONNX model"));
        OnnxWriter.write(graph, path);
    }

    /** Checks the first bytes of a file field by field. */
    private static final class Head {
        private final byte[] bytes;
        private long position;

        Head(byte[] bytes) {
            this.bytes = bytes;
        }

        boolean isModel() {
            while (position < bytes.length) {
                long tag = varint();
                FieldDescriptor field = field(tag);
                if (field == null) {
                    return false;
                }
                long value = varint();
                if (value < 0) {
                    return false;
                }
                if (field.getNumber() == ModelProto.IR_VERSION_FIELD_NUMBER) {
                    return value > 0 && value <= MAX_IR_VERSION && nextIsField();
                }
                if (field.getNumber() == ModelProto.GRAPH_FIELD_NUMBER) {
                    return true;
                }
                if ((tag & 7) == WireFormat.WIRETYPE_LENGTH_DELIMITED) {
                    position += value;
                }
            }
            return false;
        }

        /** Whether another field of ModelProto, or nothing, follows the IR version, whose two bytes alone are too common. */
        private boolean nextIsField() {
            if (position >= bytes.length) {
                return true;
            }
            return field(varint()) != null;
        }

        /** The field of ModelProto with this {@code tag}; null when no field has its number and wire type. */
        private static @Nullable FieldDescriptor field(long tag) {
            if (tag < 0 || tag > 0xFFFF_FFFFL) {
                return null;
            }
            FieldDescriptor field = ModelProto.getDescriptor().findFieldByNumber((int) (tag >>> 3));
            return field != null && field.getLiteType().getWireType() == (tag & 7) ? field : null;
        }

        /** The next number; -1 when the bytes end within it or it has more than 63 bits. */
        private long varint() {
            long value = 0;
            for (int shift = 0; shift < 63 && position < bytes.length; shift += 7) {
                byte b = bytes[(int) position++];
                value |= (long) (b & 0x7F) << shift;
                if (b >= 0) {
                    return value;
                }
            }
            return -1;
        }
    }
}
