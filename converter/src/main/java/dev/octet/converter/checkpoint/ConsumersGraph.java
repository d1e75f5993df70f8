package dev.octet.converter.checkpoint;

import dev.octet.converter.rule.AttentionNode;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.layout.InputForms;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The graph of a quantised checkpoint that computes what a consumer with kernels for its codes computes: it rounds the input of each quantised
 * Linear to E4M3, INT8 or NVFP4, and the cached keys and values to E4M3, and back, as the checkpoint specifies. Sums are F32 and nothing is rounded to BF16 between
 * operators, so a consumer's logits differ only by its arithmetic, not by the format.
 *
 * @param model the graph
 * @param notes activations that consumers would quantise and this graph does not
 */
public record ConsumersGraph(GraphModel model, List<String> notes) {
    private static final Set<DType> FLOATS = Set.of(DType.F32, DType.BF16, DType.F16);

    public ConsumersGraph {
        notes = List.copyOf(notes);
    }

    /**
     * Adds the quantisation of activations to a graph.
     *
     * @param canonical its Linear weights are dequantised and have the checkpoint's names
     * @param forms how the inputs are quantised
     * @param nodeOf the name of the Attention node of an attention layer
     * @param arena owns new constants
     * @throws dev.octet.formats.error.InvalidDataException when a stored scale is not positive and finite
     * @throws IOException when a scale cannot be read
     */
    public static ConsumersGraph of(
            GraphModel canonical,
            Checkpoint checkpoint,
            StoredCheckpoint stored,
            InputForms forms,
            UnaryOperator<String> nodeOf,
            Arena arena)
            throws IOException {
        Work work = new Work(GraphEdit.of(canonical.graph()), checkpoint, stored, forms, arena);
        work.linears();
        work.caches(nodeOf);
        return new ConsumersGraph(canonical.withGraph(work.edit.build()), work.notes);
    }

    /** The graph during the change. */
    private static final class Work {
        private final GraphEdit edit;
        private final Checkpoint checkpoint;
        private final StoredCheckpoint stored;
        private final InputForms forms;
        private final WeightReader reader;
        private final QuantizedValues values;
        private final List<String> notes;
        /** Values already rounded in the same way for a sibling. */
        private final Map<String, String> rounded = new HashMap<>();

        private final Map<String, Float> shared = new HashMap<>();

        Work(GraphEdit edit, Checkpoint checkpoint, StoredCheckpoint stored, InputForms forms, Arena arena) {
            this.edit = edit;
            this.checkpoint = checkpoint;
            this.stored = stored;
            this.forms = forms;
            this.reader = WeightReader.of(checkpoint, stored);
            this.values = new QuantizedValues(edit, arena);
            this.notes = new ArrayList<>(forms.notes());
        }

        void linears() throws IOException {
            for (String weight : forms.byWeight().keySet()) {
                Float scale = reader.inputScale(weight);
                if (scale != null) { // engines take the largest scale of fused weights
                    shared.merge(LinearNames.fusedGroup(weight).orElse(weight), scale, Math::max);
                }
            }
            for (Node n : edit.nodes()) {
                OperandSpec form = n.isOctet("Linear") ? forms.byWeight().get(n.input(1)) : null;
                if (form != null) {
                    String x = rounded(n, n.input(1), form);
                    List<String> inputs = new ArrayList<>(n.inputs());
                    inputs.set(0, x);
                    edit.replace(n, n.withInputs(inputs));
                }
            }
        }

        private String rounded(Node n, String weight, OperandSpec form) throws IOException {
            String x = n.input(0);
            boolean twoLevels =
                    form.type() == QuantType.E2M1; // fused weights with different scales are refused or warned of
            Float scale = twoLevels
                    ? reader.inputScale(weight)
                    : shared.get(LinearNames.fusedGroup(weight).orElse(weight));
            String key = x + " " + form + (form.isDynamic() && !twoLevels ? "" : " " + scale);
            String known = rounded.get(key);
            if (known == null) {
                known = round(n, x, weight, form, scale);
                rounded.put(key, known);
            }
            return known;
        }

