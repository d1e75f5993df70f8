package dev.octet.converter.verify;

import dev.octet.converter.inspect.QuantizedConstant;
import dev.octet.converter.plan.ConvolutionWeights;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;

/** Quantised weights of ONNX graphs: zero points, the axis of their scales, the range of their codes. */
final class OnnxWeightRules {
    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);

    private static final Set<Consumer> TENSORRT = EnumSet.of(Consumer.TENSORRT);

    /** Zero points of signed weights. */
    static final GraphRule ZERO_POINT = Demand.error("onnx-weight-zero-point", Consumer.OF_GRAPHS)
            .text("Weights in signed integers are symmetric: their zero points are 0.")
            .fix("quantise weights symmetrically; where a few zero points differ from 0, set them to 0")
            .source("NVIDIA/TensorRT#4698, microsoft/onnxruntime:onnxruntime/python/tools/quantization/quant_utils.py")
            .onGraphs(OnnxWeightRules::zeroPoint);

    /** One in so many zero points is a slip, not a scheme. */
    private static final long FEW = 10;

    private static void zeroPoint(GraphSubject subject, Report report) {
        for (QuantizedConstant weight : subject.quantized().values()) {
            boolean signed =
                    weight.codes().dtype() == DType.I8 || weight.codes().dtype() == DType.I4;
            if (!signed || weight.problem().isPresent() || !weight.hasZeroPoint()) {
                continue;
            }
            long all = weight.scale().shape().elementCount();
            long other = 0;
            for (long i = 0; i < all; i++) {
                other += weight.zero(i) == 0 ? 0 : 1;
            }
            String detail = other + " of " + all;
            if (other * FEW <= all) {
                report.add("a few zero points of a symmetric weight are not 0", weight.name(), detail);
            } else {
                String what = "a weight in signed integers has zero points other than 0";
                report.add(Severity.WARNING, RUNTIME, what, weight.name(), detail);
                report.add(Severity.ERROR, TENSORRT, what, weight.name(), detail);
            }
        }
    }

    /** Scales along the inputs. */
    static final GraphRule AXIS = Demand.error("onnx-weight-axis", Consumer.OF_GRAPHS)
            .text("The scales of a weight lie along its output channels: integer products are scaled by column, and"
                    + " a scale for each input cannot be taken out of the sum.")
            .fix("check the attribute axis: the last one of a MatMul's weight, 0 of a Conv's and of a Gemm's with"
                    + " transB=1, 1 of a ConvTranspose's")
            .source("microsoft/onnxruntime:onnxruntime/core/providers/cpu/quantization/matmul_integer_base.h,"
                    + " docs.nvidia.com: TensorRT, Working with Quantized Types")
            .onGraphs(OnnxWeightRules::axis);

    private static void axis(GraphSubject subject, Report report) {
        for (QuantizedConstant weight : subject.quantized().values()) {
            int wanted = outputAxis(weight, subject);
            if (wanted != 0
                    && weight.granularity() instanceof Granularity.PerChannel(int stated)
                    && stated != wanted
                    && weight.codes().shape().dim(weight.codes().shape().rank() + stated) > 1) {
                String what = "the scales of a weight lie along its inputs";
                String detail = "axis " + (weight.codes().shape().rank() + stated) + " of "
                        + weight.codes().shape();
                report.add(Severity.WARNING, RUNTIME, what, weight.name(), detail);
                report.add(Severity.ERROR, TENSORRT, what, weight.name(), detail);
            }
        }
    }

    /** Counted from the end; 0 where the weight is none of a product. */
    private static int outputAxis(QuantizedConstant weight, GraphSubject subject) {
        if (!weight.node().is("DequantizeLinear")) {
            return 0;
        }
        String value = weight.node().output();
        int rank = weight.codes().shape().rank();
        for (Node node : subject.nodes()) {
            if (node.input(1).equals(value)) {
                if (node.is("MatMul")) {
                    return -1;
                }
                if (node.is("Gemm")) {
                    return node.intAttribute("transB", 0) == 1 ? -2 : -1;
                }
                if ((node.is("Conv") || node.is("ConvTranspose")) && rank > 2) {
                    return ConvolutionWeights.outputAxis(node, weight.codes().shape()) - rank;
                }
            }
        }
        return 0;
    }

    /** Codes that use another range than their scales say. */
    static final GraphRule RANGE = Demand.error("onnx-weight-range", Consumer.OF_GRAPHS)
            .text("The largest code of each channel of a symmetric weight in 8-bit integers is near 127: scales come"
                    + " from the largest magnitude of what they are for.")
            .fix("check the attribute axis, or quantise the weight again")
            .source("microsoft/onnxruntime:onnxruntime/python/tools/quantization/quant_utils.py")
            .readingWeights()
            .onGraphs(OnnxWeightRules::range);

    /** A code that only a channel's largest magnitude has. */
    private static final int FULL = 126;

    /** The largest code of weights of seven bits. */
    private static final int HALF = 64;

    /** Share of channels with a full range where scales are theirs, and where they are not. */
    private static final double NEARLY_ALL = 0.99;

    private static final double CLEARLY_FEWER = 0.95;

    private static void range(GraphSubject subject, Report report) {
        for (QuantizedConstant weight : subject.quantized().values()) {
            Shape shape = weight.codes().shape();
            if (weight.problem().isPresent()
                    || weight.kind().orElse(null) != QuantType.INT8
                    || shape.rank() != 2
                    || !(weight.granularity() instanceof Granularity.PerChannel(int stated))) {
                continue;
            }
            int[][] most = largest(weight, shape);
            double along = share(most[stated + 2]);
            double across = share(most[-1 - stated]);
            if (across >= NEARLY_ALL && along < CLEARLY_FEWER) {
                report.add(
                        "the codes of a weight were made with scales along the other axis",
                        weight.name(),
                        "axis " + (stated + 2) + " of " + shape);
            } else if (isHalf(most[stated + 2])) {
                report.add(
                        Severity.ADVICE,
                        "a weight uses half of the codes: its scales are twice as large as its values need, unless"
                                + " seven bits were wanted (reduce_range)",
                        weight.name(),
                        "");
            }
        }
    }

    /** The largest magnitudes of codes by row and by column. */
    private static int[][] largest(QuantizedConstant weight, Shape shape) {
        int rows = (int) shape.dim(0);
        int columns = (int) shape.dim(1);
        int[][] most = {new int[rows], new int[columns]};
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                int code = Math.abs((int) weight.number((long) r * columns + c));
                most[0][r] = Math.max(most[0][r], code);
                most[1][c] = Math.max(most[1][c], code);
            }
        }
        return most;
    }

    /** Share of the channels with codes other than 0 that use the full range. */
    private static double share(int[] most) {
        long used = Arrays.stream(most).filter(m -> m > 0).count();
        return used == 0
                ? 0
                : (double) Arrays.stream(most).filter(m -> m >= FULL).count() / used;
    }

    private static boolean isHalf(int[] most) {
        int largest = Arrays.stream(most).max().orElse(0);
        return largest > 0 && largest <= HALF;
    }

    private OnnxWeightRules() {}
}
