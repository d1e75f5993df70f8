package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Scales of another shape than their scheme has. */
final class ScaleShape {
    static final CheckpointRule RULE = Demand.error("scale-shape", Consumer.OF_CHECKPOINTS)
            .text("A tensor of scales has the shape of its scheme and layout: [1] or [] per tensor; [out, 1]"
                    + " (compressed-tensors) or [out] (modelopt) per channel; [out/128, in/128], for modelopt"
                    + " [out/128, 1, in/128, 1], per block; [out, in/size] per group.")
            .fix("reshape the scales; the numbers stay")
            .source("NVIDIA/TensorRT-LLM#15415, vllm-project/vllm#50617,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/initialize.py,"
                    + " NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/modules/linear.py")
            .onCheckpoints(ScaleShape::check);

    private ScaleShape() {}

    private static void check(CheckpointSubject subject, Report report) {
        subject.quantized()
                .forEach(l -> l.first(LayerTensors.WEIGHT_SCALES).ifPresent(s -> check(l, s, subject, report)));
    }

    private static void check(LayerTensors layer, StoredTensor scale, CheckpointSubject subject, Report report) {
        QuantSettings.Group group = subject.settings().group(layer.module());
        if (group == null || group.weights() == null || layer.shape().rank() < 2) {
            return;
        }
        List<Shape> wanted = wanted(layer.shape(), group.weights(), subject.settings());
        if (wanted.isEmpty() || wanted.contains(scale.shape())) {
            return;
        }
        if (isSwizzled(scale.shape(), wanted.getFirst())) {
            report.add(
                    "scales were saved in the layout of a kernel: padded to 128 rows and 4 columns",
                    scale.name(),
                    detail(scale, layer, wanted));
        } else if (!(group.weights().strategy().equals("tensor")
                && scale.shape().elementCount() == 1)) {
            report.add(
                    "scales have another shape than the scheme '"
                            + group.weights().strategy() + "' has",
                    scale.name(),
                    detail(scale, layer, wanted));
        }
    }

    private static String detail(StoredTensor scale, LayerTensors layer, List<Shape> wanted) {
        return scale.shape() + " for a weight " + layer.shape() + ", not "
                + wanted.stream().map(Shape::toString).collect(Collectors.joining(" or "));
    }

    /** The shapes that readers take; empty when the scheme is not known. */
    private static List<Shape> wanted(Shape weight, QuantSettings.Operand scheme, QuantSettings settings) {
        long out = weight.dim(-2);
        long in = weight.dim(-1);
        boolean modelOpt = settings.method() == QuantSettings.Method.MODELOPT;
        List<Shape> shapes = new ArrayList<>();
        switch (scheme.strategy()) {
            case "tensor" -> {
                add(shapes, weight, 1);
                add(shapes, weight);
            }
            case "channel" -> {
                if (modelOpt) {
                    add(shapes, weight, out);
                } else {
                    add(shapes, weight, out, 1);
                }
            }
            case "group", "tensor_group" -> {
                if (scheme.groupSize() > 0) {
                    add(shapes, weight, out, Math.ceilDiv(in, scheme.groupSize()));
                }
            }
            case "block" -> {
                if (scheme.rows() > 0 && scheme.columns() > 0) {
                    long rows = Math.ceilDiv(out, scheme.rows());
                    long columns = Math.ceilDiv(in, scheme.columns());
                    if (modelOpt) {
                        add(shapes, weight, rows, 1, columns, 1);
                    } else {
                        add(shapes, weight, rows, columns);
                    }
                }
            }
            default -> {}
        }
        return shapes;
    }

    /** With the axes of the weight before its matrices in front: experts. */
    private static void add(List<Shape> shapes, Shape weight, long... matrix) {
        long[] dims = Arrays.copyOf(weight.toArray(), weight.rank() - 2 + matrix.length);
        System.arraycopy(matrix, 0, dims, weight.rank() - 2, matrix.length);
        shapes.add(Shape.of(dims)); // no larger than the weight's own, so no product overflows
    }

    private static boolean isSwizzled(Shape found, Shape plain) {
        if (plain.rank() != 2 || plain.dim(1) < 2) {
            return false;
        }
        long padded = Math.ceilDiv(plain.dim(0), 128L) * 128 * Math.ceilDiv(plain.dim(1), 4L) * 4;
        return found.elementCount() == padded && found.elementCount() != plain.elementCount();
    }
}
