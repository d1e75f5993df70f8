package dev.octet.converter.rule;

import java.util.List;

/**
 * All pattern rules, in the order in which they run. One more pattern (SiLU, rotary embedding, Conv as Linear) is one
 * more file and one more line here.
 */
final class FusionRules {
    /**
     * Linear comes first: its result is then a single node for the rules that look at its surroundings. LayerNorm comes before
     * RMSNorm, which is contained in it.
     */
    static final List<FusionRule> ALL = List.of(
            new FuseLinear(),
            new FuseLayerNorm(),
            new FuseRmsNorm(),
            new FuseGelu(),
            new FuseExpertRows(),
            new FuseExpertSum());

    /**
     * Patterns that are worth one node only where gradients are computed: other targets recognise them by their single operators, and
     * ONNX has no such operator at the opset that models are imported to.
     */
    static final List<FusionRule> FOR_TRAINING = List.of(new FuseAttention());

    private FusionRules() {}
}
