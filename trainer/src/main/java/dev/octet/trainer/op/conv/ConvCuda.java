package dev.octet.trainer.op.conv;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.reduce.ReduceCuda;

/**
 * Taps are laid out as matrices, samples of a chunk at a time, and products do the rest: y = w·taps for each sample, dtaps = wᵀ·dy, and dw =
 * dy·tapsᵀ as one product over all outputs of a chunk. Kernels of one element, moved by one, need no taps but x itself. In groups, whose
 * products would be many and small, outputs are computed one by one.
 */
final class ConvCuda implements CudaKernel<Conv> {
    private static final CudaSource SOURCE = CudaSource.of(ConvCuda.class, "conv.cu");
    private static final int THREADS = 256;

    /** cublasLt's most matrices in a batch. */
    private static final int MOST_SAMPLES = 65535;

    /** Bytes of taps that are laid out at once. */
    private final long chunkBytes;

    /** With 256 MiB for taps. */
    public ConvCuda() {
        this(256L << 20);
    }

    /** @param chunkBytes for taps; one sample's are laid out in any case */
    ConvCuda(long chunkBytes) {
        this.chunkBytes = chunkBytes;
    }

    /** One convolution's sizes, as products see them. */
    private record Sizes(Conv op, long k, long p, long width, long chunkBytes) {

        boolean isDirect() {
            return op.rows().isIdentity() && op.columns().isIdentity();
        }

        /** Samples of a chunk, when each takes so many bytes. */
        int chunk(long sampleBytes) {
            return Math.clamp(chunkBytes / Math.max(1, sampleBytes), 1, Math.min(op.batch(), MOST_SAMPLES));
        }

        long x(CudaTensor x, int sample) {
            return x.address() + (long) sample * op.channels() * op.inPlane() * width;
        }

        long y(CudaTensor y, int sample) {
            return y.address() + (long) sample * op.filters() * p * width;
        }
    }

    private Sizes sizes(Conv op) {
        return new Sizes(op, op.taps(), op.outPlane(), op.x().dtype().bits() / 8, chunkBytes);
    }

    @Override
    public void forward(Conv op, Frame<CudaTensor> frame, CudaStream cuda) {
        Sizes sizes = sizes(op);
        CudaTensor y = frame.output(0);
        if (y.count() == 0) {
            return;
        }
        if (op.groups() > 1) {
            groupForward(op, frame, cuda);
            return;
        }
        if (op.hasBias()) {
            cuda.launch(
                    SOURCE,
                    "conv_fill_" + y.suffix(),
                    Grid.over(y.count(), THREADS, 8),
                    CudaSource.code(frame.input(2).dtype()),
                    frame.input(2),
                    y,
                    y.count(),
                    (long) op.filters(),
                    sizes.p());
        }
        products(sizes, frame, cuda);
    }

    private static void products(Sizes sizes, Frame<CudaTensor> frame, CudaStream cuda) {
        Conv op = sizes.op();
        CudaTensor x = frame.input(0);
        CudaTensor w = frame.input(1);
        CudaTensor y = frame.output(0);
        long matrix = sizes.k() * sizes.p();
        int chunk = sizes.chunk(sizes.isDirect() ? 0 : matrix * sizes.width());
        // neighbours in memory stay neighbours: along the outputs where the kernel moves by one, else along the kernel
        boolean byOutputs = !sizes.isDirect() && op.columns().stride() > 1;
        long room = sizes.isDirect() ? 0 : cuda.workspace(chunk * matrix * sizes.width());
        for (int first = 0; first < op.batch(); first += chunk) {
            int samples = Math.min(chunk, op.batch() - first);
            long taps = sizes.isDirect() ? sizes.x(x, first) : room;
            if (!sizes.isDirect()) {
                layOut(sizes, x, first, samples, byOutputs, taps, cuda);
            }
            cuda.product(CudaProduct.of(
                            false,
                            byOutputs,
                            op.filters(),
                            op.outPlane(),
                            op.taps(),
                            Matrix.of(w.address(), w.dtype(), sizes.k()),
                            new Matrix(taps, x.dtype(), byOutputs ? sizes.k() : sizes.p(), matrix),
                            new Matrix(sizes.y(y, first), y.dtype(), sizes.p(), op.filters() * sizes.p()))
                    .batched(samples)
                    .accumulating(op.hasBias()));
        }
    }

