package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.CudnnGraph.Pointwise;
import dev.octet.trainer.device.cuda.CudnnGraph.Reduction;
import dev.octet.trainer.device.cuda.CudnnGraph.Tensor;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Gradients;
import dev.octet.trainer.kernel.CudaAttention.Rows;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import java.util.EnumMap;
import java.util.Map;

/**
 * Attention as the operations that cuDNN recognises as one (its developer guide, "Fused Flash Attention"): products, steps and reductions on the matrix of
 * queries by keys, which no memory ever holds. Keys come transposed; backward, values do, too.
 */
final class CudnnAttention implements AutoCloseable {
    /** Tensors in memory. */
    enum Slot {
        Q,
        K,
        V,
        Y,
        LOG_SUMS,
        BIAS,
        DY,
        DQ,
        DK,
        DV,
        /** dy·y of each query, F32: memory of the work's own. */
        DOTS
    }

    private final CudaAttention of;
    private final Shape shape;
    private final CudnnGraph graph;
    private final Map<Slot, Long> ids = new EnumMap<>(Slot.class);
    private final long[] all;
    private final long[] rows;

    CudnnAttention(Cudnn cudnn, CudaAttention of) {
        this.of = of;
        shape = of.shape();
        graph = new CudnnGraph(cudnn);
        all = new long[] {shape.batch(), shape.heads(), shape.queries(), shape.keys()};
        rows = new long[] {shape.batch(), shape.heads(), shape.queries(), 1};
        try {
            Gradients gradients = of.gradients();
            if (gradients == null) {
                forward();
            } else {
                backward(gradients);
            }
        } catch (RuntimeException e) {
            graph.close();
            throw e;
        }
    }

    CudnnGraph graph() {
        return graph;
    }

    /** By which a variant pack names the tensors in memory. */
    Map<Slot, Long> ids() {
        return ids;
    }

    private Tensor placed(Slot slot, Tensor made) {
        ids.put(slot, made.id());
        return made;
    }

    private Tensor rows(Slot slot, Rows at, int heads, int length) {
        long[] dims = {shape.batch(), heads, length, shape.size()};
        return placed(slot, graph.operand(of.type(), dims, at.batch(), at.head(), at.row(), 1));
    }

    private Tensor transposed(Slot slot, Rows at) {
        long[] dims = {shape.batch(), shape.keyHeads(), shape.size(), shape.keys()};
        return placed(slot, graph.operand(of.type(), dims, at.batch(), at.head(), 1, at.row()));
    }

    private Tensor numbers(Slot slot) {
        return placed(
                slot, graph.operand(DType.F32, rows, (long) shape.heads() * shape.queries(), shape.queries(), 1, 1));
    }

    private Tensor scores() {
        return graph.between(DType.F32, all);
    }

    private Tensor ofRows() {
        return graph.between(DType.F32, rows);
    }

    /** scale·q·kᵀ + bias. */
    private Tensor scores(Tensor q, Tensor k) {
        Tensor x = graph.multiply(q, k, scores());
        x = graph.apply(Pointwise.MULTIPLY, x, graph.scalar(of.scale()), scores());
        if (of.bias() == 0) {
            return x;
        }
        long[] dims = {shape.batch(), 1, 1, shape.keys()};
        Tensor bias = placed(Slot.BIAS, graph.operand(DType.F32, dims, shape.keys(), shape.keys(), shape.keys(), 1));
        return graph.apply(Pointwise.ADD, x, bias, scores());
    }

    /** x, or nothing's logarithm where the key comes behind the query. */
    private Tensor seen(Tensor x) {
        if (!of.causal()) {
            return x;
        }
        Tensor query = graph.index(x, 2, graph.between(DType.I32, all));
        Tensor key = graph.index(x, 3, graph.between(DType.I32, all));
        Tensor there = graph.apply(Pointwise.AT_LEAST, query, key, graph.between(DType.BOOL, all));
        return graph.select(there, x, graph.scalar(Float.NEGATIVE_INFINITY), scores());
    }

