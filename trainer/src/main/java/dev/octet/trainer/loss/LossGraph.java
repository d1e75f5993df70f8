package dev.octet.trainer.loss;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.LossConfig.Distillation;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/**
 * A graph with concrete shapes and a loss.
 *
 * @param model the graph; labels and {@link #TEACHER} are among its inputs where the loss reads them
 * @param loss name of the loss value: F32, one element
 * @param output name of the output that the loss is computed from
 * @param parts names of the terms if the loss is a weighted sum, F32, one element each, by {@link #TASK}, {@link #DISTILLATION}, {@link #BALANCE} and {@link #Z}; of
 *     {@code dpo}, TRL's {@code rewards/...}; otherwise empty
 * @param counted the positions that the loss and its terms average over
 */
public record LossGraph(
        GraphModel model, String loss, String output, Map<String, String> parts, CountedPositions counted) {
    /** Name of the input that is fed the teacher's output. */
    public static final String TEACHER = "octet.teacher";
    /** Name of the input that is fed the log-probabilities of answers under the reference, F32 [answers]. */
    public static final String REFERENCE = "octet.reference";
    /** The term computed from labels. */
    public static final String TASK = "task";
    /** The term computed from a teacher. */
    public static final String DISTILLATION = "distillation";
    /** The part of how evenly routers choose experts. */
    public static final String BALANCE = "router_balance";
    /** The part of how large the scores of routers are. */
    public static final String Z = "router_z";

    private static final String MASK = "attention_mask";

    public LossGraph {
        parts = Collections.unmodifiableMap(new TreeMap<>(parts));
    }

    /**
     * Adds a loss that is computed from labels only.
     *
     * @throws InvalidDataException when the labels do not fit the output
     */
    public static LossGraph of(GraphModel model, LossConfig config, OperandType labels) {
        return of(model, config, Map.of(config.labels(), labels));
    }

    /**
     * Adds the loss to a graph.
     *
     * @param model with concrete shapes
     * @param data types of the tensors fed, by name: the labels if the loss reads them, and {@link #TEACHER} if there is a teacher
     * @throws dev.octet.formats.error.InvalidOptionException when there is no such output
     * @throws InvalidDataException when labels are missing, or labels or the teacher's output do not fit the output
     */
    public static LossGraph of(GraphModel model, LossConfig config, Map<String, OperandType> data) {
        return of(model, config, data, 0);
    }

    /**
     * Adds the loss to a graph with virtual tokens. As in PEFT these have no label, and the last of them is scored against a sample's first token.
     *
     * @param virtualTokens rows of outputs in front of those of each sample's tokens; the data have none for them
     */
    public static LossGraph of(GraphModel model, LossConfig config, Map<String, OperandType> data, int virtualTokens) {
        return new Writer(model, config, config.outputOf(model), data, virtualTokens).write();
    }

    /**
     * A graph that gives the log-probability of each sequence's counted tokens instead of a loss.
     *
     * @param model with concrete shapes
     * @param data types of the tensors fed, by name
     * @return with one more output, F32 [sequences], its last
     */
    public static GraphModel logProbabilities(GraphModel model, LossConfig config, Map<String, OperandType> data) {
        return new Writer(model, config, config.outputOf(model), data, 0).logProbabilities();
    }

    private static final class Writer {
        private final GraphModel model;
        private final LossConfig config;
        private final int virtualTokens;
        private String output;
        private Map<String, OperandType> data;
        private OperandType scores;
        private final GraphEdit edit;
        private String labelsName;

        Writer(GraphModel model, LossConfig config, String output, Map<String, OperandType> data, int virtualTokens) {
            this.model = model;
            this.config = config;
            this.output = output;
            this.data = data;
            this.edit = GraphEdit.of(model.graph());
            this.scores = type();
            this.labelsName = config.labels();
            this.virtualTokens = scores.shape().rank() == 3 ? virtualTokens : 0;
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
                    "the shape of output '" + output + "' cannot be inferred from the input shapes",
                    "graph '" + model.graph().name() + "'",
                    "export the model with shapes, or compute the loss from another output");
        }

        private GraphModel logProbabilities() {
            feed(labelsName, labels());
            String of = logProbability();
            List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
            outputs.add(
                    info(of, new OperandType(DType.F32, Shape.of(scores.shape().dim(0)))));
            edit.setOutputs(outputs);
            return model.withGraph(edit.build());
        }

        /** Log-probability of each sequence's tokens that count, given those before: F32 [sequences]. */
        private String logProbability() {
            requireClasses();
            String each = node(
                    "SoftmaxCrossEntropyLoss",
                    List.of(output, labelsName),
                    ignoring(),
                    shifting(),
                    Attribute.of("reduction", "none"));
            String sum = onnx("ReduceSum", List.of(each, longs(1)), Attribute.of("keepdims", 0L));
            return onnx("Neg", List.of(sum));
        }

        /**
         * The sigmoid loss of pairs, the preferred answers first and then the refused ones, with TRL's measures: with the reward of an answer
         * {@code r = beta (log p - log p_reference)}, {@code -log sigmoid(r_chosen - r_rejected)}.
         */
        private LossGraph preference() {
            long answers = scores.shape().rank() == 0 ? 0 : scores.shape().dim(0);
            if (scores.shape().rank() != 3 || answers % 2 != 0) {
                throw unfit("dpo needs scores for each token of pairs of answers, [2 pairs, tokens, classes]");
            }
            feed(labelsName, labels());
            feed(REFERENCE, new OperandType(DType.F32, Shape.of(answers)));
            String gained = onnx("Sub", List.of(logProbability(), REFERENCE));
            String rewards = onnx(
                    "Mul", List.of(gained, number((float) config.preference().beta())));
            String chosen = edit.freshName("octet.loss.chosen");
            String rejected = edit.freshName("octet.loss.rejected");
            edit.append(Node.of(
                    chosen,
                    "Split",
                    "",
                    List.of(rewards),
                    List.of(chosen, rejected),
                    Attribute.of("axis", 0L),
                    Attribute.of("num_outputs", 2L)));
            String margin = onnx("Sub", List.of(chosen, rejected));
            String loss = mean(onnx("Softplus", List.of(onnx("Neg", List.of(margin)))));
            double smoothing = config.preference().labelSmoothing();
            if (smoothing > 0) {
                String swapped = mean(onnx("Softplus", List.of(margin)));
                loss = node("MixedLoss", List.of(loss, swapped), Attribute.of("weight", (float) (1 - smoothing)));
            }
            String right = onnx("Greater", List.of(margin, number(0)));
            String ones = onnx("Cast", List.of(right), Attribute.of("to", (long) DType.F32.onnxId()));
            Map<String, String> parts = new TreeMap<>();
            parts.put("rewards/chosen", mean(chosen));
            parts.put("rewards/rejected", mean(rejected));
            parts.put("rewards/margins", mean(margin));
            parts.put("rewards/accuracies", mean(ones));
            List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
            outputs.add(info(loss, new OperandType(DType.F32, Shape.SCALAR)));
            edit.setOutputs(outputs);
            return new LossGraph(
                    model.withGraph(edit.build()), loss, output, parts, new CountedPositions.All(answers / 2));
        }

        private String mean(String of) {
            return onnx("ReduceMean", List.of(of), Attribute.of("keepdims", 0L));
        }

        private String number(float value) {
            Tensor tensor = Tensor.allocate(
                    Arena.ofAuto(), new TensorSpec(edit.freshName("octet.loss.number"), DType.F32, Shape.SCALAR));
            tensor.bytes().set(Tensor.F32_LE, 0, value);
            edit.putInitializer(Initializer.of(tensor));
            return tensor.name();
        }

        private String longs(long value) {
            Tensor tensor = Tensor.allocate(
                    Arena.ofAuto(), new TensorSpec(edit.freshName("octet.loss.axes"), DType.I64, Shape.of(1)));
            tensor.bytes().set(Tensor.I64_LE, 0, value);
            edit.putInitializer(Initializer.of(tensor));
            return tensor.name();
        }

        private String onnx(String opType, List<String> inputs, Attribute... attributes) {
            String fresh = edit.freshName("octet.loss");
            edit.append(Node.of(fresh, opType, "", inputs, List.of(fresh), attributes));
            return fresh;
        }

        LossGraph write() {
            if (config.type() == LossConfig.Type.DPO) {
                return preference();
            }
            if (config.readsLabels()) {
                feed(labelsName, labels());
            }
            String first = output;
            Distillation by = config.distillation().orElse(null);
            Map<String, String> parts = new TreeMap<>();
            if (virtualTokens > 0) {
                leaveVirtualTokensOut(by == null && config.type() == LossConfig.Type.CAUSAL_LM ? 1 : 0);
            }
            if (by != null) {
                feed(TEACHER, teacher(by));
                parts.put(DISTILLATION, distillation(by));
            }
            if (by == null || by.weight() < 1) {
                parts.put(TASK, task());
            }
            String loss =
                    by == null || parts.size() == 1 ? parts.values().iterator().next() : mixed(parts, by);
            if (config.router().isPresent()) {
                parts.putIfAbsent(by == null ? TASK : DISTILLATION, loss);
                loss = withRouters(loss, parts, config.router().get());
            }
            List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
            outputs.add(info(loss, new OperandType(DType.F32, Shape.SCALAR)));
            edit.setOutputs(outputs);
            Map<String, String> sum = parts.size() > 1 ? parts : Map.of();
            return new LossGraph(model.withGraph(edit.build()), loss, first, sum, counted());
        }

        /** The loss and what routers add. */
        private String withRouters(String loss, Map<String, String> parts, LossConfig.Routers terms) {
            RouterLoss routers = RouterLoss.of(edit);
            boolean masked = edit.isInput(MASK);
            String sum = loss;
            if (terms.balance() > 0) {
                parts.put(BALANCE, routers.balance(masked, MASK));
                sum = plus(sum, terms.balance(), Objects.requireNonNull(parts.get(BALANCE)));
            }
            if (terms.z() > 0) {
                parts.put(Z, routers.squares(masked, MASK));
                sum = plus(sum, terms.z(), Objects.requireNonNull(parts.get(Z)));
            }
            return sum;
        }

        private String plus(String sum, double factor, String term) {
            return onnx("Add", List.of(sum, onnx("Mul", List.of(term, number((float) factor)))));
        }

        /**
         * Computes from the rows of the sample's own tokens on.
         *
         * @param more 1 to keep the row before, whose next token is the first; it gets a label that is not counted
         */
        private void leaveVirtualTokensOut(int more) {
            Shape s = scores.shape();
            String cut = edit.freshName("octet.loss.scores");
            edit.append(Node.of(
                    cut,
                    "Slice",
                    "",
                    List.of(output, longs(virtualTokens - more), longs(s.dim(1)), longs(1)),
                    List.of(cut)));
            output = cut;
            scores = new OperandType(scores.dtype(), Shape.of(s.dim(0), s.dim(1) - virtualTokens + more, s.dim(2)));
            if (more > 0) {
                OperandType own = labels();
                long rows = own.shape().rank() == 2 ? own.shape().dim(0) : 0;
                if (rows != s.dim(0)) {
                    throw unfit("labels must be class numbers, I64 or I32, one for each token");
                }
                String ignored = edit.freshName("octet.loss.ignored");
                long[] values = new long[Math.toIntExact(rows)];
                Arrays.fill(values, config.ignoreIndex());
                edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), ignored, Shape.of(rows, 1), values)));
                String cast = edit.freshName("octet.loss.ignored_as");
                edit.append(Node.of(cast, "Cast", "", List.of(ignored), List.of(cast), Attribute.of("to", (long)
                        own.dtype().onnxId())));
                String padded = edit.freshName("octet.loss.labels");
                edit.append(Node.of(
                        padded, "Concat", "", List.of(cast, labelsName), List.of(padded), Attribute.of("axis", 1L)));
                Map<String, OperandType> with = new TreeMap<>(data);
                with.put(
                        padded,
                        new OperandType(own.dtype(), Shape.of(rows, own.shape().dim(1) + more)));
                data = with;
                labelsName = padded;
            }
        }

        private CountedPositions counted() {
            boolean classes = config.type().isOverClasses();
            if (classes && config.readsLabels()) {
                boolean first = virtualTokens > 0 && config.distillation().isEmpty();
                boolean shifted = config.type() == LossConfig.Type.CAUSAL_LM && !first;
                return new CountedPositions.Labelled(config.labels(), config.ignoreIndex(), shifted);
            }
            if (isPerToken()) {
                return new CountedPositions.Unmasked(MASK);
            }
            Shape s = scores.shape();
            return new CountedPositions.All(s.rank() == 0 ? 1 : s.elementCount() / Math.max(1, s.dim(-1)));
        }

        private String mixed(Map<String, String> parts, Distillation by) {
            List<String> inputs =
                    List.of(Objects.requireNonNull(parts.get(DISTILLATION)), Objects.requireNonNull(parts.get(TASK)));
            return node("MixedLoss", inputs, Attribute.of("weight", (float) by.weight()));
        }

        private void feed(String name, OperandType type) {
            if (!edit.isInput(name)) {
                List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
                inputs.add(info(name, type));
                edit.setInputs(inputs);
            }
        }

        private OperandType labels() {
            OperandType labels = data.get(labelsName);
            if (labels == null) {
                throw new InvalidDataException(
                        "the labels '" + labelsName + "' are missing",
                        "data with " + data.keySet(),
                        "add an array of this name, or name another one in loss: {labels: ...}");
            }
            return labels;
        }

        private OperandType teacher(Distillation by) {
            OperandType teacher = data.get(TEACHER);
            if (teacher == null) {
                throw new IllegalStateException("a teacher's output is not among " + data.keySet());
            }
            if (!teacher.shape().equals(scores.shape()) || !teacher.dtype().isFloat()) {
                throw new InvalidDataException(
                        "the teacher gives " + teacher + ", output '" + output + "' of the trained model is " + scores,
                        "loss: {distillation: {teacher: " + by.teacher() + "}}",
                        "use a teacher whose output has the same shape: same classes or width, same tokenization");
            }
            return teacher;
        }

        private String task() {
            return switch (config.type()) {
                case CAUSAL_LM, CROSS_ENTROPY -> crossEntropy();
                case DPO -> throw new IllegalStateException("pairs have a loss of their own");
                case MSE -> {
                    requireSameShape();
                    yield rows("MeanSquaredErrorLoss", labelsName);
                }
                case COSINE -> {
                    requireSameShape();
                    yield rows("CosineLoss", labelsName);
                }
            };
        }

        private String distillation(Distillation by) {
            return switch (config.type()) {
                case CAUSAL_LM, CROSS_ENTROPY, DPO -> divergence(by);
                case MSE -> rows("MeanSquaredErrorLoss", TEACHER);
                case COSINE -> rows("CosineLoss", TEACHER);
            };
        }

        private static ValueInfo info(String name, OperandType type) {
            List<Dim> dims = new ArrayList<>();
            for (long d : type.shape().toArray()) {
                dims.add(Dim.of(d));
            }
            return new ValueInfo(name, new TensorType(type.dtype(), dims));
        }

        /** Scores [.., classes] against labels [..], as in PyTorch; for language models the label of a position is the next token. */
        private String crossEntropy() {
            requireClasses();
            List<String> inputs = List.of(output, labelsName);
            return config.labelSmoothing().isEmpty()
                    ? node("SoftmaxCrossEntropyLoss", inputs, ignoring(), shifting())
                    : node(
                            "SoftmaxCrossEntropyLoss",
                            inputs,
                            ignoring(),
                            shifting(),
                            Attribute.of("label_smoothing", (float)
                                    config.labelSmoothing().getAsDouble()));
        }

        private Attribute ignoring() {
            return Attribute.of("ignore_index", config.ignoreIndex());
        }

        private Attribute shifting() {
            return Attribute.of("shift", config.type() == LossConfig.Type.CROSS_ENTROPY ? 0L : 1L);
        }

        /** Averages over the positions with a label, or over those that are not padding when no labels are read. */
        private String divergence(Distillation by) {
            Attribute temperature = Attribute.of("temperature", (float) by.temperature());
            if (config.readsLabels()) {
                requireClasses();
                return node(
                        "KlDivergenceLoss", List.of(output, TEACHER, labelsName), ignoring(), shifting(), temperature);
            }
            List<String> inputs = isPerToken() ? List.of(output, TEACHER, "", MASK) : List.of(output, TEACHER);
            return node("KlDivergenceLoss", inputs, temperature);
        }

        private void requireClasses() {
            OperandType labels = labels();
            Shape s = scores.shape();
            long classes = s.rank() == 0 ? 0 : s.dim(-1);
            boolean integers = labels.dtype() == DType.I64 || labels.dtype() == DType.I32;
            boolean fits = s.rank() >= 2
                    && labels.shape().rank() == s.rank() - 1
                    && labels.shape().elementCount() * classes == s.elementCount();
            if (!integers || !fits) {
                throw unfit("labels must be class numbers, I64 or I32, one for each row of the output");
            }
            if (config.type() == LossConfig.Type.CAUSAL_LM && s.rank() < 3) {
                throw unfit("causal-lm needs scores for each token, [batch, tokens, classes]; use type: cross-entropy");
            }
        }

        /** A mean over rows; padding is excluded where the output has a row for each token. */
        private String rows(String opType, String target) {
            return node(opType, isPerToken() ? List.of(output, target, MASK) : List.of(output, target));
        }

        private boolean isPerToken() {
            Shape s = scores.shape();
            return s.rank() == 3
                    && edit.isInput(MASK)
                    && edit.type(MASK) instanceof TensorType t
                    && t.equals(new TensorType(t.dtype(), List.of(Dim.of(s.dim(0)), Dim.of(s.dim(1)))));
        }

        private void requireSameShape() {
            if (!labels().shape().equals(scores.shape()) || !labels().dtype().isFloat()) {
                throw unfit("labels must be floats with the output's shape");
            }
        }

        private InvalidDataException unfit(String fix) {
            return new InvalidDataException(
                    "labels are " + labels() + ", output '" + output + "' is " + scores,
                    "labels '" + labelsName + "' of the data, loss "
                            + config.type().key(),
                    fix);
        }

        private String node(String opType, List<String> inputs, Attribute... attributes) {
            String fresh = edit.freshName("octet.loss");
            edit.append(Node.of(fresh, opType, Node.OCTET_DOMAIN, inputs, List.of(fresh), attributes));
            return fresh;
        }
    }
}
