package dev.octet.quant.layout;

import dev.octet.formats.tensor.TensorSpec;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A checkpoint with its quantised weights recognised.
 *
 * @param layout the layout that its configuration names or its tensors show: {@code compressed-tensors}, {@code fp8}, {@code modelopt},
 *     {@code torchao}, {@code transformer-engine}; {@code plain} when nothing is quantised
 * @param weights quantised weights by their own name, in the order of the checkpoint
 * @param plain every tensor that is neither codes nor scale of one of the weights nor one of the others, by name
 * @param others scales that belong to no weight: {@code k_scale}, {@code v_scale}, {@code output_scale}, strays with a note; and
 *     {@code _extra_state} of Transformer Engine; by name
 * @param notes what is odd or not read, one line each
 * @param recipe the recipe its configuration describes, as Octet calls it, or null when it is none of Octet's
 */
public record StoredCheckpoint(
        String layout,
        Map<String, StoredWeight> weights,
        Map<String, TensorSpec> plain,
        Map<String, TensorSpec> others,
        List<String> notes,
        @Nullable String recipe) {}
