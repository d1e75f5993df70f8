package dev.octet.pipeline.run;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.CodeGrid;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.LearnedScales;
import dev.octet.trainer.qat.QuantizerSettings.Levels;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A Linear whose weight a run in mode {@code qat} quantised.
 *
 * @param node of the graph that weights go back to
 * @param weight its scales
 * @param input scales of its input; null where that stays in floats
 * @param master the weight in F32, as it lay in the run
 * @param turned whether it lies in the other order in the graph: the copy of a tie
 */
record QuantizedLinear(
        Node node, LearnedScales weight, @Nullable LearnedScales input, Tensor master, boolean turned) {
    /** Id of the node. */
    String id() {
        return node.id();
    }

    /** Whether the weight lies as [in, out] in the graph. */
    boolean liesInOut() {
        return node.intAttribute("transB", 0) == 0;
    }

    /** Elements of its input. */
    long inputCount() {
        return master.shape().dim(liesInOut() != turned ? 0 : 1);
    }

    /** The static scale of the input, of two levels the upper one; empty where each run finds it, and for floats. */
    Optional<Float> inputScale() {
        if (input == null) {
            return Optional.empty();
        }
        if (input.quantizer().settings().levels() == Levels.TWO) {
            return input.global();
        }
        return input.values().containsKey(Place.SCALE) || input.values().containsKey(Place.AMAX)
                ? Optional.of(input.scales()[0])
                : Optional.empty();
    }

    /** Whether the code of zero of the input follows from its values in each run. */
    boolean findsZeroPoints() {
        return input != null && input.quantizer().form().form().offset() == GridQuantize.Offset.MIN;
    }

    /** The code of zero of the input in signed codes, 0 where each run finds it; unsigned ones are moved by half their range. */
    int zeroPoint() {
        if (input == null || findsZeroPoints()) {
            return 0;
        }
        CodeGrid grid = input.quantizer().settings().grid();
        boolean unsigned = grid instanceof CodeGrid.Integers(int least, int _) && least == 0;
        int moved = unsigned ? Byte.MIN_VALUE : 0;
        Tensor learned = input.values().get(Place.ZERO_POINT);
        return learned == null ? moved : moved + (int) grid.nearest(learned.toFloats()[0]);
    }
}
