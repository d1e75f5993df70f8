package dev.octet.formats.npy;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.Collectors;

/**
 * The header of one array.
 *
 * @param spec name, element type and shape
 * @param bigEndian whether the bytes of elements must be swapped for a {@link Tensor}
 * @param fortranOrder whether the first axis is innermost; not set for arrays whose order is the same in both cases
 * @param headerBytes bytes before the first element
 */
record NpyHeader(TensorSpec spec, boolean bigEndian, boolean fortranOrder, int headerBytes) {
    private static final byte[] MAGIC = {(byte) 0x93, 'N', 'U', 'M', 'P', 'Y'};
    private static final int ALIGNMENT = 64;
    /** NumPy leaves room for this many digits, so that an array can grow along its first axis in place. */
    private static final int GROWTH_DIGITS = 21;

    /**
     * Reads the header and leaves {@code in} at the first element.
     *
     * @throws InvalidDataException when the header is not of the required form or exceeds a limit
     * @throws IOException when the stream fails
     */
    static NpyHeader read(InputStream in, String name, String where, NpyLimits limits) throws IOException {
        byte[] start = in.readNBytes(MAGIC.length + 2);
        if (start.length < MAGIC.length + 2 || !Arrays.equals(start, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
            throw malformed("the array does not begin as a .npy file does", where);
        }
        int major = start[MAGIC.length];
        int minor = start[MAGIC.length + 1];
        if (major < 1 || major > 3 || minor != 0) {
            throw malformed("version " + major + "." + minor + " of the .npy format is unknown", where);
        }
        int lengthBytes = major == 1 ? Short.BYTES : Integer.BYTES;
        byte[] lengthField = in.readNBytes(lengthBytes);
        if (lengthField.length < lengthBytes) {
            throw malformed("the file ends in the length of its header", where);
        }
        ByteBuffer buffer = ByteBuffer.wrap(lengthField).order(ByteOrder.LITTLE_ENDIAN);
        long length = major == 1 ? Short.toUnsignedLong(buffer.getShort()) : Integer.toUnsignedLong(buffer.getInt());
        if (length > limits.maxHeaderBytes()) {
            throw malformed("the header claims " + length + " bytes, the limit is " + limits.maxHeaderBytes(), where);
        }
        byte[] text = in.readNBytes((int) length);
        if (text.length < length) {
            throw malformed("the header claims " + length + " bytes, " + text.length + " are there", where);
        }
        NpyDictionary dictionary = NpyDictionary.parse(
                new String(text, major == 3 ? StandardCharsets.UTF_8 : StandardCharsets.ISO_8859_1), where, limits);
        return of(dictionary, name, where, start.length + lengthBytes + text.length);
    }

    private static NpyHeader of(NpyDictionary dictionary, String name, String where, int headerBytes) {
        String descr = dictionary.descr();
        DType dtype = dtype(descr, where);
        try {
            Shape shape = Shape.of(dictionary.shape());
            boolean oneOrder =
                    Arrays.stream(dictionary.shape()).filter(d -> d != 1).count() <= 1 || shape.elementCount() == 0;
            return new NpyHeader(
                    new TensorSpec(name, dtype, shape),
                    descr.charAt(0) == '>' && dtype.bits() > 8,
                    dictionary.fortranOrder() && !oneOrder,
                    headerBytes);
        } catch (ArithmeticException e) {
            throw new InvalidDataException(
                    "the size of an array " + Arrays.toString(dictionary.shape()) + " overflows 63 bits",
                    where,
                    "write the array again with numpy.save",
                    e);
        }
    }

    /** The element type of a NumPy type string: byte order, kind, bytes. */
    private static DType dtype(String descr, String where) {
        if (descr.length() < 3 || "<>|".indexOf(descr.charAt(0)) < 0) {
            throw malformed("the element type '" + descr + "' is not of the form <f4", where);
        }
        return switch (descr.substring(1)) {
            case "b1" -> DType.BOOL;
            case "i1" -> DType.I8;
            case "i2" -> DType.I16;
            case "i4" -> DType.I32;
            case "i8" -> DType.I64;
            case "u1" -> DType.U8;
            case "u2" -> DType.U16;
            case "u4" -> DType.U32;
            case "u8" -> DType.U64;
            case "f2" -> DType.F16;
            case "f4" -> DType.F32;
            case "f8" -> DType.F64;
            case "c8" -> DType.C64;
            case "c16" -> DType.C128;
            default ->
                throw new InvalidDataException(
                        "elements of type '" + descr + "' (objects, texts, dates, records) are not a tensor",
                        where,
                        "save numbers: x.astype(numpy.float32)");
        };
    }

    /** Bytes of a swapped unit: the element, or half of a complex element. */
    int swapBytes() {
        int bytes = spec.dtype().bits() / 8;
        return spec.dtype() == DType.C64 || spec.dtype() == DType.C128 ? bytes / 2 : bytes;
    }

    private static InvalidDataException malformed(String what, String where) {
        return new InvalidDataException(what, where, "write the array again with numpy.save or numpy.savez");
    }

    /**
     * The header, byte for byte as of NumPy 2.
     *
     * @throws UnsupportedModelException when NumPy has no such element type
     */
    static byte[] toBytes(TensorSpec spec) {
        String dims =
                Arrays.stream(spec.shape().toArray()).mapToObj(Long::toString).collect(Collectors.joining(", "));
        String dictionary = "{'descr': '" + descr(spec) + "', 'fortran_order': False, 'shape': (" + dims
                + (spec.shape().rank() == 1 ? "," : "") + "), }";
        int growth = spec.shape().rank() == 0
                ? 0
                : GROWTH_DIGITS - Long.toString(spec.shape().dim(0)).length();
        int fixedBytes = MAGIC.length + 2 + Short.BYTES;
        int textBytes = Math.ceilDiv(fixedBytes + dictionary.length() + growth + 1, ALIGNMENT) * ALIGNMENT - fixedBytes;
        String text = dictionary + " ".repeat(textBytes - dictionary.length() - 1) + "\n";
        return ByteBuffer.allocate(fixedBytes + textBytes)
                .order(ByteOrder.LITTLE_ENDIAN)
                .put(MAGIC)
                .put((byte) 1)
                .put((byte) 0)
                .putShort((short) textBytes)
                .put(text.getBytes(StandardCharsets.US_ASCII))
                .array();
    }

    private static String descr(TensorSpec spec) {
        return switch (spec.dtype()) {
            case BOOL -> "|b1";
            case I8 -> "|i1";
            case U8 -> "|u1";
            case I16 -> "<i2";
            case U16 -> "<u2";
            case I32 -> "<i4";
            case U32 -> "<u4";
            case I64 -> "<i8";
            case U64 -> "<u8";
            case F16 -> "<f2";
            case F32 -> "<f4";
            case F64 -> "<f8";
            case C64 -> "<c8";
            case C128 -> "<c16";
            case F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E8M0,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    BF16,
                    STRING ->
                throw new UnsupportedModelException(
                        "NumPy has no element type " + spec.dtype(),
                        "tensor '" + spec.name() + "'",
                        "convert the tensor to F32, or write safetensors");
        };
    }
}
