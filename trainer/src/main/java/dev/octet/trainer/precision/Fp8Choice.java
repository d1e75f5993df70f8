package dev.octet.trainer.precision;

import java.util.List;
import java.util.Set;

/**
 * What a graph computes in FP8, and what not.
 *
 * @param layers in the graph's order
 * @param kept the other matrix products, in the graph's order
 */
public record Fp8Choice(List<Fp8Layer> layers, List<KeptLinear> kept) {
    /** Nothing in FP8, nothing to explain. */
    public static final Fp8Choice NONE = new Fp8Choice(List.of(), List.of());

    public Fp8Choice {
        layers = List.copyOf(layers);
        kept = List.copyOf(kept);
    }

    /** What concerns these nodes. */
    public Fp8Choice of(Set<String> nodes) {
        return new Fp8Choice(
                layers.stream().filter(l -> nodes.contains(l.node())).toList(),
                kept.stream().filter(k -> nodes.contains(k.node())).toList());
    }
}
