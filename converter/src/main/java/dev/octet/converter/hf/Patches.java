package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;

/**
 * Images cut into patches, each of which a convolution makes a token of.
 *
 * @param channels of the images
 * @param image height and width
 * @param patch height and width
 * @param count patches of an image
 */
record Patches(int channels, List<Integer> image, List<Integer> patch, long count) {
    /** Those of a configuration: {@code image_size}, {@code patch_size}, {@code num_channels}. */
    static Patches of(HfConfig config) {
        int[] image = config.sizes("image_size");
        int[] patch = config.sizes("patch_size");
        long rows = config.divided(image[0], "image_size", patch[0], "patch_size");
        long columns = config.divided(image[1], "image_size", patch[1], "patch_size");
        return new Patches(
                config.sizeOr(3, "num_channels"),
                List.of(image[0], image[1]),
                List.of(patch[0], patch[1]),
                rows * columns);
    }

    /** The input {@code pixel_values}, F32. */
    String input(GraphDraft draft, Dim batch) {
        return draft.input(
                "pixel_values", DType.F32, batch, Dim.of(channels), Dim.of(image.getFirst()), Dim.of(image.getLast()));
    }

    /**
     * A token of each patch, [batch, count, hidden].
     *
     * @param path of the nodes behind the convolution
     * @param projection module of the convolution
     */
    String tokens(GraphDraft draft, String path, String projection, String pixels, int hidden, boolean bias) {
        long height = patch.getFirst();
        long width = patch.getLast();
        List<String> in = new ArrayList<>(
                List.of(pixels, draft.widened(projection + ".weight", hidden, channels, height, width)));
        if (bias) {
            in.add(draft.widened(projection + ".bias", hidden));
        }
        String grid = draft.op(
                GraphDraft.path(projection),
                "Conv",
                in,
                Attribute.of("kernel_shape", List.of(height, width)),
                Attribute.of("strides", List.of(height, width)));
        String flat = draft.op(
                path + "/Reshape",
                "Reshape",
                List.of(grid, draft.longs("patches_" + count + "_of_" + hidden, Shape.of(3), 0, hidden, count)));
        return draft.op(path + "/Transpose", "Transpose", List.of(flat), Attribute.of("perm", List.of(0L, 2L, 1L)));
    }

    /** A parameter of one token, repeated for each image: [batch, 1, size]. */
    static String repeated(GraphDraft draft, String path, String pixels, String token, int size) {
        String shape = draft.op(path + "/Shape", "Shape", List.of(pixels));
        String batch = draft.op(
                path + "/Gather",
                "Gather",
                List.of(shape, draft.longs("axes_0", Shape.of(1), 0)),
                Attribute.of("axis", 0));
        String wanted = draft.op(
                path + "/Concat_shape",
                "Concat",
                List.of(batch, draft.longs("one_token_of_" + size, Shape.of(2), 1, size)),
                Attribute.of("axis", 0));
        return draft.op(path + "/Expand", "Expand", List.of(token, wanted));
    }
}
