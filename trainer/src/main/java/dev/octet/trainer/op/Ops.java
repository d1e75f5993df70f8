package dev.octet.trainer.op;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpReader;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.accumulate.AccumulateCpu;
import dev.octet.trainer.op.accumulate.AccumulateCuda;
import dev.octet.trainer.op.accumulate.AccumulateReference;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.attention.AttentionCpu;
import dev.octet.trainer.op.attention.AttentionCuda;
import dev.octet.trainer.op.attention.AttentionReference;
import dev.octet.trainer.op.batchnorm.BatchNormalization;
import dev.octet.trainer.op.batchnorm.BatchNormalizationCpu;
import dev.octet.trainer.op.batchnorm.BatchNormalizationCuda;
import dev.octet.trainer.op.batchnorm.BatchNormalizationReference;
import dev.octet.trainer.op.binary.Add;
import dev.octet.trainer.op.binary.BinaryCpu;
import dev.octet.trainer.op.binary.BinaryCuda;
import dev.octet.trainer.op.binary.BinaryOp;
import dev.octet.trainer.op.binary.BinaryReference;
import dev.octet.trainer.op.binary.Div;
import dev.octet.trainer.op.binary.Max;
import dev.octet.trainer.op.binary.Min;
import dev.octet.trainer.op.binary.Mul;
import dev.octet.trainer.op.binary.PRelu;
import dev.octet.trainer.op.binary.Pair;
import dev.octet.trainer.op.binary.Pow;
import dev.octet.trainer.op.binary.Sub;
import dev.octet.trainer.op.box.Concat;
import dev.octet.trainer.op.box.Pad;
import dev.octet.trainer.op.box.Slice;
import dev.octet.trainer.op.box.Split;
import dev.octet.trainer.op.box.StridedCopyCpu;
import dev.octet.trainer.op.box.StridedCopyCuda;
import dev.octet.trainer.op.box.StridedCopyOp;
import dev.octet.trainer.op.box.StridedCopyReference;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.cast.CastCpu;
import dev.octet.trainer.op.cast.CastCuda;
import dev.octet.trainer.op.cast.CastReference;
import dev.octet.trainer.op.comparison.Comparison;
import dev.octet.trainer.op.conv.Conv;
import dev.octet.trainer.op.conv.ConvCpu;
import dev.octet.trainer.op.conv.ConvCuda;
import dev.octet.trainer.op.conv.ConvReference;
import dev.octet.trainer.op.cumsum.CumSum;
import dev.octet.trainer.op.cumsum.CumSumCpu;
import dev.octet.trainer.op.cumsum.CumSumCuda;
import dev.octet.trainer.op.cumsum.CumSumReference;
import dev.octet.trainer.op.fp8.AmaxUpdate;
import dev.octet.trainer.op.fp8.AmaxUpdateCpu;
import dev.octet.trainer.op.fp8.AmaxUpdateCuda;
import dev.octet.trainer.op.fp8.AmaxUpdateReference;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.Fp8LinearCpu;
import dev.octet.trainer.op.fp8.Fp8LinearCuda;
import dev.octet.trainer.op.fp8.Fp8LinearReference;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Cpu;
import dev.octet.trainer.op.fp8.QuantizeFp8Cuda;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.fp8.QuantizeFp8DelayedCpu;
import dev.octet.trainer.op.fp8.QuantizeFp8DelayedCuda;
import dev.octet.trainer.op.fp8.QuantizeFp8DelayedReference;
import dev.octet.trainer.op.fp8.QuantizeFp8Reference;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gather.GatherCpu;
import dev.octet.trainer.op.gather.GatherCuda;
import dev.octet.trainer.op.gather.GatherReference;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.gelu.GeluCpu;
import dev.octet.trainer.op.gelu.GeluCuda;
import dev.octet.trainer.op.gelu.GeluReference;
import dev.octet.trainer.op.loss.KlDivergenceLoss;
import dev.octet.trainer.op.loss.KlDivergenceLossCpu;
import dev.octet.trainer.op.loss.KlDivergenceLossCuda;
import dev.octet.trainer.op.loss.KlDivergenceLossReference;
import dev.octet.trainer.op.loss.MixedLoss;
import dev.octet.trainer.op.loss.MixedLossCpu;
import dev.octet.trainer.op.loss.MixedLossCuda;
import dev.octet.trainer.op.loss.MixedLossReference;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLoss;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLossCpu;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLossCuda;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLossReference;
import dev.octet.trainer.op.loss.RowLoss;
import dev.octet.trainer.op.loss.RowLossCpu;
import dev.octet.trainer.op.loss.RowLossCuda;
import dev.octet.trainer.op.loss.RowLossReference;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLossCpu;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLossCuda;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLossReference;
import dev.octet.trainer.op.norm.RowNorm;
import dev.octet.trainer.op.norm.RowNormCpu;
import dev.octet.trainer.op.norm.RowNormCuda;
import dev.octet.trainer.op.norm.RowNormReference;
import dev.octet.trainer.op.pick.GatherElements;
import dev.octet.trainer.op.pick.GatherElementsCpu;
import dev.octet.trainer.op.pick.GatherElementsCuda;
import dev.octet.trainer.op.pick.GatherElementsReference;
import dev.octet.trainer.op.pick.Scatter;
import dev.octet.trainer.op.pick.ScatterCpu;
import dev.octet.trainer.op.pick.ScatterCuda;
import dev.octet.trainer.op.pick.ScatterReference;
import dev.octet.trainer.op.pool.Pool;
import dev.octet.trainer.op.pool.PoolCpu;
import dev.octet.trainer.op.pool.PoolCuda;
import dev.octet.trainer.op.pool.PoolReference;
import dev.octet.trainer.op.product.Gemm;
import dev.octet.trainer.op.product.GemmCpu;
import dev.octet.trainer.op.product.GemmCuda;
import dev.octet.trainer.op.product.GemmReference;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.op.product.LinearCpu;
import dev.octet.trainer.op.product.LinearCuda;
import dev.octet.trainer.op.product.LinearReference;
import dev.octet.trainer.op.product.MatMul;
import dev.octet.trainer.op.product.MatMulCpu;
import dev.octet.trainer.op.product.MatMulCuda;
import dev.octet.trainer.op.product.MatMulReference;
import dev.octet.trainer.op.reduce.Reduce;
import dev.octet.trainer.op.reduce.ReduceCpu;
import dev.octet.trainer.op.reduce.ReduceCuda;
import dev.octet.trainer.op.reduce.ReduceReference;
import dev.octet.trainer.op.repeat.Expand;
import dev.octet.trainer.op.repeat.ExpandCpu;
import dev.octet.trainer.op.repeat.ExpandCuda;
import dev.octet.trainer.op.repeat.ExpandReference;
import dev.octet.trainer.op.rotary.RotaryEmbedding;
import dev.octet.trainer.op.rotary.RotaryEmbeddingCpu;
import dev.octet.trainer.op.rotary.RotaryEmbeddingCuda;
import dev.octet.trainer.op.rotary.RotaryEmbeddingReference;
import dev.octet.trainer.op.softmax.Softmax;
import dev.octet.trainer.op.softmax.SoftmaxCpu;
import dev.octet.trainer.op.softmax.SoftmaxCuda;
import dev.octet.trainer.op.softmax.SoftmaxReference;
import dev.octet.trainer.op.transpose.Transpose;
import dev.octet.trainer.op.transpose.TransposeCpu;
import dev.octet.trainer.op.transpose.TransposeCuda;
import dev.octet.trainer.op.transpose.TransposeReference;
import dev.octet.trainer.op.trilu.Trilu;
import dev.octet.trainer.op.trilu.TriluCpu;
import dev.octet.trainer.op.trilu.TriluCuda;
import dev.octet.trainer.op.trilu.TriluReference;
import dev.octet.trainer.op.unary.Abs;
import dev.octet.trainer.op.unary.Clip;
import dev.octet.trainer.op.unary.Cos;
import dev.octet.trainer.op.unary.Erf;
import dev.octet.trainer.op.unary.Exp;
import dev.octet.trainer.op.unary.HardSigmoid;
import dev.octet.trainer.op.unary.HardSwish;
import dev.octet.trainer.op.unary.LeakyRelu;
import dev.octet.trainer.op.unary.Log;
import dev.octet.trainer.op.unary.Neg;
import dev.octet.trainer.op.unary.NonDifferentiable;
import dev.octet.trainer.op.unary.Reciprocal;
import dev.octet.trainer.op.unary.Relu;
import dev.octet.trainer.op.unary.Sigmoid;
import dev.octet.trainer.op.unary.Sin;
import dev.octet.trainer.op.unary.Softplus;
import dev.octet.trainer.op.unary.Sqrt;
import dev.octet.trainer.op.unary.Swish;
import dev.octet.trainer.op.unary.Tanh;
import dev.octet.trainer.op.unary.UnaryCpu;
import dev.octet.trainer.op.unary.UnaryCuda;
import dev.octet.trainer.op.unary.UnaryOp;
import dev.octet.trainer.op.unary.UnaryReference;
import dev.octet.trainer.op.update.AdamStep;
import dev.octet.trainer.op.update.AdamStepCpu;
import dev.octet.trainer.op.update.AdamStepCuda;
import dev.octet.trainer.op.update.AdamStepReference;
import dev.octet.trainer.op.update.FiniteGradients;
import dev.octet.trainer.op.update.FiniteGradientsCpu;
import dev.octet.trainer.op.update.FiniteGradientsCuda;
import dev.octet.trainer.op.update.FiniteGradientsReference;
import dev.octet.trainer.op.update.LossCheck;
import dev.octet.trainer.op.update.LossCheckCpu;
import dev.octet.trainer.op.update.LossCheckCuda;
import dev.octet.trainer.op.update.LossCheckReference;
import dev.octet.trainer.op.update.SgdStep;
import dev.octet.trainer.op.update.SgdStepCpu;
import dev.octet.trainer.op.update.SgdStepCuda;
import dev.octet.trainer.op.update.SgdStepReference;
import dev.octet.trainer.op.update.SquareSum;
import dev.octet.trainer.op.update.SquareSumCpu;
import dev.octet.trainer.op.update.SquareSumCuda;
import dev.octet.trainer.op.update.SquareSumReference;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.op.view.ViewCpu;
import dev.octet.trainer.op.view.ViewCuda;
import dev.octet.trainer.op.view.ViewReference;
import dev.octet.trainer.op.where.Where;
import dev.octet.trainer.op.where.WhereCpu;
import dev.octet.trainer.op.where.WhereCuda;
import dev.octet.trainer.op.where.WhereReference;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** All operators. One more is one folder and one row here. */
public final class Ops {
    /** Rows by family; within a family by name. */
    public static final List<OpEntry<?>> ALL = List.of(
            // --- elementwise
            unary("Abs", Abs.class, s -> new Abs(s.input(0))),
            binary("Add", Add.class, s -> new Add(Pair.read(s))),
            binary("And", Comparison.class, Comparison.Kind.And.reader()),
            OpEntry.onnx("Cast", Cast.class, Cast::read, new CastReference(), new CastCpu(), new CastCuda()),
            unary("Ceil", NonDifferentiable.class, NonDifferentiable.Kind.Ceil.reader()),
            unary("Clip", Clip.class, Clip::read),
            unary("Cos", Cos.class, s -> new Cos(s.input(0))),
            binary("Div", Div.class, s -> new Div(Pair.read(s))),
            binary("Equal", Comparison.class, Comparison.Kind.Equal.reader()),
            unary("Erf", Erf.class, s -> new Erf(s.input(0))),
            unary("Exp", Exp.class, s -> new Exp(s.input(0))),
            unary("Floor", NonDifferentiable.class, NonDifferentiable.Kind.Floor.reader()),
            binary("Greater", Comparison.class, Comparison.Kind.Greater.reader()),
            binary("GreaterOrEqual", Comparison.class, Comparison.Kind.GreaterOrEqual.reader()),
            unary("HardSigmoid", HardSigmoid.class, HardSigmoid::read),
            unary("HardSwish", HardSwish.class, s -> new HardSwish(s.input(0))),
            unary("IsInf", NonDifferentiable.class, NonDifferentiable.Kind.IsInf.reader()),
            unary("IsNaN", NonDifferentiable.class, NonDifferentiable.Kind.IsNaN.reader()),
            unary("LeakyRelu", LeakyRelu.class, LeakyRelu::read),
            binary("Less", Comparison.class, Comparison.Kind.Less.reader()),
            binary("LessOrEqual", Comparison.class, Comparison.Kind.LessOrEqual.reader()),
            unary("Log", Log.class, s -> new Log(s.input(0))),
            binary("Max", Max.class, s -> new Max(Pair.readVariadic(s))),
            binary("Min", Min.class, s -> new Min(Pair.readVariadic(s))),
            binary("Mul", Mul.class, s -> new Mul(Pair.read(s))),
            unary("Neg", Neg.class, s -> new Neg(s.input(0))),
            unary("Not", NonDifferentiable.class, NonDifferentiable.Kind.Not.reader()),
            binary("Or", Comparison.class, Comparison.Kind.Or.reader()),
            binary("PRelu", PRelu.class, s -> new PRelu(Pair.read(s))),
            binary("Pow", Pow.class, Pow::read),
            unary("Reciprocal", Reciprocal.class, s -> new Reciprocal(s.input(0))),
            unary("Relu", Relu.class, s -> new Relu(s.input(0))),
            unary("Round", NonDifferentiable.class, NonDifferentiable.Kind.Round.reader()),
            unary("Sigmoid", Sigmoid.class, s -> new Sigmoid(s.input(0))),
            unary("Sign", NonDifferentiable.class, NonDifferentiable.Kind.Sign.reader()),
            unary("Sin", Sin.class, s -> new Sin(s.input(0))),
            unary("Softplus", Softplus.class, s -> new Softplus(s.input(0))),
            unary("Sqrt", Sqrt.class, s -> new Sqrt(s.input(0))),
            binary("Sub", Sub.class, s -> new Sub(Pair.read(s))),
            binary("Sum", Add.class, s -> new Add(Pair.readVariadic(s))),
            unary("Swish", Swish.class, Swish::read),
            unary("Tanh", Tanh.class, s -> new Tanh(s.input(0))),
            OpEntry.onnx("Where", Where.class, Where::read, new WhereReference(), new WhereCpu(), new WhereCuda()),
            binary("Xor", Comparison.class, Comparison.Kind.Xor.reader()),
            // --- reductions
            OpEntry.onnx(
                    "CumSum", CumSum.class, CumSum::read, new CumSumReference(), new CumSumCpu(), new CumSumCuda()),
            reduce("ReduceL1", Reduce.Kind.ReduceL1),
            reduce("ReduceL2", Reduce.Kind.ReduceL2),
            reduce("ReduceLogSum", Reduce.Kind.ReduceLogSum),
            reduce("ReduceLogSumExp", Reduce.Kind.ReduceLogSumExp),
            reduce("ReduceMax", Reduce.Kind.ReduceMax),
            reduce("ReduceMean", Reduce.Kind.ReduceMean),
            reduce("ReduceMin", Reduce.Kind.ReduceMin),
            reduce("ReduceSum", Reduce.Kind.ReduceSum),
            reduce("ReduceSumSquare", Reduce.Kind.ReduceSumSquare),
            // --- shape and indexing
            box("Concat", Concat.class, Concat::read),
            view("Dropout", View::dropout),
            OpEntry.onnx(
                    "Expand", Expand.class, Expand::expand, new ExpandReference(), new ExpandCpu(), new ExpandCuda()),
            view("Flatten", View::flatten),
            view("Identity", View::identity),
            box("Pad", Pad.class, Pad::read),
            view("Reshape", View::reshape),
            box("Slice", Slice.class, Slice::read),
            box("Split", Split.class, Split::read),
            view("Squeeze", View::squeeze),
            OpEntry.onnx("Tile", Expand.class, Expand::tile, new ExpandReference(), new ExpandCpu(), new ExpandCuda()),
            OpEntry.onnx("Trilu", Trilu.class, Trilu::read, new TriluReference(), new TriluCpu(), new TriluCuda()),
            view("Unsqueeze", View::unsqueeze),
            OpEntry.onnx(
                    "GatherElements",
                    GatherElements.class,
                    GatherElements::elements,
                    new GatherElementsReference(),
                    new GatherElementsCpu(),
                    new GatherElementsCuda()),
            OpEntry.onnx(
                    "GatherND",
                    GatherElements.class,
                    GatherElements::tuples,
                    new GatherElementsReference(),
                    new GatherElementsCpu(),
                    new GatherElementsCuda()),
            OpEntry.onnx(
                    "ScatterElements",
                    Scatter.class,
                    Scatter::elements,
                    new ScatterReference(),
                    new ScatterCpu(),
                    new ScatterCuda()),
            OpEntry.onnx(
                    "ScatterND",
                    Scatter.class,
                    Scatter::tuples,
                    new ScatterReference(),
                    new ScatterCpu(),
                    new ScatterCuda()),
            OpEntry.onnx(
                    "Gather", Gather.class, Gather::read, new GatherReference(), new GatherCpu(), new GatherCuda()),
            OpEntry.onnx(
                    "Transpose",
                    Transpose.class,
                    Transpose::read,
                    new TransposeReference(),
                    new TransposeCpu(),
                    new TransposeCuda()),
            // --- matrix products, convolution, attention
            OpEntry.onnx(
                    "Attention",
                    Attention.class,
                    Attention::read,
                    new AttentionReference(),
                    new AttentionCpu(),
                    new AttentionCuda()),
            OpEntry.onnx(
                    "RotaryEmbedding",
                    RotaryEmbedding.class,
                    RotaryEmbedding::read,
                    new RotaryEmbeddingReference(),
                    new RotaryEmbeddingCpu(),
                    new RotaryEmbeddingCuda()),
            OpEntry.onnx("Conv", Conv.class, Conv::read, new ConvReference(), new ConvCpu(), new ConvCuda()),
            OpEntry.onnx("Gemm", Gemm.class, Gemm::read, new GemmReference(), new GemmCpu(), new GemmCuda()),
            OpEntry.octet(
                    "Linear", Linear.class, Linear::read, new LinearReference(), new LinearCpu(), new LinearCuda()),
            OpEntry.onnx(
                    "MatMul", MatMul.class, MatMul::read, new MatMulReference(), new MatMulCpu(), new MatMulCuda()),
            // --- normalisation, activation, pooling
            pool("AveragePool", Pool::readAverage),
            pool("GlobalAveragePool", Pool::readGlobalAverage),
            pool("GlobalMaxPool", Pool::readGlobalMax),
            pool("MaxPool", Pool::readMax),
            OpEntry.onnx(
                    "BatchNormalization",
                    BatchNormalization.class,
                    BatchNormalization::read,
                    new BatchNormalizationReference(),
                    new BatchNormalizationCpu(),
                    new BatchNormalizationCuda()),
            OpEntry.onnx("Gelu", Gelu.class, Gelu::read, new GeluReference(), new GeluCpu(), new GeluCuda()),
            OpEntry.octet("Gelu", Gelu.class, Gelu::read, new GeluReference(), new GeluCpu(), new GeluCuda()),
            OpEntry.onnx(
                    "LayerNormalization",
                    RowNorm.class,
                    RowNorm::readLayer,
                    new RowNormReference(),
                    new RowNormCpu(),
                    new RowNormCuda()),
            OpEntry.octet(
                    "LayerNormalization",
                    RowNorm.class,
                    RowNorm::readLayer,
                    new RowNormReference(),
                    new RowNormCpu(),
                    new RowNormCuda()),
            OpEntry.onnx(
                    "RMSNormalization",
                    RowNorm.class,
                    RowNorm::readRms,
                    new RowNormReference(),
                    new RowNormCpu(),
                    new RowNormCuda()),
            OpEntry.octet(
                    "RMSNormalization",
                    RowNorm.class,
                    RowNorm::readRms,
                    new RowNormReference(),
                    new RowNormCpu(),
                    new RowNormCuda()),
            OpEntry.onnx(
                    "LogSoftmax",
                    Softmax.class,
                    Softmax::readLogarithm,
                    new SoftmaxReference(),
                    new SoftmaxCpu(),
                    new SoftmaxCuda()),
            OpEntry.onnx(
                    "Softmax",
                    Softmax.class,
                    Softmax::read,
                    new SoftmaxReference(),
                    new SoftmaxCpu(),
                    new SoftmaxCuda()),
            // --- losses
            OpEntry.onnx(
                    "NegativeLogLikelihoodLoss",
                    NegativeLogLikelihoodLoss.class,
                    NegativeLogLikelihoodLoss::read,
                    new NegativeLogLikelihoodLossReference(),
                    new NegativeLogLikelihoodLossCpu(),
                    new NegativeLogLikelihoodLossCuda()),
            OpEntry.octet(
                    "KlDivergenceLoss",
                    KlDivergenceLoss.class,
                    KlDivergenceLoss::read,
                    new KlDivergenceLossReference(),
                    new KlDivergenceLossCpu(),
                    new KlDivergenceLossCuda()),
            OpEntry.octet(
                    "MixedLoss",
                    MixedLoss.class,
                    MixedLoss::read,
                    new MixedLossReference(),
                    new MixedLossCpu(),
                    new MixedLossCuda()),
            rowLoss(RowLoss.Kind.COSINE, RowLoss::readCosine),
            rowLoss(RowLoss.Kind.MEAN_SQUARED_ERROR, RowLoss::readSquared),
            OpEntry.onnx(
                    "SoftmaxCrossEntropyLoss",
                    SoftmaxCrossEntropyLoss.class,
                    SoftmaxCrossEntropyLoss::read,
                    new SoftmaxCrossEntropyLossReference(),
                    new SoftmaxCrossEntropyLossCpu(),
                    new SoftmaxCrossEntropyLossCuda()),
            OpEntry.octet(
                    "SoftmaxCrossEntropyLoss",
                    SoftmaxCrossEntropyLoss.class,
                    SoftmaxCrossEntropyLoss::readLast,
                    new SoftmaxCrossEntropyLossReference(),
                    new SoftmaxCrossEntropyLossCpu(),
                    new SoftmaxCrossEntropyLossCuda()),
            // --- made by programs: casts, quantisers, updates
            OpEntry.made(
                    "Accumulate",
                    Accumulate.class,
                    new AccumulateReference(),
                    new AccumulateCpu(),
                    new AccumulateCuda()),
            OpEntry.made(
                    "AmaxUpdate",
                    AmaxUpdate.class,
                    new AmaxUpdateReference(),
                    new AmaxUpdateCpu(),
                    new AmaxUpdateCuda()),
            OpEntry.made(
                    "Fp8Linear", Fp8Linear.class, new Fp8LinearReference(), new Fp8LinearCpu(), new Fp8LinearCuda()),
            OpEntry.made(
                    "QuantizeFp8",
                    QuantizeFp8.class,
                    new QuantizeFp8Reference(),
                    new QuantizeFp8Cpu(),
                    new QuantizeFp8Cuda()),
            OpEntry.made(
                    "QuantizeFp8Delayed",
                    QuantizeFp8Delayed.class,
                    new QuantizeFp8DelayedReference(),
                    new QuantizeFp8DelayedCpu(),
                    new QuantizeFp8DelayedCuda()),
            OpEntry.made("Adam", AdamStep.class, new AdamStepReference(), new AdamStepCpu(), new AdamStepCuda()),
            OpEntry.made(
                    "GradientCheck",
                    FiniteGradients.class,
                    new FiniteGradientsReference(),
                    new FiniteGradientsCpu(),
                    new FiniteGradientsCuda()),
            OpEntry.made(
                    "LossCheck", LossCheck.class, new LossCheckReference(), new LossCheckCpu(), new LossCheckCuda()),
            OpEntry.made("SGD", SgdStep.class, new SgdStepReference(), new SgdStepCpu(), new SgdStepCuda()),
            OpEntry.made(
                    "SquareSum", SquareSum.class, new SquareSumReference(), new SquareSumCpu(), new SquareSumCuda()));

