package dev.octet.formats.onnx;

import dev.octet.formats.graph.Initializer;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.tensor.Shape;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The layout of the data file: constants in sequence, each at a multiple of the alignment. */
final class ExternalLayout {
    private final String location;
    private final long minBytes;
    private final int alignment;
    private final List<Item> items = new ArrayList<>();
    private long end;

    /** Bytes at an offset of the data file. */
    record Item(long offset, MemorySegment bytes) {}

    private ExternalLayout(String location, long minBytes, int alignment) {
        this.location = location;
        this.minBytes = minBytes;
        this.alignment = alignment;
    }

    /** Everything stays in the model. */
    static ExternalLayout none() {
        return new ExternalLayout("", Long.MAX_VALUE, 1);
    }

    /** Constants of at least {@code minBytes} go to {@code location}. */
    static ExternalLayout to(String location, long minBytes, int alignment) {
        return new ExternalLayout(location, minBytes, alignment);
    }

    /** The tensor with a reference to its position in the data file; empty when it stays in the model. */
    Optional<TensorProto> place(Initializer i) {
        return switch (i.data()) {
            case Initializer.Dense d ->
                place(
                        i,
                        d.tensor().shape(),
                        d.tensor().dtype().onnxId(),
                        d.tensor().bytes());
            case Initializer.Opaque o -> place(i, o.shape(), o.elementType(), o.bytes());
            case Initializer.Coded _, Initializer.Strings _, Initializer.Sparse _ -> Optional.empty();
        };
    }

    private Optional<TensorProto> place(Initializer i, Shape shape, int elementType, MemorySegment bytes) {
        long length = bytes.byteSize();
        if (length < minBytes || length == 0) {
            return Optional.empty();
        }
        long offset = Math.ceilDiv(end, alignment) * alignment;
        items.add(new Item(offset, bytes));
        end = offset + length;
        return Optional.of(TensorEncoder.external(i, shape, elementType, location, offset, length));
    }

    List<Item> items() {
        return items;
    }
}
