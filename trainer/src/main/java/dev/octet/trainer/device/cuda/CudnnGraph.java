package dev.octet.trainer.device.cuda;

import static dev.octet.trainer.device.cuda.CudnnAttribute.*;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.CudnnAttribute.Kind;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A graph of operations in cuDNN's terms: tensors of four dimensions, those with memory and those between operations, matrix products, steps on each element,
 * reductions along dimensions. Computed in F32.
 */
final class CudnnGraph implements AutoCloseable {
    /** Steps on each element ({@code cudnnPointwiseMode_t}). */
    enum Pointwise {
        ADD(0),
        MULTIPLY(1),
        DIVIDE(6),
        SUBTRACT(9),
        EXPONENTIAL(13),
        LOGARITHM(15),
        AT_LEAST(303),
        /** Each element's own position along an axis. */
        INDEX(501),
        /** x where t is true, b elsewhere. */
        SELECT(601);

        private final int number;

        Pointwise(int number) {
            this.number = number;
        }
    }

    /** Reductions ({@code cudnnReduceTensorOp_t}). */
    enum Reduction {
        SUM(0),
        MAXIMUM(3);

        private final int number;

        Reduction(int number) {
            this.number = number;
        }
    }

    /**
     * A tensor.
     *
     * @param id by which a variant pack names it
     */
    record Tensor(long descriptor, long id) {}

    private final Cudnn cudnn;
    private final List<Long> descriptors = new ArrayList<>();
    private final List<Long> operations = new ArrayList<>();
    private final Map<Long, Float> scalars = new LinkedHashMap<>();
    private long ids;

    CudnnGraph(Cudnn cudnn) {
        this.cudnn = cudnn;
    }

    private long descriptor(Kind kind) {
        long made = cudnn.create(kind);
        descriptors.add(made);
        return made;
    }

    private Tensor tensor(DType type, long[] dims, long[] strides, int alignment, CudnnAttribute... flags) {
        long d = descriptor(Kind.TENSOR);
        long id = ++ids;
        cudnn.set(d, TENSOR_DATA_TYPE, Cudnn.dataType(type));
        cudnn.set(d, TENSOR_DIMENSIONS, dims);
        cudnn.set(d, TENSOR_STRIDES, strides);
        cudnn.set(d, TENSOR_UNIQUE_ID, id);
        cudnn.set(d, TENSOR_BYTE_ALIGNMENT, alignment);
        for (CudnnAttribute flag : flags) {
            cudnn.set(d, flag, 1);
        }
        cudnn.finish(d, "a tensor");
        return new Tensor(d, id);
    }

    /** A tensor in device memory, aligned to 16 bytes. */
    Tensor operand(DType type, long[] dims, long... strides) {
        return tensor(type, dims, strides, 16);
    }

    /** A tensor that operations pass on, row-major. */
    Tensor between(DType type, long... dims) {
        long[] strides = new long[dims.length];
        long step = 1;
        for (int i = dims.length - 1; i >= 0; i--) {
            strides[i] = step;
            step *= dims[i];
        }
        return between(type, dims, strides);
    }

    /** A tensor that operations pass on. */
    Tensor between(DType type, long[] dims, long[] strides) {
        return tensor(type, dims, strides, 16, TENSOR_IS_VIRTUAL);
    }

    /** A number. */
    Tensor scalar(float value) {
        long[] one = {1, 1, 1, 1};
        Tensor made = tensor(DType.F32, one, one, 4, TENSOR_IS_BY_VALUE);
        scalars.put(made.id(), value);
        return made;
    }

    /** The numbers, by id. */
    Map<Long, Float> scalars() {
        return Collections.unmodifiableMap(scalars);
    }

    /** to = a·b of the last two dimensions. */
    Tensor multiply(Tensor a, Tensor b, Tensor to) {
        long how = descriptor(Kind.MATMUL);
        cudnn.set(how, MATMUL_COMP_TYPE, Cudnn.dataType(DType.F32));
        cudnn.finish(how, "a kind of product");
        long d = descriptor(Kind.OPERATION_MATMUL);
        cudnn.set(d, OPERATION_MATMUL_ADESC, a.descriptor());
        cudnn.set(d, OPERATION_MATMUL_BDESC, b.descriptor());
        cudnn.set(d, OPERATION_MATMUL_CDESC, to.descriptor());
        cudnn.set(d, OPERATION_MATMUL_DESC, how);
        return done(d, "a product", to);
    }

