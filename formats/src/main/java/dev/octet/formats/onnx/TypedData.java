package dev.octet.formats.onnx;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/**
 * Converts elements in the typed fields of a TensorProto to raw form: little-endian, sub-byte types packed low bits first.
 *
 * <p>The fields and their contents (ONNX onnx.proto, message TensorProto):
 * <ol>
 *   <li>float_data: F32, and C64 as pairs; double_data: F64, and C128 as pairs. On the wire these are little-endian already.
 *   <li>int64_data: I64; uint64_data: U64 and U32.
 *   <li>int32_data: all narrower types, floats by their bits. Each number holds one element of 8 bits or more, one packed byte of 4-bit
 *       and 2-bit types, or one 6-bit code of FP6.
 * </ol>
 */
final class TypedData {
    private static final String FIX = "the file is damaged or its exporter wrong: export the model with raw_data";

    private final MemorySegment file;
    private final Arena arena;
    private final Place place;

    TypedData(MemorySegment file, Arena arena, Place place) {
        this.file = file;
        this.arena = arena;
        this.place = place;
    }

    /** {@code packed}: the packed lists in the file. An unpacked list is in {@code t}. */
    MemorySegment elements(TensorProto t, List<TensorProto.Held> packed, TensorSpec spec) {
        int field = fieldOf(spec.dtype());
        for (TensorProto.Held h : packed) {
            if (h.getField() != field) {
                throw wrongField(h.getField(), spec);
            }
        }
        int unpacked = countIn(t, field);
        if (unpacked != TensorDecoder.unpackedCount(t)) {
            throw wrongField(0, spec);
        }
        if (unpacked > 0 && !packed.isEmpty()) {
            throw place.malformed(name(field) + " is written partly packed and partly not", FIX);
        }
        return switch (field) {
            case TensorProto.FLOAT_DATA_FIELD_NUMBER -> fixed(t, packed, spec, 4);
            case TensorProto.DOUBLE_DATA_FIELD_NUMBER -> fixed(t, packed, spec, 8);
            default -> integers(t, packed, spec, field);
        };
    }

    private static int fieldOf(DType dtype) {
        return switch (dtype) {
            case F32, C64 -> TensorProto.FLOAT_DATA_FIELD_NUMBER;
            case F64, C128 -> TensorProto.DOUBLE_DATA_FIELD_NUMBER;
            case I64 -> TensorProto.INT64_DATA_FIELD_NUMBER;
            case U32, U64 -> TensorProto.UINT64_DATA_FIELD_NUMBER;
            case STRING -> TensorProto.STRING_DATA_FIELD_NUMBER;
            case BOOL,
                    F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    U8,
                    I8,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E8M0,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    I16,
                    U16,
                    F16,
                    BF16,
                    I32 -> TensorProto.INT32_DATA_FIELD_NUMBER;
        };
    }

    private static String name(int field) {
        return TensorProto.getDescriptor().findFieldByNumber(field).getName();
    }

    private static int countIn(TensorProto t, int field) {
        return t.getRepeatedFieldCount(TensorProto.getDescriptor().findFieldByNumber(field));
    }

    private MalformedModelException wrongField(int found, TensorSpec spec) {
        String where = found == 0 ? "the wrong data field" : name(found);
        return place.malformed(
                "elements of type " + spec.dtype() + " are in " + where + ", they belong in "
                        + name(fieldOf(spec.dtype())),
                FIX);
    }

    private MemorySegment fixed(TensorProto t, List<TensorProto.Held> packed, TensorSpec spec, int width) {
        long have = packed.stream().mapToLong(TensorProto.Held::getLength).sum();
        int unpacked = width == 4 ? t.getFloatDataCount() : t.getDoubleDataCount();
        long bytes = have + (long) unpacked * width;
        if (bytes != spec.byteSize()) {
            throw TensorDecoder.counts(
                    bytes / width, spec.shape(), spec.byteSize() / width, name(fieldOf(spec.dtype())), place);
        }
        if (packed.size() == 1) {
            return view(packed.getFirst());
        }
        MemorySegment out = Tensor.allocate(arena, spec).bytes();
        long at = 0;
        for (TensorProto.Held h : packed) {
            MemorySegment.copy(view(h), 0, out, at, h.getLength());
            at += h.getLength();
        }
        for (int i = 0; i < unpacked; i++, at += width) {
            if (width == 4) {
                out.set(Tensor.F32_LE, at, t.getFloatData(i));
            } else {
                out.set(Tensor.F64_LE, at, t.getDoubleData(i));
            }
        }
        return out;
    }

