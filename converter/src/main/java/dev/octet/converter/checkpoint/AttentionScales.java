package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.statistics.ChannelStatistics;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Static scales of attention in E4M3, from calibration statistics: amax / 448 in FP32 of what each layer multiplies, over all heads or of each.
 *
 * <p>The statistics name the queries of attention layer {@code a} {@code a.q} and its cached keys {@code a.k} (both after the rotary embedding),
 * its values {@code a.v}. The scales never clip: an engine caches a key once and reads it for as long as the text lasts. A head of nothing but
 * zeros has the scale of the whole layer.
 *
 * @param scheme which inputs have scales, and how many
 * @param byAttention multipliers by path of the attention layer, in the order of the checkpoint: one for each head, or one
 */
public record AttentionScales(AttentionScheme scheme, Map<String, Map<AttentionInput, List<Float>>> byAttention) {
    /** Quantises nothing of attention. */
    public static final AttentionScales NONE = new AttentionScales(AttentionScheme.NONE, Map.of());

    private static final int NAMED = 8;

    public AttentionScales {
        byAttention = Collections.unmodifiableMap(new LinkedHashMap<>(byAttention));
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
                .filter(a -> AttentionInput.CACHED.stream()
                        .anyMatch(input -> statistics.tensors().containsKey(name(a, input))))
                .toList();
    }

    /**
     * Scales for all of these attention layers.
     *
     * @param scheme not {@link AttentionScheme#NONE}
     * @param heads of each layer by the configuration; empty where it does not state them, which only scales of heads need
     * @throws InvalidDataException when there are no layers, or the statistics of a layer are missing, only zeros, or count NaN or
     *     infinities, or have no heads or other heads than the configuration; names each such layer
     */
    public static AttentionScales of(
            Statistics statistics, Collection<String> attentions, AttentionScheme scheme, Optional<HeadCounts> heads) {
        if (attentions.isEmpty()) {
            throw new InvalidDataException(
                    "the checkpoint has no attention layer: no module is called k_proj, or as others call it",
                    scheme.option(),
                    "leave " + flag(scheme) + " away");
        }
        if (scheme.perHead() && heads.isEmpty()) {
            throw new InvalidDataException(
                    "config.json does not say how many heads an attention layer has, which readers of scales per head"
                            + " look up there",
                    scheme.option(),
                    "add num_attention_heads and num_key_value_heads to config.json, or take one scale for all heads: "
                            + scheme.forAllHeads().option());
        }
        requireHeads(statistics, attentions, scheme);
        Map<String, Map<AttentionInput, List<Float>>> scales = new LinkedHashMap<>();
        List<String> faults = new ArrayList<>();
        for (String attention : attentions) {
            Map<AttentionInput, List<Float>> ofLayer = new EnumMap<>(AttentionInput.class);
            List<String> faultsOfLayer = new ArrayList<>();
            for (AttentionInput input : scheme.inputs()) {
                TensorStatistics t = statistics.tensors().get(name(attention, input));
                int wanted = scheme.perHead() ? heads.orElseThrow().of(input) : 0;
                Optional<String> fault = fault(t, wanted);
                fault.ifPresent(f -> faultsOfLayer.add(input + ": " + f));
                if (t != null && fault.isEmpty()) {
                    ofLayer.put(input, scales(t, scheme));
                }
            }
            if (faultsOfLayer.isEmpty()) {
                scales.put(attention, Collections.unmodifiableMap(ofLayer));
            } else {
                faults.add(attention + " (" + String.join(", ", faultsOfLayer) + ")");
            }
        }
        if (!faults.isEmpty()) {
            throw new InvalidDataException(
                    "the statistics do not give the " + (scheme.queries() ? "scales" : "KV scales") + " of "
                            + faults.size() + " of " + attentions.size() + " attention layers: " + first(faults, "; "),
                    scheme.option(),
                    "take statistics of this model with data that reaches every layer, or leave " + flag(scheme)
                            + " away");
        }
        return new AttentionScales(scheme, scales);
    }

    /** Statistics of values that are known, but taken without regard to heads, are taken again. */
    private static void requireHeads(Statistics statistics, Collection<String> attentions, AttentionScheme scheme) {
        if (!scheme.perHead()) {
            return;
        }
        List<String> without = attentions.stream()
                .flatMap(a -> scheme.inputs().stream().map(input -> name(a, input)))
                .filter(name -> {
                    TensorStatistics t = statistics.tensors().get(name);
                    return t != null && t.heads() == null;
                })
                .toList();
        if (!without.isEmpty()) {
            throw new InvalidDataException(
                    "the statistics were taken without those of each head: " + first(without, ", "),
                    scheme.option(),
                    "take them again with this version: octet calibrate MODEL -o FILE --data DATA");
        }
    }

    private static String first(List<String> all, String separator) {
        return String.join(separator, all.subList(0, Math.min(NAMED, all.size())))
                + (all.size() > NAMED ? separator + "and " + (all.size() - NAMED) + " more" : "");
    }

    private static String flag(AttentionScheme scheme) {
        return scheme.option().substring(0, scheme.option().indexOf(' '));
    }

    private static String name(String attention, AttentionInput input) {
        return attention + "." + input.label();
    }

    private static Optional<String> fault(@Nullable TensorStatistics t, int heads) {
        if (t == null) {
            return Optional.of("missing");
        }
        long bad = t.nans() + t.infinities();
        if (bad > 0) {
            return Optional.of(bad + " NaN or infinite elements");
        }
        if (t.amax() <= 0) {
            return Optional.of("nothing but zeros");
        }
        ChannelStatistics found = t.heads();
        return heads == 0 || (found != null && found.size() == heads)
                ? Optional.empty()
                : Optional.of((found == null ? 0 : found.size()) + " heads, config.json says " + heads);
    }

    private static List<Float> scales(TensorStatistics t, AttentionScheme scheme) {
        ChannelStatistics heads = t.heads();
        if (!scheme.perHead() || heads == null) {
            return List.of(scale(t.amax()));
        }
        List<Float> scales = new ArrayList<>();
        for (float amax : heads.amax()) {
            scales.add(scale(amax > 0 ? amax : t.amax()));
        }
        return List.copyOf(scales);
    }

    private static float scale(float amax) {
        return Math.max(amax / Float8Format.E4M3FN.maxValue(), Float.MIN_NORMAL);
    }
}
