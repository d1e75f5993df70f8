package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Writes the scales of attention to the target: new scales into the file of the weight that makes the keys, scales of the source under the
 * names of the target's layout.
 */
final class AttentionScaleSteps {
    private static final Set<DType> TYPES = Set.of(DType.F32, DType.BF16, DType.F16);

    private final Checkpoint checkpoint;
    private final @Nullable Layout layout;
    private final AttentionScales scales;
    private final Map<String, List<Place>> stored = new LinkedHashMap<>();
    private final Set<String> done = new HashSet<>();
    /** Whether the source's scales, where they are kept, are of heads. */
    private final boolean storedPerHead;

    private boolean written;
    private boolean queriesWritten;

    /** The attention layer and input that a scale tensor of the source belongs to. */
    private record Place(String attention, AttentionInput input) {}

    /**
     * Finds the tensors of the source that scale its attention, under any of their names.
     *
     * @param layout of the target; null for plain floats, which have no such scales
     * @param scales new scales; none to keep the source's
     * @throws InvalidOptionException when the layout has no way to say the new scales
     * @throws UnsupportedModelException when the layout has no way to say the source's, or some of them are of heads and others not
     */
    AttentionScaleSteps(
            Checkpoint checkpoint, StoredCheckpoint source, @Nullable Layout layout, AttentionScales scales) {
        this.checkpoint = checkpoint;
        this.layout = layout;
        this.scales = scales;
        List<String> weights = Stream.concat(source.plain().keySet().stream(), source.weights().keySet().stream())
                .toList();
        for (String attention : AttentionScales.attentions(weights)) {
            for (AttentionInput input : AttentionInput.values()) {
                input.names(attention).stream()
                        .filter(source.others()::containsKey)
                        .findFirst()
                        .ifPresent(name -> stored.computeIfAbsent(name, _ -> new ArrayList<>())
                                .add(new Place(attention, input)));
            }
        }
        storedPerHead = layout != null && scales.byAttention().isEmpty() && perHead(source);
        if (layout == null) {
            return;
        }
        if (scales.byAttention().isEmpty()) {
            requireSayable(layout, source);
        } else {
            Optional<String> reason = layout.unsupported(scales.scheme());
            if (reason.isPresent()) {
                throw new InvalidOptionException(
                        reason.get(),
                        scales.scheme().option(),
                        "give --target compressed-tensors, or take one scale for the keys and one for the values: "
                                + AttentionScheme.CACHE.option());
            }
        }
    }

    /** Whether the source's scales are of heads. */
    private boolean perHead(StoredCheckpoint source) {
        TensorSpec whole = null;
        TensorSpec ofHeads = null;
        for (String name : stored.keySet()) {
            TensorSpec spec = Objects.requireNonNull(source.others().get(name), name);
            if (isPerHead(spec)) {
                ofHeads = spec;
            } else {
                whole = spec;
            }
        }
        if (whole != null && ofHeads != null) {
            throw new UnsupportedModelException(
                    "some scales of attention are of heads and others of all heads together, which no configuration"
                            + " says: " + ofHeads + ", " + whole,
                    checkpoint.path().toString(),
                    "calibrate the model and quantise it again, or dequantise it first, which drops these scales");
        }
        return ofHeads != null;
    }

    /** {@code [heads, 1, 1]}, or as many numbers in another shape. */
    private static boolean isPerHead(TensorSpec scale) {
        return scale.shape().elementCount() != 1 || scale.shape().rank() == 3;
    }

    private void requireSayable(Layout target, StoredCheckpoint source) {
        for (String name : source.others().keySet()) {
            boolean query = name.endsWith("q_scale");
            if (!query && !stored.containsKey(name)) {
                continue;
            }
            Optional<String> reason = target.unsupported(scheme(query ? AttentionScheme.ALL : AttentionScheme.CACHE));
            if (reason.isPresent()) {
                throw new UnsupportedModelException(
                        reason.get(),
                        "tensor '" + name + "' of shape "
                                + Objects.requireNonNull(source.others().get(name))
                                        .shape(),
                        "convert to compressed-tensors, or dequantise the checkpoint first, which drops these scales");
            }
        }
    }

