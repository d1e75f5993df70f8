package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.layout.CacheSide;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Static scales of a KV cache in E4M3, from calibration statistics: amax / 448 in FP32, one for the keys and one for the values of each
 * attention layer.
 *
 * <p>The statistics name the cached keys of attention layer {@code a} {@code a.k} (after the rotary embedding) and its values {@code a.v}.
 * The scales never clip: an engine caches a key once and reads it for as long as the text lasts.
 *
 * @param byAttention by path of the attention layer, in the order of the checkpoint
 */
public record CacheScales(Map<String, Pair> byAttention) {
    /** Quantises no cache. */
    public static final CacheScales NONE = new CacheScales(Map.of());

    private static final int NAMED = 8;

    public CacheScales {
        byAttention = Collections.unmodifiableMap(new LinkedHashMap<>(byAttention));
    }

    /**
     * The scales (multipliers) of one layer.
     *
     * @param k of its keys
     * @param v of its values
     */
    public record Pair(float k, float v) {
        /** The scale of one side. */
        public float of(CacheSide side) {
            return switch (side) {
                case K -> k;
                case V -> v;
            };
        }
    }

    /**
     * The attention layers that these weights belong to, in their order.
     *
     * @param weights own names
     */
    public static Set<String> attentions(Collection<String> weights) {
        Set<String> attentions = new LinkedHashSet<>();
        weights.forEach(w -> LinearNames.attention(w).ifPresent(attentions::add));
        return attentions;
    }

    /** The attention layers among these whose keys or values the statistics cover. */
    public static List<String> known(Statistics statistics, Collection<String> attentions) {
        return attentions.stream()
                .filter(a -> statistics.tensors().containsKey(name(a, CacheSide.K))
                        || statistics.tensors().containsKey(name(a, CacheSide.V)))
                .toList();
    }

    /**
     * Scales for all of these attention layers.
     *
     * @throws InvalidDataException when there are no layers, or the statistics of a layer are missing, only zeros, or count NaN or
     *     infinities; names each such layer
     */
    public static CacheScales of(Statistics statistics, Collection<String> attentions) {
        if (attentions.isEmpty()) {
            throw new InvalidDataException(
                    "the checkpoint has no attention layer: no module is called k_proj, or as others call it",
                    "--kv-cache fp8",
                    "leave --kv-cache away");
        }
        Map<String, Pair> scales = new LinkedHashMap<>();
        List<String> faults = new ArrayList<>();
        for (String attention : attentions) {
            TensorStatistics k = statistics.tensors().get(name(attention, CacheSide.K));
            TensorStatistics v = statistics.tensors().get(name(attention, CacheSide.V));
            String fault = Stream.of(fault(CacheSide.K, k), fault(CacheSide.V, v))
                    .flatMap(Optional::stream)
                    .collect(Collectors.joining(", "));
            if (k != null && v != null && fault.isEmpty()) {
                scales.put(attention, new Pair(scale(k), scale(v)));
            } else {
                faults.add(attention + " (" + fault + ")");
            }
        }
        if (!faults.isEmpty()) {
            throw new InvalidDataException(
                    "the statistics do not give the KV scales of " + faults.size() + " of " + attentions.size()
                            + " attention layers: "
                            + String.join("; ", faults.subList(0, Math.min(NAMED, faults.size())))
                            + (faults.size() > NAMED ? "; and " + (faults.size() - NAMED) + " more" : ""),
                    "--kv-cache fp8",
                    "take statistics of this model with data that reaches every layer, or leave --kv-cache away");
        }
        return new CacheScales(scales);
    }

    private static String name(String attention, CacheSide side) {
        return attention + "." + side.label();
    }

    private static Optional<String> fault(CacheSide side, @Nullable TensorStatistics t) {
        if (t == null) {
            return Optional.of(side + ": missing");
        }
        long bad = t.nans() + t.infinities();
        if (bad > 0) {
            return Optional.of(side + ": " + bad + " NaN or infinite elements");
        }
        return t.amax() > 0 ? Optional.empty() : Optional.of(side + ": nothing but zeros");
    }

    private static float scale(TensorStatistics t) {
        return Math.max(t.amax() / Float8Format.E4M3FN.maxValue(), Float.MIN_NORMAL);
    }
}
