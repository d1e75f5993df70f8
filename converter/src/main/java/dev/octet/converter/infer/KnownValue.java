package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The elements of a small tensor as far as they are known before anything runs: each a number, a dimension's symbol, or
 * unknown. Immutable.
 *
 * <p>An element is kept as a {@code long}: integers sign- or zero-extended by their type, truth as 0 and 1, floats as their raw
 * bits. Only integers can be symbols or unknown, because only shapes are worth following half-known.
 */
public final class KnownValue {
    /** Larger values are not followed: 1 MiB of I64. Bounds what a hostile shape can make us allocate. */
    public static final int MAX_ELEMENTS = 1 << 17;

    private static final String UNKNOWN = "";

    private final DType dtype;
    private final Shape shape;
    private final long[] elements;
    /** By element: null where the number is known, the symbol, or {@link #UNKNOWN}. Null as a whole when all are known. */
    private final @Nullable String @Nullable [] symbols;

    private KnownValue(DType dtype, Shape shape, long[] elements, @Nullable String @Nullable [] symbols) {
        this.dtype = dtype;
        this.shape = shape;
        this.elements = elements;
        this.symbols = symbols;
    }

    /** A wholly known value; {@code elements} as described above, row-major, owned by the new object from here on. */
    static KnownValue of(DType dtype, Shape shape, long... elements) {
        if (elements.length != shape.elementCount()) {
            throw new IllegalArgumentException(
                    shape + " needs " + shape.elementCount() + " elements, got " + elements.length);
        }
        return new KnownValue(dtype, shape, elements, null);
    }

    /** A value of integers of which some are symbols or unknown. */
    static KnownValue ofDims(DType dtype, Shape shape, List<Dim> dims) {
        long[] elements = new long[dims.size()];
        @Nullable String[] symbols = new @Nullable String[dims.size()];
        boolean complete = true;
        for (int i = 0; i < elements.length; i++) {
            Dim d = dims.get(i);
            if (d.size() != null) {
                elements[i] = d.size();
            } else {
                symbols[i] = d.symbol() != null ? d.symbol() : UNKNOWN;
                complete = false;
            }
        }
        return new KnownValue(dtype, shape, elements, complete ? null : symbols);
    }