    /** to = mode(x). */
    Tensor apply(Pointwise mode, Tensor x, Tensor to) {
        return done(step(how(mode, DType.F32), x, to), mode.toString(), to);
    }

    /** to = mode(x, b). */
    Tensor apply(Pointwise mode, Tensor x, Tensor b, Tensor to) {
        long d = step(how(mode, mode == Pointwise.AT_LEAST ? DType.BOOL : DType.F32), x, to);
        cudnn.set(d, OPERATION_POINTWISE_BDESC, b.descriptor());
        return done(d, mode.toString(), to);
    }

    /** to = x where {@code where} is true, b elsewhere. */
    Tensor select(Tensor where, Tensor x, Tensor b, Tensor to) {
        long d = step(how(Pointwise.SELECT, DType.F32), x, to);
        cudnn.set(d, OPERATION_POINTWISE_BDESC, b.descriptor());
        cudnn.set(d, OPERATION_POINTWISE_TDESC, where.descriptor());
        return done(d, "SELECT", to);
    }

    /** to = the position of each element of x along an axis. */
    Tensor index(Tensor x, int axis, Tensor to) {
        long how = descriptor(Kind.POINTWISE);
        cudnn.set(how, CudnnAttribute.POINTWISE_MODE, Pointwise.INDEX.number);
        cudnn.set(how, POINTWISE_MATH_PREC, Cudnn.dataType(DType.F32));
        cudnn.set(how, POINTWISE_AXIS, axis);
        cudnn.finish(how, "INDEX");
        return done(step(how, x, to), "INDEX", to);
    }

    private long how(Pointwise mode, DType computed) {
        long how = descriptor(Kind.POINTWISE);
        cudnn.set(how, CudnnAttribute.POINTWISE_MODE, mode.number);
        cudnn.set(how, POINTWISE_MATH_PREC, Cudnn.dataType(computed));
        cudnn.finish(how, mode.toString());
        return how;
    }

    private long step(long how, Tensor x, Tensor to) {
        long d = descriptor(Kind.OPERATION_POINTWISE);
        cudnn.set(d, OPERATION_POINTWISE_PW_DESCRIPTOR, how);
        cudnn.set(d, OPERATION_POINTWISE_XDESC, x.descriptor());
        cudnn.set(d, OPERATION_POINTWISE_YDESC, to.descriptor());
        return d;
    }

    /** to = x reduced along the dimensions in which to has one element, or fewer heads. */
    Tensor reduce(Reduction reduction, Tensor x, Tensor to) {
        long how = descriptor(Kind.REDUCTION);
        cudnn.set(how, CudnnAttribute.REDUCTION_OPERATOR, reduction.number);
        cudnn.set(how, REDUCTION_COMP_TYPE, Cudnn.dataType(DType.F32));
        cudnn.finish(how, "a kind of reduction");
        long d = descriptor(Kind.OPERATION_REDUCTION);
        cudnn.set(d, OPERATION_REDUCTION_XDESC, x.descriptor());
        cudnn.set(d, OPERATION_REDUCTION_YDESC, to.descriptor());
        cudnn.set(d, OPERATION_REDUCTION_DESC, how);
        return done(d, "a reduction", to);
    }

    /** to = the elements of x as the dimensions and strides of {@code to} find them. */
    Tensor view(Tensor x, Tensor to) {
        long d = descriptor(Kind.OPERATION_RESHAPE);
        cudnn.set(d, OPERATION_RESHAPE_XDESC, x.descriptor());
        cudnn.set(d, OPERATION_RESHAPE_YDESC, to.descriptor());
        return done(d, "a view", to);
    }

    private Tensor done(long operation, String what, Tensor result) {
        cudnn.finish(operation, what);
        operations.add(operation);
        return result;
    }

    /**
     * The graph's descriptor.
     *
     * @param handle 0 without a GPU
     */
    long finish(long handle) {
        long d = descriptor(Kind.OPERATION_GRAPH);
        cudnn.set(d, OPERATIONGRAPH_OPS, operations.stream().mapToLong(x -> x).toArray());
        if (handle != 0) {
            cudnn.set(d, OPERATIONGRAPH_HANDLE, handle);
        }
        cudnn.finish(d, "a graph");
        return d;
    }

    @Override
    public void close() {
        // last made first: those hold what was made before them
        for (int i = descriptors.size() - 1; i >= 0; i--) {
            cudnn.free(descriptors.get(i));
        }
        descriptors.clear();
    }
}
