package dev.octet.formats.onnx;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.WireFormat;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.onnx.proto.TrainingInfoProto;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Parses a mapped model without its tensor data: one pass over the wire format copies everything but the bytes of tensors, replaces these
 * by a {@link TensorProto.Held} (field, position, length), enforces {@link OnnxLimits}, and passes the rest to protobuf.
 *
 * <p>docs/decisions/0005 explains why protobuf does not alias the mapping. This pass also reports the byte offset of a fault, which
 * protobuf does not.
 *
 * <p>Wire format: https://protobuf.dev/programming-guides/encoding/. Tensors of {@code training_info} stay, because that field is passed
 * through as bytes.
 */
final class StrippedProto {
    private static final Descriptor TENSOR = TensorProto.getDescriptor();
    private static final Descriptor TRAINING = TrainingInfoProto.getDescriptor();
    /** A length that is patched later is written in its longest form, which protobuf reads like the short one. */
    private static final int PATCHED_LENGTH_BYTES = 5;

    private static final int MAX_VARINT_BYTES = 10;
    private static final int MAX_ARRAY = Integer.MAX_VALUE - 8;
    private static final String FIX_BROKEN =
            "the file is damaged or is not an ONNX model: download or export it again and compare the size";

    private final MemorySegment file;
    private final Place place;
    private final OnnxLimits limits;
    private byte[] out;
    private int size;
    private long position;
    private long messages;
    private long values;
    private long textBytes;

    private StrippedProto(MemorySegment file, Place place, OnnxLimits limits) {
        this.file = file;
        this.place = place;
        this.limits = limits;
        this.out = new byte[(int) Math.min(1 << 16, file.byteSize() + 64)];
    }

    /**
     * Parses a whole file.
     *
     * @param file the mapped bytes
     * @return the model; positions in {@code held} are offsets in {@code file}
     * @throws MalformedModelException when the bytes are not a protobuf message of this schema, or exceed a limit
     */
    static ModelProto parse(MemorySegment file, Place place, OnnxLimits limits) {
        StrippedProto s = new StrippedProto(file, place, limits);
        s.message(ModelProto.getDescriptor(), file.byteSize(), 1, true);
        try {
            CodedInputStream in = CodedInputStream.newInstance(s.out, 0, s.size);
            // The pass has checked the depth already.
            in.setRecursionLimit(limits.messageDepth() + 1);
            return ModelProto.parseFrom(in);
        } catch (InvalidProtocolBufferException e) {
            throw place.malformed("not a protobuf message: " + e.getMessage(), FIX_BROKEN, e);
        } catch (IOException e) {
            // Reading an array cannot fail, so the content is the cause.
            throw place.malformed("not a protobuf message: " + e.getMessage(), FIX_BROKEN, e);
        }
    }

    /** Copies the fields of one message up to {@code end}. {@code hold}: whether to cut out tensor data. */
    private void message(Descriptor type, long end, int depth, boolean hold) {
        if (depth > limits.messageDepth()) {
            throw beyond("messages are nested deeper than " + limits.messageDepth(), type);
        }
        if (++messages > limits.messages()) {
            throw beyond("there are more than " + limits.messages() + " messages", type);
        }
        while (position < end) {
            long start = position;
            long tag = varint(end, type);
            int number = (int) (tag >>> 3);
            if (tag > 0xFFFF_FFFFL || number == 0) {
                throw broken("field tag " + Long.toUnsignedString(tag) + " is invalid in protobuf", start, type);
            }
            countValues(1, type);
            field(type, number, (int) tag & 7, start, end, depth, hold);
        }
    }

    private void field(Descriptor type, int number, int wireType, long start, long end, int depth, boolean hold) {
        FieldDescriptor field = type.findFieldByNumber(number);
        if (type == TENSOR && number == TensorProto.HELD_FIELD_NUMBER) {
            throw broken("field number " + number + " is not ONNX's", start, type);
        }
        switch (wireType) {
            case WireFormat.WIRETYPE_VARINT -> {
                varint(end, type);
                copy(start, position);
            }
            case WireFormat.WIRETYPE_FIXED64 -> {
                skip(8, start, end, type);
                copy(start, position);
            }
            case WireFormat.WIRETYPE_FIXED32 -> {
                skip(4, start, end, type);
                copy(start, position);
            }
            case WireFormat.WIRETYPE_LENGTH_DELIMITED -> lengthDelimited(type, number, field, start, end, depth, hold);
            case WireFormat.WIRETYPE_START_GROUP -> {
                group(number, end, depth + 1, type);
                copy(start, position);
            }
            default -> throw broken("wire type " + wireType + " of field " + number + " is none here", start, type);
        }
    }