    private static void layOut(
            Sizes sizes, CudaTensor x, int first, int samples, boolean byOutputs, long taps, CudaStream cuda) {
        long n = samples * sizes.k() * sizes.p();
        cuda.launch(
                SOURCE,
                "conv_taps_" + sizes.width(),
                Grid.over(n * sizes.width(), THREADS, 16),
                sizes.x(x, first),
                taps,
                n,
                sizes.op().channels(),
                byOutputs ? 1 : 0,
                axes(sizes.op(), cuda));
    }

    private static long axes(Conv op, CudaStream cuda) {
        Window r = op.rows();
        Window c = op.columns();
        return cuda.table(
                r.in(),
                r.out(),
                r.kernel(),
                r.stride(),
                r.dilation(),
                r.before(),
                c.in(),
                c.out(),
                c.kernel(),
                c.stride(),
                c.dilation(),
                c.before());
    }

    @Override
    public void backward(Conv op, Frame<CudaTensor> frame, CudaStream cuda) {
        Sizes sizes = sizes(op);
        CudaTensor dy = frame.upstream(0);
        if (op.hasBias() && frame.wantsGradient(2)) {
            Broadcast byFilter =
                    Broadcast.of(Shape.of(op.batch(), op.filters(), op.outPlane()), Shape.of(op.filters(), 1));
            ReduceCuda.sum(byFilter, dy, frame.gradient(2), cuda);
        }
        for (int i = 0; i < 2; i++) {
            if (!frame.wantsGradient(i)) {
                continue;
            }
            CudaTensor gradient = frame.gradient(i);
            if (dy.count() == 0) {
                cuda.zero(gradient.address(), gradient.byteSize());
            } else if (op.groups() > 1) {
                groupGradient(op, i, frame, cuda);
            } else if (i == 0) {
                inputGradient(sizes, frame, cuda);
            } else {
                weightGradient(sizes, frame, cuda);
            }
        }
    }

    /** dtaps = wᵀ·dy for each sample, in F32, then each input collects what is its own. */
    private static void inputGradient(Sizes sizes, Frame<CudaTensor> frame, CudaStream cuda) {
        Conv op = sizes.op();
        CudaTensor w = frame.input(1);
        CudaTensor dy = frame.upstream(0);
        CudaTensor dx = frame.gradient(0);
        long matrix = sizes.k() * sizes.p();
        int chunk = sizes.chunk(sizes.isDirect() ? 0 : matrix * Float.BYTES);
        long room = sizes.isDirect() ? 0 : cuda.workspace(chunk * matrix * Float.BYTES);
        for (int first = 0; first < op.batch(); first += chunk) {
            int samples = Math.min(chunk, op.batch() - first);
            Matrix dtaps = sizes.isDirect()
                    ? new Matrix(sizes.x(dx, first), dx.dtype(), sizes.p(), matrix)
                    : new Matrix(room, DType.F32, sizes.p(), matrix);
            cuda.product(CudaProduct.of(
                            true,
                            false,
                            op.taps(),
                            op.outPlane(),
                            op.filters(),
                            Matrix.of(w.address(), w.dtype(), sizes.k()),
                            new Matrix(sizes.y(dy, first), dy.dtype(), sizes.p(), op.filters() * sizes.p()),
                            dtaps)
                    .batched(samples));
            if (!sizes.isDirect()) {
                long n = (long) samples * op.channels() * op.inPlane();
                cuda.launch(
                        SOURCE,
                        "conv_collect_" + dx.suffix(),
                        Grid.over(n, THREADS, 1),
                        room,
                        sizes.x(dx, first),
                        n,
                        op.channels(),
                        axes(op, cuda));
            }
        }
    }

