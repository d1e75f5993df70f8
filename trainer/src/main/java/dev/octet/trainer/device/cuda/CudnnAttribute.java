package dev.octet.trainer.device.cuda;

/**
 * Attributes of cuDNN's descriptors that Octet sets or reads, with number and type (cudnn_graph.h, {@code cudnnBackendAttributeName_t},
 * {@code cudnnBackendAttributeType_t}; unchanged from cuDNN 9.0 on, those of device properties from 9.8).
 */
enum CudnnAttribute {
    POINTWISE_MODE(0, Type.POINTWISE_MODE),
    POINTWISE_MATH_PREC(1, Type.DATA_TYPE),
    POINTWISE_AXIS(9, Type.INT64),
    ENGINEHEUR_MODE(200, Type.HEUR_MODE),
    ENGINEHEUR_OPERATION_GRAPH(201, Type.DESCRIPTOR),
    ENGINEHEUR_RESULTS(202, Type.DESCRIPTOR),
    ENGINEHEUR_DEVICEPROP(204, Type.DESCRIPTOR),
    ENGINECFG_ENGINE(300, Type.DESCRIPTOR),
    EXECUTION_PLAN_ENGINE_CONFIG(401, Type.DESCRIPTOR),
    /** Bytes. */
    EXECUTION_PLAN_WORKSPACE_SIZE(402, Type.INT64),
    OPERATION_POINTWISE_PW_DESCRIPTOR(750, Type.DESCRIPTOR),
    OPERATION_POINTWISE_XDESC(751, Type.DESCRIPTOR),
    OPERATION_POINTWISE_BDESC(752, Type.DESCRIPTOR),
    OPERATION_POINTWISE_YDESC(753, Type.DESCRIPTOR),
    OPERATION_POINTWISE_TDESC(758, Type.DESCRIPTOR),
    OPERATIONGRAPH_HANDLE(800, Type.HANDLE),
    OPERATIONGRAPH_OPS(801, Type.DESCRIPTOR),
    /** Bytes. */
    TENSOR_BYTE_ALIGNMENT(900, Type.INT64),
    TENSOR_DATA_TYPE(901, Type.DATA_TYPE),
    TENSOR_DIMENSIONS(902, Type.INT64),
    /** Elements. */
    TENSOR_STRIDES(903, Type.INT64),
    TENSOR_UNIQUE_ID(906, Type.INT64),
    TENSOR_IS_VIRTUAL(907, Type.BOOLEAN),
    /** Whether a variant pack has a host's address of the tensor's one element. */
    TENSOR_IS_BY_VALUE(908, Type.BOOLEAN),
    VARIANT_PACK_UNIQUE_IDS(1000, Type.INT64),
    VARIANT_PACK_DATA_POINTERS(1001, Type.VOID_PTR),
    VARIANT_PACK_WORKSPACE(1003, Type.VOID_PTR),
    ENGINE_GLOBAL_INDEX(1301, Type.INT64),
    ENGINE_NUMERICAL_NOTE(1303, Type.NUMERICAL_NOTE),
    MATMUL_COMP_TYPE(1500, Type.DATA_TYPE),
    OPERATION_MATMUL_ADESC(1520, Type.DESCRIPTOR),
    OPERATION_MATMUL_BDESC(1521, Type.DESCRIPTOR),
    OPERATION_MATMUL_CDESC(1522, Type.DESCRIPTOR),
    OPERATION_MATMUL_DESC(1523, Type.DESCRIPTOR),
    REDUCTION_OPERATOR(1600, Type.REDUCTION_OPERATOR),
    REDUCTION_COMP_TYPE(1601, Type.DATA_TYPE),
    OPERATION_REDUCTION_XDESC(1610, Type.DESCRIPTOR),
    OPERATION_REDUCTION_YDESC(1611, Type.DESCRIPTOR),
    OPERATION_REDUCTION_DESC(1612, Type.DESCRIPTOR),
    OPERATION_RESHAPE_XDESC(2200, Type.DESCRIPTOR),
    OPERATION_RESHAPE_YDESC(2201, Type.DESCRIPTOR),
    DEVICEPROP_JSON_REPRESENTATION(2702, Type.CHAR);

    /** {@code CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}. */
    static final int NONDETERMINISTIC = 4;

    /** {@code CUDNN_NUMERICAL_NOTE_TYPE_COUNT}, and some that later versions may have. */
    static final int MOST_NOTES = 16;

    /** {@code cudnnBackendAttributeType_t}. */
    enum Type {
        HANDLE(0, 8),
        DATA_TYPE(1, 4),
        BOOLEAN(2, 1),
        INT64(3, 8),
        VOID_PTR(6, 8),
        HEUR_MODE(8, 4),
        NUMERICAL_NOTE(11, 4),
        POINTWISE_MODE(14, 4),
        DESCRIPTOR(15, 8),
        REDUCTION_OPERATOR(18, 4),
        CHAR(24, 1);

        private final int number;
        private final int bytes;

        Type(int number, int bytes) {
            this.number = number;
            this.bytes = bytes;
        }

        int number() {
            return number;
        }

        /** Of one element. */
        int bytes() {
            return bytes;
        }
    }

    /** {@code cudnnBackendDescriptorType_t}. */
    enum Kind {
        POINTWISE(0),
        ENGINE(2),
        ENGINE_CONFIG(3),
        ENGINE_HEURISTIC(4),
        EXECUTION_PLAN(5),
        OPERATION_POINTWISE(13),
        OPERATION_GRAPH(15),
        VARIANT_PACK(16),
        TENSOR(17),
        MATMUL(18),
        OPERATION_MATMUL(19),
        REDUCTION(21),
        OPERATION_REDUCTION(22),
        OPERATION_RESHAPE(31),
        DEVICE_PROPERTIES(38);

        private final int number;

        Kind(int number) {
            this.number = number;
        }

        int number() {
            return number;
        }
    }

    private final int number;
    private final Type type;

    CudnnAttribute(int number, Type type) {
        this.number = number;
        this.type = type;
    }

    int number() {
        return number;
    }

    Type type() {
        return type;
    }
}