    /** A scheme with one scale for all heads, or the same for each, as the source has it. */
    private AttentionScheme scheme(AttentionScheme inputs) {
        return storedPerHead ? inputs.forEachHead() : inputs;
    }

    /** How the attention of the target is quantised. */
    AttentionScheme written() {
        if (!written) {
            return AttentionScheme.NONE;
        }
        return scales.byAttention().isEmpty()
                ? scheme(queriesWritten ? AttentionScheme.ALL : AttentionScheme.CACHE)
                : scales.scheme();
    }

    /** Adds the new scales of an attention layer, in the file of the weight that makes its keys. */
    void addNew(String attention, List<TensorStep> steps) {
        Map<AttentionInput, List<Float>> ofLayer = scales.byAttention().get(attention);
        if (ofLayer == null || layout == null || !done.add(attention)) {
            return;
        }
        for (AttentionInput input : scales.scheme().inputs()) {
            List<Float> values = Objects.requireNonNull(ofLayer.get(input));
            int heads = scales.scheme().perHead() ? values.size() : 0;
            steps.add(new TensorStep.AttentionScale(layout.attentionScale(attention, input, heads), input, values));
        }
        written = true;
    }

    /**
     * Adds a tensor of the source that is neither a weight nor a weight's scale.
     *
     * @throws IOException when a scale cannot be read
     */
    void addStored(TensorSpec spec, List<TensorStep> steps, List<String> notes) throws IOException {
        if (layout == null) {
            notes.add("left out " + spec.name() + ": it scales "
                    + (spec.name().endsWith("q_scale") ? "queries" : "a cache") + " of 8-bit floats");
            return;
        }
        List<Place> places = stored.getOrDefault(spec.name(), List.of());
        if (!places.isEmpty() && !scales.byAttention().isEmpty()) {
            notes.add("left out " + spec.name() + ": " + (scales.scheme().queries() ? "attention" : "the KV cache")
                    + " has new scales");
            return;
        }
        boolean unplaced = Stream.of("q_scale", "k_scale", "v_scale")
                .anyMatch(s -> spec.name().endsWith(s));
        written |= !places.isEmpty() || unplaced;
        queriesWritten |= spec.name().endsWith("q_scale");
        StoredTensor tensor = Objects.requireNonNull(checkpoint.tensor(spec.name()), spec.name());
        if (places.isEmpty()) {
            steps.add(new TensorStep.Copy(tensor, spec));
            return;
        }
        List<Float> values = numbers(tensor);
        int heads = storedPerHead ? values.size() : 0;
        for (Place place : places) {
            steps.add(new TensorStep.AttentionScale(
                    layout.attentionScale(place.attention(), place.input(), heads), place.input(), values));
        }
    }

    /** The elements of a stored scale. */
    private List<Float> numbers(StoredTensor tensor) throws IOException {
        if (!TYPES.contains(tensor.dtype())) {
            throw new UnsupportedModelException(
                    "a scale of attention is stored as " + tensor.dtype() + ", not as F32, BF16 or F16",
                    "tensor '" + tensor.name() + "'",
                    "export the checkpoint again, or dequantise it first");
        }
        long count = tensor.shape().elementCount();
        if (count < 1 || count > HeadCounts.MOST) {
            throw new UnsupportedModelException(
                    "a scale of attention has " + count + " numbers, and no layer has as many heads",
                    "tensor '" + tensor.name() + "' of shape " + tensor.shape(),
                    "export the checkpoint again, or dequantise it first, which drops these scales");
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(tensor.spec().byteSize(), Float.BYTES);
            checkpoint.read(tensor, 0, bytes);
            Float[] values = new Float[(int) count];
            Arrays.setAll(values, i -> Floats.get(tensor.dtype(), bytes, i));
            return List.of(values);
        }
    }
}