    private static final Map<Class<?>, OpEntry<?>> BY_CLASS = new HashMap<>();
    private static final Map<String, OpEntry<?>> BY_NODE = new HashMap<>();

    static {
        for (OpEntry<?> e : ALL) {
            // an operator of both domains, or one record for several operators, has a row for each; twins are the same
            OpEntry<?> first = BY_CLASS.putIfAbsent(e.op(), e);
            if ((first != null && first.cpu().getClass() != e.cpu().getClass())
                    || (e.domain() != null && BY_NODE.put(e.domain() + ":" + e.type(), e) != null)) {
                throw new IllegalStateException("two rows for " + e.type());
            }
        }
    }

    private Ops() {}

    private static <O extends BinaryOp> OpEntry<O> binary(String type, Class<O> op, OpReader<O> reader) {
        return OpEntry.onnx(type, op, reader, new BinaryReference<>(), new BinaryCpu<>(), new BinaryCuda<>());
    }

    private static <O extends UnaryOp> OpEntry<O> unary(String type, Class<O> op, OpReader<O> reader) {
        return OpEntry.onnx(type, op, reader, new UnaryReference<>(), new UnaryCpu<>(), new UnaryCuda<>());
    }

    private static OpEntry<Reduce> reduce(String type, Reduce.Kind kind) {
        return OpEntry.onnx(
                type, Reduce.class, kind.reader(), new ReduceReference(), new ReduceCpu(), new ReduceCuda());
    }

