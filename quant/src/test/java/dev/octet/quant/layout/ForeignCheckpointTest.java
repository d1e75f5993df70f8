package dev.octet.quant.layout;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints that other tools wrote: testdata/checkpoints/foreign. All have seven quantised Linears. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class ForeignCheckpointTest {
    private static final String Q = "model.layers.0.self_attn.q_proj.weight";

    private static StoredCheckpoint recognise(String name, boolean withConfig) throws IOException {
        Path folder = Path.of(System.getProperty("octet.testdata"), "checkpoints", "foreign", name);
        try (Checkpoint checkpoint = Checkpoint.open(folder)) {
            Headers headers = Headers.of(checkpoint, null);
            return Layouts.recognise(
                    withConfig
                            ? headers
                            : new Headers(headers.tensors(), headers.metadata(), null, null, headers.shapes()));
        }
    }

    private static StoredWeight weight(String checkpoint) throws IOException {
        return requireNonNull(recognise(checkpoint, true).weights().get(Q));
    }

    @ParameterizedTest
    @CsvSource({
        "ct-fp8-static, compressed-tensors, fp8",
        "ct-fp8-dynamic, compressed-tensors, fp8-dynamic",
        "ct-fp8-weights-only, compressed-tensors, fp8-weight-only",
        "ct-fp8-block, compressed-tensors, fp8-block",
        "ct-mxfp8, compressed-tensors, mxfp8",
        "ct-nvfp4, compressed-tensors, nvfp4",
        "ct-int8, compressed-tensors, int8",
        "ct-pack-int8, compressed-tensors, int8",
        "ct-pack-int8-asymmetric, compressed-tensors, int8-asymmetric",
        "ct-pack-int4-group, compressed-tensors, int4",
        "ct-pack-int4-group-asymmetric, compressed-tensors, int4-asymmetric",
        "ct-pack-int4-channel-asymmetric, compressed-tensors, int4-asymmetric",
        "hf-fp8-block, fp8, fp8-block",
        "hf-fp8-block-ue8m0, fp8, fp8-block",
        "hf-fp8-tensor, fp8, fp8",
        "torchao-fp8-dynamic, torchao, fp8-dynamic",
        "torchao-fp8-weights-only, torchao, fp8-dynamic",
        "torchao-fp8-tensor, torchao, fp8",
    })
    void layout_recipe_and_all_weights_are_recognised(String name, String layout, String recipe) throws IOException {
        StoredCheckpoint read = recognise(name, true);

        assertEquals(layout, read.layout());
        assertEquals(recipe, read.recipe());
        assertEquals(7, read.weights().size());
        assertTrue(read.weights().containsKey(Q));
        assertEquals(5, read.plain().size(), () -> read.plain().keySet().toString());
        assertEquals(Map.of(), read.others());
        assertEquals(0, read.notes().size(), () -> read.notes().toString());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ct-fp8-static",
                "ct-fp8-dynamic",
                "ct-mxfp8",
                "ct-nvfp4",
                "ct-int8",
                "ct-pack-int8",
                "ct-pack-int8-asymmetric",
                "ct-pack-int4-group",
                "ct-pack-int4-channel-asymmetric",
                "hf-fp8-block-ue8m0",
                "hf-fp8-tensor"
            })
    void names_and_shapes_alone_tell_the_same_weights(String name) throws IOException {
        assertEquals(recognise(name, true).weights(), recognise(name, false).weights());
    }

    @Test
    void static_scales_of_activations_belong_to_their_weights() throws IOException {
        ScaleTensor input = requireNonNull(weight("ct-fp8-static").inputScale());

        assertEquals("model.layers.0.self_attn.q_proj.input_scale", input.name());
        assertEquals(DType.BF16, input.number());
    }

    @Test
    void the_two_levels_of_nvfp4_have_their_directions() throws IOException {
        StoredWeight weight = weight("ct-nvfp4");

        assertEquals(QuantType.E2M1, weight.codes());
        assertEquals(new Granularity.PerGroup(-1, 16), weight.granularity());
        assertEquals(
                ScaleTensor.Direction.DIVISOR,
                requireNonNull(weight.globalScale()).direction());
        assertEquals(
                ScaleTensor.Direction.MULTIPLIER, requireNonNull(weight.scale()).direction());
        assertEquals(128, weight.shape().dim(-1));
        assertEquals(64, weight.data().shape().dim(-1));
    }

    @ParameterizedTest
    @ValueSource(strings = {"torchao-mxfp8", "torchao-nvfp4"})
    void swizzled_scales_are_not_taken_for_scales(String name) throws IOException {
        StoredCheckpoint read = recognise(name, true);

        assertEquals("torchao", read.layout());
        assertEquals(7, read.weights().size());
        assertTrue(read.weights().values().stream().allMatch(w -> w.scale() == null));
        assertNull(read.recipe());
        assertTrue(read.notes().stream().anyMatch(n -> n.contains("swizzled")));
    }
}
