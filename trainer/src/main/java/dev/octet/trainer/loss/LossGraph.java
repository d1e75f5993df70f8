package dev.octet.trainer.loss;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * A graph at concrete shapes with a loss.
 *
 * @param model the graph; its inputs and the labels are fed
 * @param loss name of the value with the loss: F32, one element
 * @param output the output it is computed from
 * @param labels name of the labels among the inputs
 */
public record LossGraph(GraphModel model, String loss, String output, String labels) {
    private static final String LOGITS = "logits";
    private static final String MASK = "attention_mask";

    /**
     * Adds the loss.
     *
     * @param model at concrete shapes
     * @param labels type of the labels
     * @throws InvalidOptionException when there is no such output
     * @throws InvalidDataException when the labels do not go with the output
     */
    public static LossGraph of(GraphModel model, LossConfig config, OperandType labels) {
        String output = outputOf(model, config);
        return new Writer(model, config, output, labels).write();
    }

    /**
     * The output that the loss is computed from.
     *
     * @throws InvalidOptionException when there is no such output, or the configuration leaves open which
     */
    public static String outputOf(GraphModel model, LossConfig config) {
        List<String> outputs =
                model.graph().outputs().stream().map(ValueInfo::name).toList();
        if (config.output().isPresent()) {
            String name = config.output().get();
            if (!outputs.contains(name)) {
                throw new InvalidOptionException(
                        "the graph has no output '" + name + "'", "loss: {output: ...}", Nearest.advice(name, outputs));
            }
            return name;
        }
        if (outputs.size() == 1 || outputs.contains(LOGITS)) {
            return outputs.contains(LOGITS) ? LOGITS : outputs.getFirst();
        }
        throw new InvalidOptionException(
                "the graph has the outputs " + outputs,
                "loss: {output: ...}",
                "say which one the loss is computed from");
    }

    private static final class Writer {
        private final GraphModel model;
        private final LossConfig config;
        private final String output;
        private final OperandType labels;
        private final OperandType scores;
        private final GraphEdit edit;
        private final String labelsName;

        Writer(GraphModel model, LossConfig config, String output, OperandType labels) {
            this.model = model;
            this.config = config;
            this.output = output;
            this.labels = labels;
            this.edit = GraphEdit.of(model.graph());
            this.scores = type();
            this.labelsName = config.labels();
        }

        private OperandType type() {
            if (edit.type(output) instanceof TensorType t && t.dtype() != null && t.dims() != null) {
                long[] dims = new long[t.dims().size()];
                boolean known = true;
                for (int i = 0; i < dims.length; i++) {
                    Long size = t.dims().get(i).size();
                    known &= size != null;
                    dims[i] = size == null ? 0 : size;
                }
                if (known) {
                    return new OperandType(t.dtype(), Shape.of(dims));
                }
            }
            throw new UnsupportedModelException(
                    "the shape of output '" + output + "' does not follow from those of the inputs",
                    "graph '" + model.graph().name() + "'",
                    "export the model with shapes, or compute the loss from another output");
        }

        LossGraph write() {
            String loss = switch (config.type()) {
                case CAUSAL_LM, CROSS_ENTROPY -> crossEntropy();
                case MSE -> rows("MeanSquaredErrorLoss");
                case COSINE -> rows("CosineLoss");
            };
            List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
            if (inputs.stream().noneMatch(i -> i.name().equals(labelsName))) {
                inputs.add(info(labelsName, labels));
                edit.setInputs(inputs);
            }
            List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
            outputs.add(info(loss, new OperandType(DType.F32, Shape.SCALAR)));
            edit.setOutputs(outputs);
            return new LossGraph(model.withGraph(edit.build()), loss, output, labelsName);
        }

        private static ValueInfo info(String name, OperandType type) {
            List<Dim> dims = new ArrayList<>();
            for (long d : type.shape().toArray()) {
                dims.add(Dim.of(d));
            }
            return new ValueInfo(name, new TensorType(type.dtype(), dims));
        }

        /** Scores [.., classes] and labels [..], as PyTorch's models have them; for language models the label of a token is the next one. */
        private String crossEntropy() {
            Shape s = scores.shape();
            long classes = s.rank() == 0 ? 0 : s.dim(-1);
            boolean integers = labels.dtype() == DType.I64 || labels.dtype() == DType.I32;
            boolean fits = s.rank() >= 2
                    && labels.shape().rank() == s.rank() - 1
                    && labels.shape().elementCount() * classes == s.elementCount();
            if (!integers || !fits) {
                throw unfit("labels are class numbers, I64 or I32, one for each row of the output");
            }
            return node(
                    "SoftmaxCrossEntropyLoss",
                    List.of(output, labelsName),
                    Attribute.of("ignore_index", config.ignoreIndex()),
                    Attribute.of("shift", config.type() == LossConfig.Type.CAUSAL_LM ? 1L : 0L));
        }

        /** A mean over rows; where the output has a row for each token, padding does not count. */
        private String rows(String opType) {
            requireSameShape();
            Shape s = scores.shape();
            boolean perToken = s.rank() == 3
                    && edit.isInput(MASK)
                    && edit.type(MASK) instanceof TensorType t
                    && t.equals(new TensorType(t.dtype(), List.of(Dim.of(s.dim(0)), Dim.of(s.dim(1)))));
            List<String> inputs = perToken ? List.of(output, labelsName, MASK) : List.of(output, labelsName);
            return node(opType, inputs);
        }

        private void requireSameShape() {
            if (!labels.shape().equals(scores.shape()) || !labels.dtype().isFloat()) {
                throw unfit("labels are numbers of the output's shape");
            }
        }

        private InvalidDataException unfit(String fix) {
            return new InvalidDataException(
                    "labels are " + labels + ", output '" + output + "' is " + scores,
                    "labels '" + labelsName + "' of the data, loss " + config.type(),
                    fix);
        }

        private String node(String opType, List<String> inputs, Attribute... attributes) {
            String fresh = edit.freshName("octet.loss");
            edit.append(Node.of(fresh, opType, Node.OCTET_DOMAIN, inputs, List.of(fresh), attributes));
            return fresh;
        }
    }
}