    private void lengthDelimited(
            Descriptor type,
            int number,
            @Nullable FieldDescriptor field,
            long start,
            long end,
            int depth,
            boolean hold) {
        long length = varint(end, type);
        long body = position;
        if (length < 0 || length > end - body) {
            throw broken(
                    "field " + name(field, number) + " says " + Long.toUnsignedString(length) + " bytes, "
                            + (end - body) + " are left",
                    start,
                    type);
        }
        if (field != null && field.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
            copyTagOf(start, body);
            int patch = size;
            reserve(PATCHED_LENGTH_BYTES);
            size += PATCHED_LENGTH_BYTES;
            Descriptor inner = field.getMessageType();
            message(inner, body + length, depth + 1, hold && inner != TRAINING);
            patchLength(patch, size - patch - PATCHED_LENGTH_BYTES);
        } else if (hold && type == TENSOR && isData(number)) {
            position = body + length;
            held(number, body, length);
        } else {
            if (field != null && field.isPackable()) {
                countValues(packedCount(field, body, length), type);
            } else {
                countText(length, type);
            }
            position = body + length;
            copy(start, position);
        }
    }

    /** Whether the bytes of this tensor field stay in the file; text (6) does not. */
    private static boolean isData(int number) {
        return switch (number) {
            case TensorProto.FLOAT_DATA_FIELD_NUMBER,
                    TensorProto.INT32_DATA_FIELD_NUMBER,
                    TensorProto.INT64_DATA_FIELD_NUMBER,
                    TensorProto.RAW_DATA_FIELD_NUMBER,
                    TensorProto.DOUBLE_DATA_FIELD_NUMBER,
                    TensorProto.UINT64_DATA_FIELD_NUMBER -> true;
            default -> false;
        };
    }

    private long packedCount(FieldDescriptor field, long body, long length) {
        return switch (field.getType()) {
            case FLOAT, FIXED32, SFIXED32 -> length / 4;
            case DOUBLE, FIXED64, SFIXED64 -> length / 8;
            default -> Varints.count(file.asSlice(body, length));
        };
    }

    private void held(int number, long body, long length) {
        byte[] inner = TensorProto.newBuilder()
                .addHeld(TensorProto.Held.newBuilder()
                        .setField(number)
                        .setPosition(body)
                        .setLength(length))
                .build()
                .toByteArray();
        reserve(inner.length);
        System.arraycopy(inner, 0, out, size, inner.length);
        size += inner.length;
    }

    /** Skips an unknown group up to its end tag; nested groups count for the depth. */
    private void group(int number, long end, int depth, Descriptor type) {
        if (depth > limits.messageDepth()) {
            throw beyond("messages are nested deeper than " + limits.messageDepth(), type);
        }
        if (++messages > limits.messages()) {
            throw beyond("there are more than " + limits.messages() + " messages", type);
        }
        long body = position;
        while (true) {
            long start = position;
            if (position >= end) {
                throw broken("group " + number + " does not end", body, type);
            }
            long tag = varint(end, type);
            int inner = (int) (tag >>> 3);
            if (tag > 0xFFFF_FFFFL || inner == 0) {
                throw broken("field tag " + Long.toUnsignedString(tag) + " is invalid in protobuf", start, type);
            }
            countValues(1, type);
            switch ((int) tag & 7) {
                case WireFormat.WIRETYPE_VARINT -> varint(end, type);
                case WireFormat.WIRETYPE_FIXED64 -> skip(8, start, end, type);
                case WireFormat.WIRETYPE_FIXED32 -> skip(4, start, end, type);
                case WireFormat.WIRETYPE_LENGTH_DELIMITED -> {
                    long length = varint(end, type);
                    skip(length, start, end, type);
                }
                case WireFormat.WIRETYPE_START_GROUP -> group(inner, end, depth + 1, type);
                case WireFormat.WIRETYPE_END_GROUP -> {
                    if (inner != number) {
                        throw broken("group " + number + " ends as group " + inner, start, type);
                    }
                    countText(position - body, type);
                    return;
                }
                default -> throw broken("wire type " + (tag & 7) + " of field " + inner + " is none", start, type);
            }
        }
    }