    /** dw = dy·tapsᵀ over all outputs of a chunk: dy is turned to [outputs, filters], taps are laid out as [outputs, taps]. */
    private static void weightGradient(Sizes sizes, Frame<CudaTensor> frame, CudaStream cuda) {
        Conv op = sizes.op();
        CudaTensor x = frame.input(0);
        CudaTensor dy = frame.upstream(0);
        CudaTensor dw = frame.gradient(1);
        int chunk = sizes.chunk((sizes.k() + op.filters()) * sizes.p() * sizes.width());
        chunk = (int) Math.min(chunk, Math.max(1, Integer.MAX_VALUE / sizes.p()));
        long turned = cuda.workspace((long) chunk * op.filters() * sizes.p() * sizes.width());
        long taps = cuda.workspace(chunk * sizes.k() * sizes.p() * sizes.width());
        boolean whole = chunk == op.batch();
        // sums of several chunks are rounded once, too
        long sums = whole ? dw.address() : cuda.workspace(dw.count() * Float.BYTES);
        for (int first = 0; first < op.batch(); first += chunk) {
            int samples = Math.min(chunk, op.batch() - first);
            turn(sizes, sizes.y(dy, first), turned, samples, op.filters(), cuda);
            if (sizes.isDirect()) {
                turn(sizes, sizes.x(x, first), taps, samples, op.channels(), cuda);
            } else {
                layOut(sizes, x, first, samples, true, taps, cuda);
            }
            cuda.product(CudaProduct.of(
                            true,
                            false,
                            op.filters(),
                            op.taps(),
                            Math.toIntExact(samples * sizes.p()),
                            Matrix.of(turned, dy.dtype(), op.filters()),
                            Matrix.of(taps, x.dtype(), sizes.k()),
                            Matrix.of(sums, whole ? dw.dtype() : DType.F32, sizes.k()))
                    .accumulating(first > 0));
        }
        if (!whole) {
            cuda.launch(SOURCE, "conv_round_" + dw.suffix(), Grid.over(dw.count(), THREADS, 8), sums, dw, dw.count());
        }
    }

    /** Transposes [rows, P] of each sample. */
    private static void turn(Sizes sizes, long from, long to, int samples, int rows, CudaStream cuda) {
        long tiles = Math.ceilDiv(rows, 32) * Math.ceilDiv(sizes.p(), 32L);
        cuda.launch(
                SOURCE,
                "conv_turn_" + sizes.width(),
                Grid.of(samples * tiles, THREADS),
                from,
                to,
                (long) rows,
                sizes.p());
    }

    private static void groupForward(Conv op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        cuda.kernel(SOURCE, "conv_group_forward_" + y.suffix(), Grid.over(y.count(), THREADS, 1))
                .pointer("x", frame.input(0))
                .pointer("w", frame.input(1))
                .typedOrAbsent("type", "bias", op.hasBias() ? frame.input(2) : null)
                .pointer("y", y)
                .value("n", y.count())
                .value("channels", op.channels())
                .value("filters", op.filters())
                .value("group_channels", op.groupChannels())
                .value("group_filters", op.groupFilters())
                .pointer("axes", axes(op, cuda))
                .launch();
    }

    private static void groupGradient(Conv op, int i, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor gradient = frame.gradient(i);
        CudaTensor dy = frame.upstream(0);
        if (i == 0) {
            cuda.launch(
                    SOURCE,
                    "conv_group_input_" + gradient.suffix(),
                    Grid.over(gradient.count(), THREADS, 1),
                    dy,
                    frame.input(1),
                    gradient,
                    gradient.count(),
                    op.channels(),
                    op.filters(),
                    op.groupChannels(),
                    op.groupFilters(),
                    axes(op, cuda));
        } else {
            cuda.launch(
                    SOURCE,
                    "conv_group_weight_" + gradient.suffix(),
                    Grid.of(gradient.count(), THREADS),
                    dy,
                    frame.input(0),
                    gradient,
                    op.batch(),
                    op.channels(),
                    op.filters(),
                    op.groupChannels(),
                    op.groupFilters(),
                    axes(op, cuda));
        }
    }
}
