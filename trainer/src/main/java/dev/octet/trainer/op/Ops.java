package dev.octet.trainer.op;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpReader;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.batchnorm.BatchNormalization;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.binary.BinaryCuda;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.conv.Conv;
import dev.octet.trainer.op.copy.Concat;
import dev.octet.trainer.op.copy.Pad;
import dev.octet.trainer.op.copy.Slice;
import dev.octet.trainer.op.copy.Split;
import dev.octet.trainer.op.cumsum.CumSum;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.op.elements.GatherElements;
import dev.octet.trainer.op.elements.Scatter;
import dev.octet.trainer.op.expand.Expand;
import dev.octet.trainer.op.experts.ExpertCombine;
import dev.octet.trainer.op.experts.ExpertDispatch;
import dev.octet.trainer.op.experts.GroupedLinear;
import dev.octet.trainer.op.fp8.AccumulateCodes;
import dev.octet.trainer.op.fp8.AmaxUpdate;
import dev.octet.trainer.op.fp8.DequantizeFp8;
import dev.octet.trainer.op.fp8.FakeQuantize;
import dev.octet.trainer.op.fp8.Fp8GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.fp8.QuantizeState;
import dev.octet.trainer.op.fp8.QuantizeWindowed;
import dev.octet.trainer.op.fp8.WindowUpdate;
import dev.octet.trainer.op.gather.CutGather;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gather.GatherState;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.host.HostCopy;
import dev.octet.trainer.op.loss.CutCrossEntropyLoss;
import dev.octet.trainer.op.loss.KlDivergenceLoss;
import dev.octet.trainer.op.loss.MixedLoss;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLoss;
import dev.octet.trainer.op.loss.RowLoss;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import dev.octet.trainer.op.norm.RowNorm;
import dev.octet.trainer.op.pool.Pool;
import dev.octet.trainer.op.product.Gemm;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.op.product.MatMul;
import dev.octet.trainer.op.qat.GradientQuantize;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.op.reduce.Reduce;
import dev.octet.trainer.op.rotary.RotaryEmbedding;
import dev.octet.trainer.op.shard.AverageShares;
import dev.octet.trainer.op.shard.CutOp;
import dev.octet.trainer.op.shard.PostValues;
import dev.octet.trainer.op.shard.RankExchange;
import dev.octet.trainer.op.shard.ShareValues;
import dev.octet.trainer.op.shard.SumNumbers;
import dev.octet.trainer.op.shard.TakeValues;
import dev.octet.trainer.op.shard.ZeroFill;
import dev.octet.trainer.op.softmax.Softmax;
import dev.octet.trainer.op.state.DecodeState;
import dev.octet.trainer.op.states.CopyStates;
import dev.octet.trainer.op.stored.StoredLinear;
import dev.octet.trainer.op.stored.StoredRows;
import dev.octet.trainer.op.topk.TopK;
import dev.octet.trainer.op.transpose.Transpose;
import dev.octet.trainer.op.trilu.Trilu;
import dev.octet.trainer.op.unary.Unary;
import dev.octet.trainer.op.unary.UnaryCuda;
import dev.octet.trainer.op.update.AdafactorStep;
import dev.octet.trainer.op.update.AdamStep;
import dev.octet.trainer.op.update.CodedRankAverage;
import dev.octet.trainer.op.update.CodedSquareSum;
import dev.octet.trainer.op.update.CodedStep;
import dev.octet.trainer.op.update.FiniteGradients;
import dev.octet.trainer.op.update.LionStep;
import dev.octet.trainer.op.update.LossCheck;
import dev.octet.trainer.op.update.MuonMomentum;
import dev.octet.trainer.op.update.MuonScale;
import dev.octet.trainer.op.update.MuonStep;
import dev.octet.trainer.op.update.RankAverage;
import dev.octet.trainer.op.update.SgdStep;
import dev.octet.trainer.op.update.SquareSum;
import dev.octet.trainer.op.update.TrustRatio;
import dev.octet.trainer.op.update.UpdateRms;
import dev.octet.trainer.op.update.WeightAverage;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.op.where.Where;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** All operators. One more is one folder and one row here. */
public final class Ops {
    /** Rows by family; within a family by name. */
    public static final List<OpEntry<?>> ALL = List.of(
            // --- elementwise
            Binary.ENTRY,
            Cast.ENTRY,
            Unary.ENTRY,
            Where.ENTRY,
            // --- reductions
            CumSum.ENTRY,
            Reduce.ENTRY,
            // --- shape and indexing
            Concat.ENTRY,
            CutGather.ENTRY,
            Expand.ENTRY,
            Gather.ENTRY,
            GatherElements.ENTRY,
            GatherState.ENTRY,
            Pad.ENTRY,
            Scatter.ENTRY,
            Slice.ENTRY,
            Split.ENTRY,
            TopK.ENTRY,
            Transpose.ENTRY,
            Trilu.ENTRY,
            View.ENTRY,
            // --- matrix products, convolution, attention
            Attention.ENTRY,
            Conv.ENTRY,
            Gemm.ENTRY,
            Linear.ENTRY,
            MatMul.ENTRY,
            RotaryEmbedding.ENTRY,
            // --- mixtures of experts
            ExpertCombine.ENTRY,
            ExpertDispatch.ENTRY,
            GroupedLinear.ENTRY,
            // --- normalisation, activation, pooling
            BatchNormalization.ENTRY,
            Dropout.ENTRY,
            Gelu.ENTRY,
            GradientQuantize.ENTRY,
            GridQuantize.ENTRY,
            Pool.ENTRY,
            RowNorm.ENTRY,
            Softmax.ENTRY,
            // --- losses
            CutCrossEntropyLoss.ENTRY,
            KlDivergenceLoss.ENTRY,
            MixedLoss.ENTRY,
            NegativeLogLikelihoodLoss.ENTRY,
            RowLoss.ENTRY,
            SoftmaxCrossEntropyLoss.ENTRY,
            // --- made by programs: casts, quantisers, updates
            Accumulate.ENTRY,
            AdafactorStep.ENTRY,
            AdamStep.ENTRY,
            CodedSquareSum.ENTRY,
            CodedRankAverage.ENTRY,
            CodedStep.ENTRY,
            DecodeState.ENTRY,
            LionStep.ENTRY,
            MuonMomentum.ENTRY,
            MuonScale.ENTRY,
            MuonStep.ENTRY,
            TrustRatio.ENTRY,
            UpdateRms.ENTRY,
            WeightAverage.ENTRY,
            AmaxUpdate.ENTRY,
            CopyStates.ENTRY,
            DequantizeFp8.ENTRY,
            FakeQuantize.ENTRY,
            FiniteGradients.ENTRY,
            Fp8GroupedLinear.ENTRY,
            Fp8Linear.ENTRY,
            HostCopy.ENTRY,
            LossCheck.ENTRY,
            AccumulateCodes.ENTRY,
            QuantizeState.ENTRY,
            QuantizeWindowed.ENTRY,
            WindowUpdate.ENTRY,
            QuantizeFp8.ENTRY,
            QuantizeFp8Delayed.ENTRY,
            RankAverage.ENTRY,
            AverageShares.ENTRY,
            RankExchange.ENTRY,
            ShareValues.ENTRY,
            PostValues.ENTRY,
            TakeValues.ENTRY,
            SumNumbers.ENTRY,
            ZeroFill.ENTRY,
            SgdStep.ENTRY,
            SquareSum.ENTRY,
            StoredLinear.ENTRY,
            StoredRows.ENTRY);