    private static <O extends StridedCopyOp> OpEntry<O> box(String type, Class<O> op, OpReader<O> reader) {
        return OpEntry.onnx(
                type, op, reader, new StridedCopyReference<>(), new StridedCopyCpu<>(), new StridedCopyCuda<>());
    }

    private static OpEntry<View> view(String type, OpReader<View> reader) {
        return OpEntry.onnx(type, View.class, reader, new ViewReference(), new ViewCpu(), new ViewCuda());
    }

    private static OpEntry<Pool> pool(String type, OpReader<Pool> reader) {
        return OpEntry.onnx(type, Pool.class, reader, new PoolReference(), new PoolCpu(), new PoolCuda());
    }

    private static OpEntry<RowLoss> rowLoss(RowLoss.Kind kind, OpReader<RowLoss> reader) {
        return OpEntry.octet(
                kind.type(), RowLoss.class, reader, new RowLossReference(), new RowLossCpu(), new RowLossCuda());
    }

    /** Operators of nodes that can be trained, by the alphabet. */
    public static List<String> names() {
        return ALL.stream()
                .filter(e -> e.domain() != null)
                .map(OpEntry::type)
                .distinct()
                .sorted()
                .toList();
    }

    /** The row of a node's operator; empty when it cannot be trained. */
    public static Optional<OpEntry<?>> of(Node node) {
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