    private void forward() {
        Tensor q = rows(Slot.Q, of.q(), shape.heads(), shape.queries());
        Tensor k = transposed(Slot.K, of.k());
        Tensor v = rows(Slot.V, of.v(), shape.keyHeads(), shape.keys());
        Tensor x = seen(scores(q, k));
        Tensor most = graph.reduce(Reduction.MAXIMUM, x, ofRows());
        Tensor powers =
                graph.apply(Pointwise.EXPONENTIAL, graph.apply(Pointwise.SUBTRACT, x, most, scores()), scores());
        Tensor sums = graph.reduce(Reduction.SUM, powers, ofRows());
        Tensor logarithms = graph.apply(Pointwise.LOGARITHM, sums, ofRows());
        graph.apply(Pointwise.ADD, most, logarithms, numbers(Slot.LOG_SUMS));
        Tensor p = graph.apply(Pointwise.DIVIDE, powers, sums, graph.between(of.type(), all));
        graph.multiply(p, v, rows(Slot.Y, of.y(), shape.heads(), shape.queries()));
    }

    /** Without a sum of queries' gradients in memory that blocks of keys would add to in any order: so with the same bits every time. */
    private void backward(Gradients g) {
        Tensor q = rows(Slot.Q, of.q(), shape.heads(), shape.queries());
        Tensor k = transposed(Slot.K, of.k());
        Tensor v = transposed(Slot.V, of.v());
        Tensor y = rows(Slot.Y, of.y(), shape.heads(), shape.queries());
        Tensor dy = rows(Slot.DY, g.dy(), shape.heads(), shape.queries());
        Tensor logSums = numbers(Slot.LOG_SUMS);

        long[] vectors = {shape.batch(), shape.heads(), shape.queries(), shape.size()};
        Tensor dots = graph.apply(Pointwise.MULTIPLY, dy, y, graph.between(DType.F32, vectors));
        dots = graph.reduce(Reduction.SUM, dots, ofRows());
        dots = graph.apply(Pointwise.MULTIPLY, dots, graph.scalar(1), numbers(Slot.DOTS));

        Tensor x = graph.apply(Pointwise.SUBTRACT, scores(q, k), logSums, scores());
        Tensor p = graph.apply(Pointwise.EXPONENTIAL, seen(x), scores());
        ofKeys(p, dy, rows(Slot.DV, g.dv(), shape.keyHeads(), shape.keys()));

        Tensor ds = graph.multiply(dy, v, scores());
        ds = graph.apply(Pointwise.SUBTRACT, ds, dots, scores());
        ds = graph.apply(Pointwise.MULTIPLY, ds, p, scores());
        ds = graph.apply(Pointwise.MULTIPLY, ds, graph.scalar(of.scale()), scores());
        ofKeys(ds, q, rows(Slot.DK, g.dk(), shape.keyHeads(), shape.keys()));

        long[] dims = {shape.batch(), shape.keyHeads(), shape.keys(), shape.size()};
        long[] strides = {of.k().batch(), of.k().head(), of.k().row(), 1};
        Tensor keys = graph.view(k, graph.between(of.type(), dims, strides));
        graph.multiply(ds, keys, rows(Slot.DQ, g.dq(), shape.heads(), shape.queries()));
    }

    /** to = xᵀ·y, summed over the heads that share keys. */
    private void ofKeys(Tensor x, Tensor y, Tensor to) {
        long queries = shape.queries();
        long keys = shape.keys();
        long[] dims = {shape.batch(), shape.heads(), keys, queries};
        long[] strides = {shape.heads() * queries * keys, queries * keys, 1, keys};
        Tensor turned = graph.view(x, graph.between(of.type(), dims, strides));
        if (shape.heads() == shape.keyHeads()) {
            graph.multiply(turned, y, to);
        } else {
            Tensor each = graph.between(of.type(), shape.batch(), shape.heads(), keys, shape.size());
            graph.reduce(Reduction.SUM, graph.multiply(turned, y, each), to);
        }
    }

    @Override
    public void close() {
        graph.close();
    }
}
