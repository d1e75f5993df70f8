package dev.octet.formats.graph;

import java.util.List;

/**
 * A named parameter of a node.
 *
 * @param unknown fields passed through untouched
 */
public record Attribute(String name, Value value, String doc, Bytes unknown) {
    /** The value of an attribute; one case per ONNX AttributeType. */
    public sealed interface Value {}

    /** A whole number. */
    public record OfInt(long value) implements Value {}

    /** A real number, F32. */
    public record OfFloat(float value) implements Value {}

    /** Bytes that are mostly UTF-8 text. */
    public record OfText(Bytes value) implements Value {}

    /** A constant tensor. */
    public record OfTensor(Initializer value) implements Value {}

    /** A nested graph: the body of If, Loop, Scan. */
    public record OfGraph(Graph value) implements Value {}

    /** The type of a value. */
    public record OfType(ValueType value) implements Value {}

    /** Whole numbers. */
    public record OfInts(List<Long> values) implements Value {
        public OfInts {
            values = List.copyOf(values);
        }
    }

    /** Real numbers, F32. */
    public record OfFloats(List<Float> values) implements Value {
        public OfFloats {
            values = List.copyOf(values);
        }
    }

    /** Several texts. */
    public record OfTexts(List<Bytes> values) implements Value {
        public OfTexts {
            values = List.copyOf(values);
        }
    }

    /** Several constant tensors. */
    public record OfTensors(List<Initializer> values) implements Value {
        public OfTensors {
            values = List.copyOf(values);
        }
    }

    /** Several nested graphs. */
    public record OfGraphs(List<Graph> values) implements Value {
        public OfGraphs {
            values = List.copyOf(values);
        }
    }

    /** Several types. */
    public record OfTypes(List<ValueType> values) implements Value {
        public OfTypes {
            values = List.copyOf(values);
        }
    }

    /** In a function body, the caller's attribute {@code parameter}; {@code type} is ONNX's AttributeType number. */
    public record Reference(String parameter, int type) implements Value {}

    /**
     * A value of an AttributeType that Octet does not know, passed through in {@link Attribute#unknown()}.
     *
     * @param type ONNX's AttributeType number
     */
    public record OfOther(int type) implements Value {}

    public Attribute(String name, Value value) {
        this(name, value, "", Bytes.EMPTY);
    }

    public static Attribute of(String name, long value) {
        return new Attribute(name, new OfInt(value));
    }

    public static Attribute of(String name, float value) {
        return new Attribute(name, new OfFloat(value));
    }

    public static Attribute of(String name, String value) {
        return new Attribute(name, new OfText(Bytes.ofText(value)));
    }

    public static Attribute of(String name, List<Long> values) {
        return new Attribute(name, new OfInts(values));
    }

    public static Attribute of(String name, Initializer value) {
        return new Attribute(name, new OfTensor(value));
    }
}
