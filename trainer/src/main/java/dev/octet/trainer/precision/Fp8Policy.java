package dev.octet.trainer.precision;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.ProductOperand;
import java.util.List;
import java.util.Map;

/**
 * Linears in FP8 as a recipe says, everything else by autocast.
 *
 * <p>What a layer remembers lies in states under the names of {@link Fp8Layer#slot}. A program without a backward half quantises with the
 * scales as they are and changes no state. (Transformer Engine continues raising the pending amax in evaluation; here a run's numbers do
 * not depend on when it was evaluated.)
 *
 * @param base autocast around the Linears: BF16, F16 or F32
 * @param replaceable whether a device that does not multiply FP8 may compute all of it by {@code base} instead
 */
public record Fp8Policy(Autocast base, Fp8Settings settings, boolean replaceable) implements PrecisionPolicy {
    /** A policy that nothing replaces. */
    public Fp8Policy(Autocast base, Fp8Settings settings) {
        this(base, settings, false);
    }

    /** Whether products of codes are asked for anywhere; with fake quantisation operands are widened before they are multiplied. */
    public boolean multipliesCodes() {
        boolean elsewhere =
                settings.overrides().stream().anyMatch(o -> o.fp8() && Boolean.FALSE.equals(o.fakeQuantize()));
        return !settings.fakeQuantize() || elsewhere;
    }

    /**
     * This with some operands not quantised as the recipe says.
     *
     * @param changes by the id of a Linear's node, in place of the changes made before; a layer of whose operands none stays quantised is not in FP8
     */
    public Fp8Policy with(Map<String, Map<ProductOperand, OperandChange>> changes) {
        return new Fp8Policy(base, settings.with(changes), replaceable);
    }

    @Override
    public String name() {
        return "fp8 " + settings.recipe().name() + (settings.fakeQuantize() ? " fake" : "")
                + (settings.likeHopper() ? ", sums of Hopper" : "") + ", " + base.name();
    }

    @Override
    public DType low() {
        return base.low();
    }

    @Override
    public Rule rule(Node node) {
        return base.rule(node);
    }

    @Override
    public PrecisionPolicy forProgram(Graph graph, boolean trains) {
        return new Fp8Writer(base, Fp8Plan.of(graph, settings), trains);
    }

    @Override
    public Fp8Choice fp8(Graph graph) {
        return Fp8Plan.of(graph, settings).choice();
    }

    /**
     * The Linears of a graph that are computed in FP8, in its order.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when an override names no layer
     */
    public List<Fp8Layer> layers(Graph graph) {
        return fp8(graph).layers();
    }
}
