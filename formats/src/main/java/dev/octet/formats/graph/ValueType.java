package dev.octet.formats.graph;

import dev.octet.formats.tensor.DType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The type of a value. Source: ONNX TypeProto. */
public sealed interface ValueType {
    /**
     * A dense tensor.
     *
     * @param dtype null when the model does not declare it
     * @param dims null when the rank is unknown
     */
    record TensorType(@Nullable DType dtype, @Nullable List<Dim> dims, String denotation, Bytes unknown)
            implements ValueType {
        public TensorType {
            dims = dims == null ? null : List.copyOf(dims);
        }

        public TensorType(@Nullable DType dtype, @Nullable List<Dim> dims) {
            this(dtype, dims, "", Bytes.EMPTY);
        }

        @Override
        public String toString() {
            return (dtype == null ? "?" : dtype) + (dims == null ? "[*]" : dims.toString());
        }
    }

    /** A type that Octet does not compute with (sequence, map, optional, sparse, opaque): the serialised TypeProto, passed through. */
    record OtherType(String kind, Bytes proto) implements ValueType {
        /** The kind: {@code sequence}. */
        @Override
        public String toString() {
            return kind;
        }
    }
}
