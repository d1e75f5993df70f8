package dev.octet.formats.tensor;

import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Element types of tensors, with the width of one element and the name each file format gives it.
 *
 * <p>Sources: ONNX {@code onnx.proto} TensorProto.DataType (ids); safetensors {@code tensor.rs} Dtype (names); FP8 per
 * Micikevicius et al. 2022 (arXiv:2209.05433) and OCP OFP8 v1.0; FNUZ per Noune et al. 2022 (arXiv:2206.02915); E8M0, FP6 and
 * FP4 per OCP Microscaling Formats v1.0.
 *
 * <p>The order is that of safetensors' enum (increasing alignment), because its writer sorts tensors by it; types that safetensors lacks
 * stand next to similar types.
 */
public enum DType {
    /** A truth value in a byte, 0 or 1. */
    BOOL(8, "BOOL", 9),
    /** E2M1, two elements per byte, low nibble first. */
    F4_E2M1(4, "F4", 23),
    F6_E2M3(6, "F6_E2M3", 27),
    F6_E3M2(6, "F6_E3M2", 28),
    U2(2, null, 25),
    I2(2, null, 26),
    U4(4, null, 21),
    I4(4, null, 22),
    U8(8, "U8", 2),
    I8(8, "I8", 3),
    /** 5 exponent bits, 2 mantissa bits, IEEE-like: infinities and NaNs, max 57344. */
    F8_E5M2(8, "F8_E5M2", 19),
    /** 4 exponent bits, 3 mantissa bits, no infinity, NaN 0x7F/0xFF, max 448. safetensors' name for it is F8_E4M3. */
    F8_E4M3FN(8, "F8_E4M3", 17),
    /** A power of two 2^(b-127), 0xFF is NaN; the block scale of the MX formats. */
    F8_E8M0(8, "F8_E8M0", 24),
    F8_E4M3FNUZ(8, "F8_E4M3FNUZ", 18),
    F8_E5M2FNUZ(8, "F8_E5M2FNUZ", 20),
    I16(16, "I16", 5),
    U16(16, "U16", 4),
    F16(16, "F16", 10),
    BF16(16, "BF16", 16),
    I32(32, "I32", 6),
    U32(32, "U32", 12),
    F32(32, "F32", 1),
    C64(64, "C64", 14),
    F64(64, "F64", 11),
    I64(64, "I64", 7),
    U64(64, "U64", 13),
    C128(128, null, 15),
    /** Text of any length; ONNX only, never a {@link Tensor}. */
    STRING(0, null, 8);

    private static final Map<String, DType> BY_SAFETENSORS_NAME = Arrays.stream(values())
            .filter(d -> d.safetensorsName().isPresent())
            .collect(Collectors.toUnmodifiableMap(d -> d.safetensorsName().orElseThrow(), Function.identity()));
    private static final Map<Integer, DType> BY_ONNX_ID =
            Arrays.stream(values()).collect(Collectors.toUnmodifiableMap(d -> d.onnxId, Function.identity()));

    private final int bits;
    private final @Nullable String safetensorsName;
    private final int onnxId;

    DType(int bits, @Nullable String safetensorsName, int onnxId) {
        this.bits = bits;
        this.safetensorsName = safetensorsName;
        this.onnxId = onnxId;
    }

    /** Width of one element in bits; 0 for {@link #STRING}. */
    public int bits() {
        return bits;
    }

    /** Name in a safetensors header, empty when that format lacks the type. */
    public Optional<String> safetensorsName() {
        return Optional.ofNullable(safetensorsName);
    }

    /** Id in ONNX's TensorProto.DataType. */
    public int onnxId() {
        return onnxId;
    }

    /** The type with this name in a safetensors header; empty when unknown. */
    public static Optional<DType> ofSafetensorsName(String name) {
        return Optional.ofNullable(BY_SAFETENSORS_NAME.get(name));
    }

    /** The type ONNX numbers {@code id}; empty when unknown or undefined (0). */
    public static Optional<DType> ofOnnxId(int id) {
        return Optional.ofNullable(BY_ONNX_ID.get(id));
    }

    /** Whether values are real numbers with a fraction (so not integers, truth values, complex numbers, text). */
    public boolean isFloat() {
        return switch (this) {
            case F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E8M0,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    F16,
                    BF16,
                    F32,
                    F64 -> true;
            case BOOL, U2, I2, U4, I4, U8, I8, I16, U16, I32, U32, C64, I64, U64, C128, STRING -> false;
        };
    }

    /** Whether this is one of the five 8-bit float types. */
    public boolean isFloat8() {
        return isFloat() && bits == 8;
    }
}