    /** The elements of {@code tensor}; empty when there are more than {@link #MAX_ELEMENTS} or they are not 8 to 64 bits wide. */
    public static Optional<KnownValue> of(Tensor tensor) {
        long count = tensor.shape().elementCount();
        if (count > MAX_ELEMENTS || !isFollowed(tensor.dtype())) {
            return Optional.empty();
        }
        long[] elements = new long[(int) count];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = canonical(
                    tensor.dtype(), load(tensor.bytes(), tensor.dtype().bits(), i));
        }
        return Optional.of(of(tensor.dtype(), tensor.shape(), elements));
    }

    /** Whether elements of {@code dtype} fit the representation: whole bytes, at most 64 bits, not complex, not text. */
    static boolean isFollowed(DType dtype) {
        int bits = dtype.bits();
        return bits >= 8 && bits <= 64 && dtype != DType.C64;
    }

    private static long load(MemorySegment bytes, int bits, long i) {
        return switch (bits) {
            case 8 -> bytes.get(ValueLayout.JAVA_BYTE, i) & 0xFFL;
            case 16 -> bytes.get(Tensor.I16_LE, 2 * i) & 0xFFFFL;
            case 32 -> bytes.get(Tensor.I32_LE, 4 * i) & 0xFFFF_FFFFL;
            case 64 -> bytes.get(Tensor.I64_LE, 8 * i);
            default -> throw new IllegalArgumentException("width of " + bits + " bits");
        };
    }

    /** {@code raw} cut to the type's width and extended by its rule: what a computed integer becomes when it overflows. */
    static long canonical(DType dtype, long raw) {
        return switch (dtype) {
            case BOOL -> (raw & 0xFF) != 0 ? 1 : 0;
            case I8 -> (byte) raw;
            case I16 -> (short) raw;
            case I32 -> (int) raw;
            case I64, U64, F64, C64, C128, STRING -> raw;
            case U8, F8_E5M2, F8_E4M3FN, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ -> raw & 0xFFL;
            case U16, F16, BF16 -> raw & 0xFFFFL;
            case U32, F32 -> raw & 0xFFFF_FFFFL;
            case F4_E2M1, F6_E2M3, F6_E3M2, U2, I2, U4, I4 ->
                throw new IllegalArgumentException("packed type " + dtype);
        };
    }

    public DType dtype() {
        return dtype;
    }

    public Shape shape() {
        return shape;
    }

    /** Number of elements. */
    public int size() {
        return elements.length;
    }

    /** Whether every element is a known number. */
    public boolean isComplete() {
        return symbols == null;
    }

    /** Whether element {@code i} is a known number. */
    boolean isKnown(int i) {
        return symbols == null || symbols[i] == null;
    }

    /** Element {@code i} in the representation described above; meaningless unless {@link #isKnown}. */
    long raw(int i) {
        return elements[i];
    }

    /** Element {@code i} of an F32 or F64 value. */
    double real(int i) {
        return dtype == DType.F32 ? Float.intBitsToFloat((int) elements[i]) : Double.longBitsToDouble(elements[i]);
    }

    /** Element {@code i} as a dimension: the number, the symbol, or unknown. */
    Dim dim(int i) {
        String symbol = symbols == null ? null : symbols[i];
        return symbol == null ? Dim.of(elements[i]) : symbol.equals(UNKNOWN) ? Dim.UNKNOWN : Dim.of(symbol);
    }

    /** All elements as dimensions. */
    public List<Dim> dims() {
        List<Dim> dims = new ArrayList<>(elements.length);
        for (int i = 0; i < elements.length; i++) {
            dims.add(dim(i));
        }
        return dims;
    }

    /** All elements of a complete integer value; empty otherwise. */
    public Optional<long[]> integers() {
        return isComplete() && !dtype.isFloat() ? Optional.of(elements.clone()) : Optional.empty();
    }

    /** The same elements under another shape of as many. */
    KnownValue reshaped(Shape newShape) {
        if (newShape.elementCount() != elements.length) {
            throw new IllegalArgumentException(shape + " does not reshape to " + newShape);
        }
        return new KnownValue(dtype, newShape, elements, symbols);
    }

    /** The same elements under another integer type that holds them all. */
    KnownValue retyped(DType newType) {
        return new KnownValue(newType, shape, elements, symbols);
    }

    /** A value whose element {@code i} is element {@code from[i]} of all {@code sources} laid end to end. */
    static KnownValue pick(Shape shape, int[] from, KnownValue... sources) {
        int[] starts = new int[sources.length];
        boolean complete = true;
        for (int s = 0, next = 0; s < sources.length; s++) {
            starts[s] = next;
            next += sources[s].size();
            complete &= sources[s].isComplete();
        }
        long[] elements = new long[from.length];
        @Nullable String[] symbols = new @Nullable String[from.length];
        boolean unknown = false;
        for (int i = 0; i < from.length; i++) {
            int s = sources.length - 1;
            while (from[i] < starts[s]) {
                s--;
            }
            int at = from[i] - starts[s];
            elements[i] = sources[s].elements[at];
            if (!complete && !sources[s].isKnown(at)) {
                String symbol = sources[s].dim(at).symbol();
                symbols[i] = symbol == null ? UNKNOWN : symbol;
                unknown = true;
            }
        }
        return new KnownValue(sources[0].dtype, shape, elements, unknown ? symbols : null);
    }

    /**
     * The elements as a tensor in memory of its own.
     *
     * @throws IllegalStateException when not complete
     */
    public Tensor toTensor(String name) {
        if (!isComplete()) {
            throw new IllegalStateException("value '" + name + "' is not wholly known");
        }
        Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, dtype, shape));
        for (int i = 0; i < elements.length; i++) {
            store(t.bytes(), dtype.bits(), i, elements[i]);
        }
        return t;
    }

    private static void store(MemorySegment bytes, int bits, long i, long raw) {
        switch (bits) {
            case 8 -> bytes.set(ValueLayout.JAVA_BYTE, i, (byte) raw);
            case 16 -> bytes.set(Tensor.I16_LE, 2 * i, (short) raw);
            case 32 -> bytes.set(Tensor.I32_LE, 4 * i, (int) raw);
            case 64 -> bytes.set(Tensor.I64_LE, 8 * i, raw);
            default -> throw new IllegalArgumentException("width of " + bits + " bits");
        }
    }

    /** As {@code I64 [3] {batch, 12, ?}}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(dtype + " " + shape + " {");
        for (int i = 0; i < Math.min(elements.length, 16); i++) {
            text.append(i == 0 ? "" : ", ")
                    .append(isKnown(i) && (dtype == DType.F32 || dtype == DType.F64) ? real(i) : dim(i));
        }
        return text.append(elements.length > 16 ? ", ...}" : "}").toString();
    }
}
