package dev.octet.formats.graph;

import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A constant of a graph (ONNX initializer, or the tensor of an attribute).
 *
 * @param unknown fields passed through untouched
 */
public record Initializer(String name, Data data, String doc, Map<String, String> metadata, Bytes unknown) {
    /** Metadata key of the tensor's name in the program that the graph was exported from. */
    public static final String ORIGINAL_NAME = "dev.octet.original_name";
    /** Metadata key of the original's memory layout, {@link #OUT_IN}. */
    public static final String ORIGINAL_LAYOUT = "dev.octet.original_layout";
    /** Metadata of a constant that is part of a tensor of the file: that tensor's name. */
    public static final String PART_OF = "dev.octet.part_of";
    /** With {@link #PART_OF}: its number among the parts, which stand one behind another. */
    public static final String PART = "dev.octet.part";
    /** With {@link #PART_OF}: the shape of the whole, as {@code 3x16x24}. */
    public static final String WHOLE = "dev.octet.whole";

    /**
     * Metadata of a constant that is used like a parameter and not trained: numbers of the architecture, and buffers of files, such as the bias by which
     * DeepSeek-V3 balances its experts.
     */
    public static final String BUFFER = "dev.octet.buffer";

    /** Layout of {@code nn.Linear}: one row for each output. */
    public static final String OUT_IN = "out,in";

    /** The elements. */
    public sealed interface Data {}

    /** Numbers in memory; the tensor's own name is ignored. */
    public record Dense(Tensor tensor) implements Data {}

    /**
     * Floats that stay in the bytes of a checkpoint, as codes with scales; the tensor's own name is ignored. Only a model that was opened to be trained as it is
     * stored has such constants: files and ONNX Runtime take dense ones.
     */
    public record Coded(CodedTensor tensor) implements Data {}

    /** Text elements, row-major. */
    public record Strings(Shape shape, List<Bytes> values) implements Data {
        public Strings {
            values = List.copyOf(values);
            if (values.size() != shape.elementCount()) {
                throw new IllegalArgumentException(
                        shape + " needs " + shape.elementCount() + " strings, got " + values.size());
            }
        }
    }

    /** A sparse tensor (ONNX SparseTensorProto): {@code values} at {@code indices} (linear or per-axis I64) of {@code shape}. */
    public record Sparse(Shape shape, Tensor values, Tensor indices) implements Data {}

    /**
     * Elements of a type that Octet does not compute with (a future ONNX type, or FP6 that does not end at a byte border), passed through.
     *
     * @param elementType ONNX's TensorProto.DataType number
     * @param bytes as stored; empty when the elements are in another field, which {@link Initializer#unknown()} then holds
     */
    public record Opaque(int elementType, Shape shape, MemorySegment bytes) implements Data {}

    public Initializer {
        metadata = Ordered.copyOf(metadata);
    }

    /** A dense constant under the tensor's own name. */
    public static Initializer of(Tensor tensor) {
        return new Initializer(tensor.name(), new Dense(tensor), "", Map.of(), Bytes.EMPTY);
    }

    /** A coded constant under the tensor's own name. */
    public static Initializer of(CodedTensor tensor) {
        return new Initializer(tensor.spec().name(), new Coded(tensor), "", Map.of(), Bytes.EMPTY);
    }

    /** The tensor of a dense constant. */
    public Optional<Tensor> tensor() {
        return data instanceof Dense d ? Optional.of(d.tensor()) : Optional.empty();
    }

    /** Element type and shape under this constant's name, dense or coded; empty for others. */
    public Optional<TensorSpec> spec() {
        return switch (data) {
            case Dense d -> Optional.of(d.tensor().spec().withName(name));
            case Coded c -> Optional.of(c.tensor().spec().withName(name));
            case Strings _, Sparse _, Opaque _ -> Optional.empty();
        };
    }

    /** The same as part {@code number} of a tensor of the file. */
    public Initializer withPart(String of, int number, Shape whole) {
        Map<String, String> more = new LinkedHashMap<>(metadata);
        more.put(PART_OF, of);
        more.put(PART, String.valueOf(number));
        more.put(WHOLE, Arrays.stream(whole.toArray()).mapToObj(String::valueOf).collect(Collectors.joining("x")));
        return new Initializer(name, data, doc, more, unknown);
    }

    /** A copy with this name. */
    public Initializer withName(String newName) {
        return new Initializer(newName, data, doc, metadata, unknown);
    }
}
