package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** One way in which a family of consumers finds quantised weights in a checkpoint. Stateless. */
public interface Layout {
    /** What users type: {@code compressed-tensors}. */
    String name();

    /** One line for help: who reads it. */
    String summary();

    /** Why weights cannot be quantised by {@code recipe} in this layout, as one line with a way out; empty when they can. */
    Optional<String> unsupported(Recipe recipe, LayoutOptions options);

    /**
     * How weights are quantised by {@code recipe} in this layout; empty when it has no way to say so: see {@link #unsupported}.
     */
    Optional<OperandSpec> scheme(Recipe recipe, LayoutOptions options);

    /**
     * How float scales are stored where nothing else is asked for.
     *
     * @param model what the model's weights are without quantisation: F32, BF16 or F16
     */
    default DType scaleType(DType model) {
        return DType.F32;
    }

    /**
     * Why a weight of this shape cannot be quantised by this scheme for this layout's consumers; empty when it can.
     */
    Optional<String> refusal(OperandSpec scheme, Shape shape);

    /**
     * The tensors that stand for a weight in this layout.
     *
     * @param name the weight's own name
     * @param shape its own shape
     * @param options {@code staticInputs}: with an input scale
     */
    StoredWeight place(String name, Shape shape, OperandSpec scheme, LayoutOptions options);

    /** Why attention cannot be quantised by {@code scheme} in this layout, as one line with a way out; empty when it can. */
    default Optional<String> unsupported(AttentionScheme scheme) {
        return Schemes.unsupported(this, scheme);
    }

    /**
     * The tensor that holds the scales of one input of an attention layer, F32 multipliers, of a scheme that is not {@linkplain
     * #unsupported(AttentionScheme) unsupported}.
     *
     * @param attention path of the attention layer: {@code model.layers.0.self_attn}
     * @param heads how many heads have scales of their own; 0 for one scale for all of them
     */
    TensorSpec attentionScale(String attention, AttentionInput input, int heads);

    /** Whether the configuration can say that the KV cache is quantised; where not, engines need an option when they start. */
    boolean configuresCache();

    /**
     * Whether the configuration can describe weights of several recipes. Where not, a weight has the one recipe or stays as it is.
     */
    default boolean mixes() {
        return false;
    }

    /** Why {@code recipe} cannot be one of several in a checkpoint; empty when it can. */
    default Optional<String> unmixable(Recipe recipe, LayoutOptions options) {
        return mixes()
                ? Optional.empty()
                : Optional.of(
                        "the configuration of layout " + name() + " describes one recipe for all quantised weights");
    }

    /**
     * Edits {@code config} ({@code config.json}, whatever else is in it stays) so that it describes the contents, and returns what other
     * JSON files must lie next to it, by name.
     */
    Map<String, ObjectNode> configure(ObjectNode config, LayoutContents contents);

    /**
     * Recognises the quantised weights of a checkpoint.
     *
     * @return empty when the checkpoint is not in this layout
     */
    Optional<StoredCheckpoint> recognise(Headers headers);

    /**
     * How consumers quantise what the weights of a checkpoint in this layout read, by the weight.
     *
     * @param quantization {@code quantization_config}; null when there is none
     * @param quantConfig {@code hf_quant_config.json}; null when there is none
     */
    Function<StoredWeight, InputForms.Found> inputs(
            @Nullable ObjectNode quantization, @Nullable ObjectNode quantConfig);
}
