package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.CacheSide;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Writes the scales of a KV cache to the target: new scales into the file of the weight that makes the keys, scales of the source under the
 * names of the target's layout.
 */
final class CacheScaleSteps {
    private static final Set<DType> TYPES = Set.of(DType.F32, DType.BF16, DType.F16);

    private final Checkpoint checkpoint;
    private final @Nullable Layout layout;
    private final CacheScales scales;
    private final Map<String, List<Place>> stored = new LinkedHashMap<>();
    private final Set<String> done = new HashSet<>();
    private boolean written;

    /** The attention layer and side that a scale tensor of the source belongs to. */
    private record Place(String attention, CacheSide side) {}

    /**
     * Finds the tensors of the source that scale its KV cache, under any of their names.
     *
     * @param layout of the target; null for plain floats, which have no cache scales
     * @param scales new scales; none to keep the source's
     */
    CacheScaleSteps(Checkpoint checkpoint, StoredCheckpoint source, @Nullable Layout layout, CacheScales scales) {
        this.checkpoint = checkpoint;
        this.layout = layout;
        this.scales = scales;
        List<String> weights = Stream.concat(source.plain().keySet().stream(), source.weights().keySet().stream())
                .toList();
        for (String attention : CacheScales.attentions(weights)) {
            for (CacheSide side : CacheSide.values()) {
                side.names(attention).stream()
                        .filter(source.others()::containsKey)
                        .findFirst()
                        .ifPresent(name -> stored.computeIfAbsent(name, _ -> new ArrayList<>())
                                .add(new Place(attention, side)));
            }
        }
    }

    /** Whether the target has KV cache scales. */
    boolean written() {
        return written;
    }

    /** Adds the new scales of an attention layer, in the file of the weight that makes its keys. */
    void addNew(String attention, List<TensorStep> steps) {
        CacheScales.Pair pair = scales.byAttention().get(attention);
        if (pair == null || layout == null || !done.add(attention)) {
            return;
        }
        for (CacheSide side : CacheSide.values()) {
            steps.add(new TensorStep.CacheScale(layout.cacheScale(attention, side), pair.of(side)));
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
            notes.add("left out " + spec.name() + ": it scales a cache of 8-bit floats");
            return;
        }
        List<Place> places = stored.getOrDefault(spec.name(), List.of());
        if (!places.isEmpty() && !scales.byAttention().isEmpty()) {
            notes.add("left out " + spec.name() + ": the KV cache has new scales");
            return;
        }
        written |= !places.isEmpty()
                || spec.name().endsWith("k_scale")
                || spec.name().endsWith("v_scale");
        StoredTensor tensor = Objects.requireNonNull(checkpoint.tensor(spec.name()), spec.name());
        boolean byHead = spec.shape().elementCount() != 1;
        if (places.isEmpty() || byHead) {
            if (byHead && !places.isEmpty()) {
                notes.add(spec.name() + " stays as it is: it has a scale for each head");
            }
            steps.add(new TensorStep.Copy(tensor, spec));
            return;
        }
        float value = number(tensor);
        for (Place place : places) {
            steps.add(new TensorStep.CacheScale(layout.cacheScale(place.attention(), place.side()), value));
        }
    }

    /** The one element of a stored scale. */
    private float number(StoredTensor tensor) throws IOException {
        if (!TYPES.contains(tensor.dtype())) {
            throw new UnsupportedModelException(
                    "a scale of the KV cache is stored as " + tensor.dtype() + ", not as F32, BF16 or F16",
                    "tensor '" + tensor.name() + "'",
                    "export the checkpoint again, or dequantise it first");
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(tensor.spec().byteSize(), Float.BYTES);
            checkpoint.read(tensor, 0, bytes);
            return Floats.get(tensor.dtype(), bytes, 0);
        }
    }
}
