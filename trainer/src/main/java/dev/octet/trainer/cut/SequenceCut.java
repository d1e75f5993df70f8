package dev.octet.trainer.cut;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.autodiff.ReadGraph;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.norm.RowNorm;
import dev.octet.trainer.op.transpose.Transpose;
import dev.octet.trainer.op.unary.Unary;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.op.where.Where;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;

/**
 * How positions are shared out between the layers that are cut (Korthikanti et al., arXiv:2205.05198): what treats each position by itself (normalisation, dropout, residuals) is computed for a rank's own. How many
 * there are is what attention says.
 *
 * @param batch samples of a micro-batch
 * @param positions of each
 */
record SequenceCut(ReadGraph read, long batch, long positions) {
    /** @throws InvalidOptionException when there is no attention, or there are fewer positions than ranks */
    static SequenceCut of(ReadGraph read, CutPlace place) {
        Attention first = read.nodes().stream()
                .map(read::op)
                .filter(Attention.class::isInstance)
                .map(Attention.class::cast)
                .findFirst()
                .orElseThrow(() -> new InvalidOptionException(
                        "no attention of the model says what a sequence is",
                        "distributed.sequence_parallel",
                        "leave sequence_parallel out"));
        if (first.queries() < place.ranks()) {
            throw new InvalidOptionException(
                    first.queries() + " positions cannot be shared out to " + place.ranks() + " ranks",
                    "distributed.sequence_parallel; samples of the run",
                    "give longer samples, or leave sequence_parallel out");
        }
        return new SequenceCut(read, first.batch(), first.queries());
    }

    /** How a value of all positions is shared out; empty where it is none. */
    Optional<Cut> of(Shape shape) {
        if (shape.rank() == 3 && shape.dim(0) == batch && shape.dim(1) == positions) {
            return Optional.of(Cut.of(1, positions));
        }
        return shape.rank() == 2 && shape.dim(0) == batch * positions
                ? Optional.of(new Cut(0, Collections.nCopies(Math.toIntExact(batch), positions)))
                : Optional.empty();
    }

    /**
     * How the result of a node is shared out where it has its inputs at some positions; empty where it needs all.
     *
     * @param cuts inputs that are shared out
     */
    Optional<Cut> result(Node node, Map<String, Cut> cuts) {
        if (node.outputs().size() > 1) {
            return Optional.empty();
        }
        Shape x = shape(node.input(0));
        Cut cut = cuts.get(node.input(0));
        return switch (read.op(node)) {
            case Unary _, Cast _, Gelu _, Dropout _ -> Optional.ofNullable(cut);
            case Binary _, Where _ -> broadcast(node, cuts);
            case RowNorm norm -> Optional.ofNullable(cut).filter(c -> c.axis() < norm.axis());
            case Transpose t -> Optional.ofNullable(cut).map(c -> c.on(t.order().indexOf(c.axis())));
            case View view
            when !view.type().equals(View.DETACH) ->
                Optional.ofNullable(cut).map(c -> Reshaped.cut(c, x, view.shape()));
            case Op _ -> Optional.empty();
        };
    }

    private Shape shape(String value) {
        return read.type(value).shape();
    }

    private Optional<Cut> broadcast(Node node, Map<String, Cut> cuts) {
        Cut found = null;
        for (String input : node.inputs()) {
            Cut cut = cuts.get(input);
            if (cut == null) {
                continue;
            }
            Cut result = cut.on(
                    cut.axis() + shape(node.output()).rank() - shape(input).rank());
            boolean differs = found != null && !found.equals(result);
            if (differs || shape(node.output()).dim(result.axis()) != cut.size()) {
                return Optional.empty();
            }
            found = result;
        }
        return Optional.ofNullable(found);
    }

    /** How a whole input is to be shared out; empty where it is the same at all positions. */
    Optional<Cut> input(Node node, int i, Cut result) {
        boolean aligned = read.op(node) instanceof Binary || read.op(node) instanceof Where;
        Shape shape = shape(node.input(i));
        int axis = result.axis() - (shape(node.output()).rank() - shape.rank());
        return aligned && axis >= 0 && shape.dim(axis) == result.size() && result.size() > 1
                ? Optional.of(result.on(axis))
                : Optional.empty();
    }
}