    /** Sources of kernels that include functions from a table. */
    public static final List<CudaSource> WRITTEN_SOURCES = List.of(BinaryCuda.SOURCE, UnaryCuda.SOURCE);

    private static final Map<Class<?>, OpEntry<?>> BY_CLASS = new HashMap<>();
    private static final Map<String, OpReader<?>> BY_NODE = new HashMap<>();

    static {
        for (OpEntry<?> e : ALL) {
            if (BY_CLASS.put(e.op(), e) != null) {
                throw new IllegalStateException("two rows for " + e.op().getName());
            }
            for (OpEntry.Name<?> name : e.names()) {
                if (BY_NODE.put(name.domain() + ":" + name.type(), name.reader()) != null) {
                    throw new IllegalStateException("two rows for " + name.type());
                }
            }
        }
    }

    private Ops() {}

    /** Operators of nodes that can be trained, by the alphabet. */
    public static List<String> names() {
        return ALL.stream()
                .filter(e -> !CutOp.class.isAssignableFrom(e.op()))
                .flatMap(e -> e.names().stream())
                .map(OpEntry.Name::type)
                .distinct()
                .sorted()
                .toList();
    }

    /** What reads the operator of a node; empty when the node cannot be trained. */
    public static Optional<OpReader<?>> reader(Node node) {
        return Optional.ofNullable(BY_NODE.get(node.domain() + ":" + node.opType()));
    }

    /** The row of an operator. */
    @SuppressWarnings("unchecked") // the map's keys are the rows' classes
    public static <O extends Op> OpEntry<O> of(O op) {
        OpEntry<?> entry = BY_CLASS.get(op.getClass());
        if (entry == null) {
            throw new IllegalStateException(op.type() + " has no row in the table of operators");
        }
        return (OpEntry<O>) entry;
    }
}