    private MemorySegment view(TensorProto.Held h) {
        return file.asSlice(h.getPosition(), h.getLength());
    }

    private MemorySegment integers(TensorProto t, List<TensorProto.Held> packed, TensorSpec spec, int field) {
        int bits = spec.dtype().bits();
        // 4-bit and 2-bit types: one number holds one packed byte.
        long needed = bits < 6 ? spec.byteSize() : spec.shape().elementCount();
        long have = packed.stream().mapToLong(h -> Varints.count(view(h))).sum() + countIn(t, field);
        if (have != needed) { // before allocating, because the dimensions may be wrong
            throw TensorDecoder.counts(have, spec.shape(), needed, name(field), place);
        }
        Elements out = new Elements(Tensor.allocate(arena, spec).bytes(), spec.dtype());
        for (TensorProto.Held h : packed) {
            Varints numbers = new Varints(view(h));
            while (numbers.hasNext()) {
                out.put(next(numbers, field));
            }
        }
        for (int i = 0; i < countIn(t, field); i++) {
            out.put(
                    switch (field) {
                        case TensorProto.INT32_DATA_FIELD_NUMBER -> t.getInt32Data(i);
                        case TensorProto.INT64_DATA_FIELD_NUMBER -> t.getInt64Data(i);
                        default -> t.getUint64Data(i);
                    });
        }
        return out.bytes;
    }

    private long next(Varints numbers, int field) {
        try {
            long n = numbers.next();
            // protobuf truncates an int32 field to 32 bits
            return field == TensorProto.INT32_DATA_FIELD_NUMBER ? (int) n : n;
        } catch (IllegalStateException e) {
            throw place.malformed(name(field) + " is not a list of numbers", FIX, e);
        }
    }

    /** Writes numbers in sequence, each in the width of the element type. */
    private final class Elements {
        private final MemorySegment bytes;
        private final DType dtype;
        private long count;

        Elements(MemorySegment bytes, DType dtype) {
            this.bytes = bytes;
            this.dtype = dtype;
        }

        void put(long value) {
            int width = Math.max(8, dtype.bits());
            int valueBits = dtype.bits() == 6 ? 6 : width;
            // Narrow types occur both as negative numbers and as their unsigned bits.
            if (valueBits < 64 && (value < -(1L << (valueBits - 1)) || value >= 1L << valueBits)) {
                throw place.malformed("element " + count + " is " + value + ", which is not a value of " + dtype, FIX);
            }
            switch (dtype.bits()) {
                case 64 -> bytes.set(Tensor.I64_LE, count * 8, value);
                case 32 -> bytes.set(Tensor.I32_LE, count * 4, (int) value);
                case 16 -> bytes.set(Tensor.I16_LE, count * 2, (short) value);
                case 6 -> putSixBits((int) value & 0x3F);
                default -> bytes.set(ValueLayout.JAVA_BYTE, count, (byte) value);
            }
            count++;
        }

        /** Four codes in three bytes, a stream of bits, lowest first. */
        private void putSixBits(int code) {
            long bit = count * 6;
            long at = bit / 8;
            int shifted = code << (bit % 8);
            or(at, shifted);
            if (shifted > 0xFF) {
                or(at + 1, shifted >> 8);
            }
        }

        private void or(long at, int value) {
            byte old = bytes.get(ValueLayout.JAVA_BYTE, at);
            bytes.set(ValueLayout.JAVA_BYTE, at, (byte) (old | value));
        }
    }
}
