package dev.octet.formats.torch;

import dev.octet.formats.pickle.PickleValue.Global;
import dev.octet.formats.tensor.DType;
import java.util.Map;
import java.util.Optional;

/** Element types of torch by name. Source: torch/storage.py, torch/_C dtype names. */
public final class TorchTypes {
    private static final Map<String, DType> STORAGES = Map.ofEntries(
            Map.entry("FloatStorage", DType.F32),
            Map.entry("DoubleStorage", DType.F64),
            Map.entry("HalfStorage", DType.F16),
            Map.entry("BFloat16Storage", DType.BF16),
            Map.entry("LongStorage", DType.I64),
            Map.entry("IntStorage", DType.I32),
            Map.entry("ShortStorage", DType.I16),
            Map.entry("CharStorage", DType.I8),
            Map.entry("ByteStorage", DType.U8),
            Map.entry("BoolStorage", DType.BOOL),
            Map.entry("ComplexFloatStorage", DType.C64),
            Map.entry("ComplexDoubleStorage", DType.C128));

    private static final Map<String, DType> TYPES = Map.ofEntries(
            Map.entry("float32", DType.F32),
            Map.entry("float", DType.F32),
            Map.entry("float64", DType.F64),
            Map.entry("double", DType.F64),
            Map.entry("float16", DType.F16),
            Map.entry("half", DType.F16),
            Map.entry("bfloat16", DType.BF16),
            Map.entry("int64", DType.I64),
            Map.entry("long", DType.I64),
            Map.entry("int32", DType.I32),
            Map.entry("int", DType.I32),
            Map.entry("int16", DType.I16),
            Map.entry("short", DType.I16),
            Map.entry("int8", DType.I8),
            Map.entry("uint8", DType.U8),
            Map.entry("uint16", DType.U16),
            Map.entry("uint32", DType.U32),
            Map.entry("uint64", DType.U64),
            Map.entry("bool", DType.BOOL),
            Map.entry("complex64", DType.C64),
            Map.entry("complex128", DType.C128),
            Map.entry("float8_e4m3fn", DType.F8_E4M3FN),
            Map.entry("float8_e5m2", DType.F8_E5M2),
            Map.entry("float8_e4m3fnuz", DType.F8_E4M3FNUZ),
            Map.entry("float8_e5m2fnuz", DType.F8_E5M2FNUZ),
            Map.entry("float8_e8m0fnu", DType.F8_E8M0));

    private TorchTypes() {}

    /** The type of a {@code torch.dtype}; empty for one that Octet has no tensors of. */
    public static Optional<DType> ofDtype(Global global) {
        return global.module().equals("torch") ? Optional.ofNullable(TYPES.get(global.name())) : Optional.empty();
    }

    /** The element type of a class of storages; empty for storages of bytes, and for types that Octet has no tensors of. */
    static Optional<DType> ofStorage(Global global) {
        return global.module().equals("torch") ? Optional.ofNullable(STORAGES.get(global.name())) : Optional.empty();
    }

    /** Whether a storage says nothing of its elements. */
    static boolean isUntyped(Global global) {
        return global.name().equals("UntypedStorage");
    }

    /** torch's name of a type, without {@code torch.}; empty where torch has none. */
    public static Optional<String> name(DType dtype) {
        return TYPES.entrySet().stream()
                .filter(e -> e.getValue() == dtype)
                .map(Map.Entry::getKey)
                .filter(n -> !n.matches("float|double|half|long|int|short"))
                .findFirst();
    }

    /** The class of torch's storages of a type; empty where there is none of its own, and tensors are rebuilt from bytes and their dtype. */
    static Optional<String> storage(DType dtype) {
        return STORAGES.entrySet().stream()
                .filter(e -> e.getValue() == dtype)
                .map(Map.Entry::getKey)
                .findFirst();
    }
}