        private String round(Node n, String x, String weight, OperandSpec form, @Nullable Float scale) {
            if (!form.isDynamic()) {
                return scale == null
                        ? x
                        : form.type() == QuantType.INT8 ? values.integers(n, x, scale) : values.statically(n, x, scale);
            }
            return switch (form.granularity()) {
                case Granularity.PerGroup(int _, int size)
                when form.type() == QuantType.E2M1 -> {
                    long width = reader.shape(weight).dim(-1);
                    yield scale != null && fits(weight, width, size) ? values.fourBits(n, x, width, size, scale) : x;
                }
                case Granularity.PerTensor _ -> values.perTensor(n, x);
                case Granularity.PerToken _ when form.type().hasZeroPoint() -> values.affinePerToken(n, x);
                case Granularity.PerToken _ when form.type().isInteger() -> values.integers(n, x);
                case Granularity.PerToken _ -> values.perToken(n, x);
                case Granularity.PerGroup(int _, int size) -> {
                    long width = reader.shape(weight).dim(-1);
                    yield fits(weight, width, size) ? values.perGroup(n, x, width, size) : x;
                }
                case Granularity.Mx(int _, int size) -> {
                    long width = reader.shape(weight).dim(-1);
                    yield fits(weight, width, size) ? values.microscaled(n, x, width, size) : x;
                }
                case Granularity.PerChannel _, Granularity.PerBlock _ -> x; // no input has these
            };
        }

        private boolean fits(String weight, long width, int size) {
            if (width % size != 0) {
                notes.add("the input of " + weight + " stays as it is: " + width + " elements are no multiple of "
                        + size);
            }
            return width % size == 0;
        }

        void caches(UnaryOperator<String> nodeOf) throws IOException {
            List<String> names = Stream.concat(stored.plain().keySet().stream(), stored.weights().keySet().stream())
                    .toList();
            Map<String, String> layers = new HashMap<>();
            AttentionScales.attentions(names).forEach(a -> layers.put(nodeOf.apply(a), a));
            for (Node n : edit.nodes()) {
                String attention = n.is("Attention") ? layers.get(n.name()) : null;
                if (attention != null) {
                    List<String> inputs = new ArrayList<>(n.inputs());
                    for (AttentionInput input : AttentionInput.values()) {
                        round(n, attention, input, inputs);
                    }
                    edit.replace(n, n.withInputs(inputs));
                }
            }
        }

        private void round(Node n, String attention, AttentionInput input, List<String> inputs) throws IOException {
            float[] scales = scales(attention, input);
            int at = AttentionNode.index(input);
            String x = n.input(at);
            if (scales.length == 1) {
                inputs.set(at, values.statically(n, x, scales[0]));
            } else if (scales.length > 1) {
                int heads = new AttentionNode(n).joinedHeads(input);
                if (heads == scales.length) {
                    inputs.set(at, values.perHead(n, x, scales));
                } else {
                    notes.add(what(input) + " of " + attention + " stay as they are: there are " + scales.length
                            + " scales for " + heads + " heads");
                }
            }
        }

        private static String what(AttentionInput input) {
            return switch (input) {
                case Q -> "the queries";
                case K -> "the cached keys";
                case V -> "the cached values";
            };
        }

        /** One for all heads, or one for each; none where the input is not quantised. */
        private float[] scales(String attention, AttentionInput input) throws IOException {
            Optional<TensorSpec> spec = input.names(attention).stream()
                    .filter(stored.others()::containsKey)
                    .map(name -> stored.others().get(name))
                    .findFirst();
            StoredTensor tensor =
                    spec.isEmpty() ? null : checkpoint.tensor(spec.get().name());
            if (tensor == null) {
                return new float[0];
            }
            long count = tensor.shape().elementCount();
            if (count < 1 || count > HeadCounts.MOST || !FLOATS.contains(tensor.dtype())) {
                notes.add(what(input) + " of " + attention + " stay as they are: " + tensor.name() + " is "
                        + tensor.dtype() + " " + tensor.shape());
                return new float[0];
            }
            float[] scales = new float[(int) count];
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment bytes = scratch.allocate(tensor.spec().byteSize(), Float.BYTES);
                checkpoint.read(tensor, 0, bytes);
                for (int i = 0; i < scales.length; i++) {
                    scales[i] = Floats.get(tensor.dtype(), bytes, i);
                    if (!(scales[i] > 0 && scales[i] < Float.POSITIVE_INFINITY)) { // engines take 1 then
                        notes.add(what(input) + " of " + attention + " have a scale of " + scales[i]
                                + ": engines take 1");
                        scales[i] = 1;
                    }
                }
            }
            return scales;
        }
    }
}
