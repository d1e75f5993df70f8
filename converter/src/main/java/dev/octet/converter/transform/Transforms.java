package dev.octet.converter.transform;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.quant.transform.Transform;
import java.util.List;
import java.util.stream.Collectors;

/** Finds out what transforms do to a model. */
public final class Transforms {
    private Transforms() {}

    /**
     * What transforms do to the model of a graph. Reads no weight: factors are computed when a tensor's steps ask for them.
     *
     * @param canonical whose constants have the names of the model's tensors
     * @param transforms in the order they are done
     * @throws InvalidOptionException when they do not go together
     * @throws dev.octet.formats.error.UnsupportedModelException when the model has no place for one; names the node
     * @throws dev.octet.formats.error.InvalidDataException when statistics lack what one needs
     */
    public static ModelTransform of(Graph canonical, List<Transform> transforms, TransformSources sources) {
        requireOne(transforms);
        ModelStructure structure = new ModelStructure(canonical);
        ModelTransform target = new ModelTransform();
        for (Transform transform : transforms) {
            target.add(transform);
            switch (transform) {
                case Transform.SmoothQuant smooth -> Smoothing.add(smooth, structure, sources, target);
                case Transform.Rotate rotate -> Rotating.add(rotate, structure, sources, target);
                case Transform.Awq awq -> Weighing.add(awq, structure, sources, target);
            }
        }
        return target;
    }

    /** Statistics are of the model as it was: after one transform they hold no more. */
    private static void requireOne(List<Transform> transforms) {
        if (transforms.size() < 2) {
            return;
        }
        boolean undone = transforms.subList(1, transforms.size()).stream().anyMatch(Transform.Rotate.class::isInstance);
        String names = transforms.stream().map(Transform::text).collect(Collectors.joining(" and "));
        throw undone
                ? new InvalidOptionException(
                        "a rotation folds the norms into the Linears behind them, with whatever an earlier transform"
                                + " put into these norms: of " + names + " only the rotation would be left there",
                        "--transform",
                        "rotate first: write the rotated floats with --recipe none, calibrate them, and give the other"
                                + " transform with these statistics")
                : new InvalidOptionException(
                        "the factors of each transform follow from statistics of the model that it changes, and the"
                                + " first of " + names + " changes it",
                        "--transform",
                        "write the first with --recipe none, calibrate what was written, and give the second with these"
                                + " statistics");
    }
}