    private long varint(long end, Descriptor type) {
        long start = position;
        long value = 0;
        for (int i = 0; i < MAX_VARINT_BYTES; i++) {
            if (position >= end) {
                throw broken("the data end within a number", start, type);
            }
            byte b = file.get(ValueLayout.JAVA_BYTE, position++);
            value |= (long) (b & 0x7F) << (7 * i);
            if (b >= 0) {
                return value;
            }
        }
        throw broken("a number is longer than " + MAX_VARINT_BYTES + " bytes", start, type);
    }

    private void skip(long bytes, long start, long end, Descriptor type) {
        if (bytes < 0 || bytes > end - position) {
            throw broken(
                    "a field needs " + Long.toUnsignedString(bytes) + " bytes, " + (end - position) + " are left",
                    start,
                    type);
        }
        position += bytes;
    }

    private void countValues(long n, Descriptor type) {
        values += n;
        if (values > limits.values()) {
            throw beyond("there are more than " + limits.values() + " fields and list elements", type);
        }
    }

    private void countText(long bytes, Descriptor type) {
        textBytes += bytes;
        if (textBytes > limits.textBytes()) {
            throw beyond("text and pass-through fields take more than " + limits.textBytes() + " bytes", type);
        }
    }

    /** Copies the tag at {@code start}, without the following length, which ends at {@code body}. */
    private void copyTagOf(long start, long body) {
        long end = start;
        while (file.get(ValueLayout.JAVA_BYTE, end) < 0) {
            end++;
        }
        copy(start, Math.min(end + 1, body));
    }

    private void copy(long start, long end) {
        int n = (int) (end - start); // a file has less than 2 GiB
        reserve(n);
        MemorySegment.copy(file, ValueLayout.JAVA_BYTE, start, out, size, n);
        size += n;
    }

    private void reserve(int n) {
        long needed = (long) size + n;
        if (needed > MAX_ARRAY) {
            throw beyond("structure without tensor data takes more than " + MAX_ARRAY + " bytes", TENSOR);
        }
        if (needed > out.length) {
            out = Arrays.copyOf(out, (int) Math.min(Math.max(out.length * 2L, needed), MAX_ARRAY));
        }
    }

    private void patchLength(int at, int length) {
        int rest = length;
        for (int i = 0; i < PATCHED_LENGTH_BYTES; i++) {
            boolean last = i == PATCHED_LENGTH_BYTES - 1;
            out[at + i] = (byte) ((rest & 0x7F) | (last ? 0 : 0x80));
            rest >>>= 7;
        }
    }

    private MalformedModelException broken(String what, long offset, Descriptor type) {
        String hint = offset < 4 && looksLikeText() ? " (the file begins like text)" : "";
        return new MalformedModelException(
                what + hint, place + ", byte " + offset + " (" + type.getName() + ")", FIX_BROKEN);
    }

    private MalformedModelException beyond(String what, Descriptor type) {
        return new MalformedModelException(
                what,
                place + ", byte " + position + " (" + type.getName() + ")",
                "no known model needs this; if you trust yours, read it with wider OnnxLimits");
    }

    private boolean looksLikeText() {
        long n = Math.min(file.byteSize(), 64);
        for (long i = 0; i < n; i++) {
            byte b = file.get(ValueLayout.JAVA_BYTE, i);
            if (b < 0x20 && b != '\n' && b != '\r' && b != '\t') {
                return false;
            }
        }
        return true;
    }

    private static String name(@Nullable FieldDescriptor field, int number) {
        return field == null ? Integer.toString(number) : "'" + field.getName() + "'";
    }
}
