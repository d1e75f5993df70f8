package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;

/**
 * Attributes of cublasLt's objects that Octet sets, with number and size (cublasLt.h, {@code cublasLtMatmulDescAttributes_t},
 * {@code cublasLtMatrixLayoutAttribute_t}, {@code cublasLtMatmulPreferenceAttributes_t}; unchanged from CUDA 12.0 to 13.1).
 */
enum LtAttribute {
    /** int32, {@link #OP_T} or {@link #OP_N}. */
    TRANSA(Kind.PRODUCT, 3, 4),
    TRANSB(Kind.PRODUCT, 4, 4),
    /** uint32, {@link #EPILOGUE_DEFAULT} or {@link #EPILOGUE_BIAS}. */
    EPILOGUE(Kind.PRODUCT, 7, 4),
    /** Device address. */
    BIAS_POINTER(Kind.PRODUCT, 8, 8),
    /** int64, elements between the biases of consecutive products of a batch. */
    BIAS_BATCH_STRIDE(Kind.PRODUCT, 10, 8),
    /** Device address of an F32 dequantisation multiplier. */
    A_SCALE_POINTER(Kind.PRODUCT, 17, 8),
    B_SCALE_POINTER(Kind.PRODUCT, 18, 8),
    /** int8; one byte, unlike its neighbours. */
    FAST_ACCUM(Kind.PRODUCT, 25, 1),
    /** int32, a {@code cudaDataType_t}. */
    BIAS_DATA_TYPE(Kind.PRODUCT, 26, 4),
    /** int32, {@code cublasLtMatmulMatrixScale_t}; from CUDA 12.8. */
    A_SCALE_MODE(Kind.PRODUCT, 31, 4),
    B_SCALE_MODE(Kind.PRODUCT, 32, 4),

    /** int32. */
    BATCH_COUNT(Kind.LAYOUT, 5, 4),
    /** int64, elements. */
    STRIDED_BATCH_OFFSET(Kind.LAYOUT, 6, 8),

    /** size_t. */
    MAX_WORKSPACE_BYTES(Kind.PREFERENCE, 1, 8),
    /** uint32. */
    REDUCTION_SCHEME_MASK(Kind.PREFERENCE, 3, 4),
    /** uint32. */
    MIN_ALIGNMENT_A_BYTES(Kind.PREFERENCE, 5, 4),
    MIN_ALIGNMENT_B_BYTES(Kind.PREFERENCE, 6, 4),
    MIN_ALIGNMENT_C_BYTES(Kind.PREFERENCE, 7, 4),
    MIN_ALIGNMENT_D_BYTES(Kind.PREFERENCE, 8, 4);

    /** {@code cublasOperation_t}. */
    static final int OP_N = 0;

    static final int OP_T = 1;

    /** {@code cublasLtEpilogue_t}. */
    static final int EPILOGUE_DEFAULT = 1;

    static final int EPILOGUE_BIAS = 4;

    /** {@code cublasLtReductionScheme_t}: partial sums of split-k are added in F32, in a fixed order. */
    static final int REDUCTION_COMPUTE_TYPE = 2;

    /** {@code cublasComputeType_t}. */
    static final int COMPUTE_32F = 68;

    static final int COMPUTE_32F_FAST_TF32 = 77;

    /** {@code cublasLtMatmulMatrixScale_t}: a multiplier for each row of A, or each column of B. */
    static final int SCALE_PER_VECTOR = 3;

    /** The same: one for each run of 128 elements of A or B along k. */
    static final int SCALE_PER_RUN = 4;

    /** The same: one for each square of 128 by 128 elements. */
    static final int SCALE_PER_SQUARE = 5;

    /** First version with such multipliers. */
    static final long SEVERAL_SCALES_SINCE = 120900;

    /** First version with scale modes, in the format of {@code cublasLtGetVersion}. */
    static final long SCALE_MODES_SINCE = 120800;

    /** First version with FP8 products. */
    static final long FP8_SINCE = 120000;

    /** Type of object that has the attribute. */
    enum Kind {
        PRODUCT("cublasLtMatmulDesc"),
        LAYOUT("cublasLtMatrixLayout"),
        PREFERENCE("cublasLtMatmulPreference");

        private final String prefix;

        Kind(String prefix) {
            this.prefix = prefix;
        }

        /** Prefix of the names of its functions. */
        String prefix() {
            return prefix;
        }
    }

    private final Kind kind;
    private final int number;
    private final int bytes;

    LtAttribute(Kind kind, int number, int bytes) {
        this.kind = kind;
        this.number = number;
        this.bytes = bytes;
    }

    Kind kind() {
        return kind;
    }

    int number() {
        return number;
    }

    int bytes() {
        return bytes;
    }

    /** {@code cudaDataType_t} of an element type (library_types.h). */
    static int dataType(DType type) {
        return switch (type) {
            case F32 -> 0;
            case F16 -> 2;
            case BF16 -> 14;
            case F8_E4M3FN -> 28;
            case F8_E5M2 -> 29;
            default -> throw new IllegalArgumentException("no matrix products of " + type);
        };
    }
}
