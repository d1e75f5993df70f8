package dev.octet.converter.rule;

import java.util.List;

/**
 * All pattern rules, in the order in which they run. One more pattern (SiLU, attention, rotary embedding, Conv as Linear) is one
 * more file and one more line here.
 */
final class Fusions {
    /**
     * Linear comes first: its result is then one node for the rules that look at what surrounds it. LayerNorm comes before
     * RMSNorm, which is contained in it.
     */
    static final List<FusionRule> ALL =
            List.of(new FuseLinear(), new FuseLayerNorm(), new FuseRmsNorm(), new FuseGelu());

    private Fusions() {}
}
