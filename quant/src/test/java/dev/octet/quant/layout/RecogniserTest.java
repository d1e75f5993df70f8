package dev.octet.quant.layout;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.Granularity.Mx;
import dev.octet.quant.block.Granularity.PerBlock;
import dev.octet.quant.block.Granularity.PerChannel;
import dev.octet.quant.block.Granularity.PerGroup;
import dev.octet.quant.block.Granularity.PerTensor;
import dev.octet.quant.number.QuantType;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Checkpoints in the shapes that tools write, without bytes. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class RecogniserTest {
    private static final String FP8_BLOCKS =
            "{'quant_method': 'fp8', 'fmt': 'e4m3', 'activation_scheme': 'dynamic', 'weight_block_size': [128, 128]}";

    private static StoredWeight only(StoredCheckpoint checkpoint) {
        assertEquals(1, checkpoint.weights().size());
        return checkpoint.weights().values().iterator().next();
    }

    private static Granularity granularity(StoredCheckpoint checkpoint) {
        return only(checkpoint).granularity();
    }

    // DeepSeek, Hugging Face

    @Test
    void blocks_that_overhang_are_those_of_the_configuration() {
        // 10944 / 86 rows is not a number, and 192 / 2 is 96: rows over scale rows would go wrong in both.
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.F8_E4M3FN, 10944, 2048)
                .add("a.weight_scale_inv", DType.F32, 86, 16)
                .add("b.weight", DType.F8_E4M3FN, 192, 256)
                .add("b.weight_scale_inv", DType.F32, 2, 2)
                .recognise(FP8_BLOCKS);

        assertEquals(
                Set.of(new PerBlock(128, 128)),
                Set.copyOf(read.weights().values().stream()
                        .map(StoredWeight::granularity)
                        .toList()));
        assertEquals("fp8-block", read.recipe());
    }

    @Test
    void blocks_that_overhang_are_told_from_shapes_too() {
        assertEquals(
                new PerBlock(128, 128),
                granularity(new Specs()
                        .add("a.weight", DType.F8_E4M3FN, 10944, 2048)
                        .add("a.weight_scale_inv", DType.F32, 86, 16)
                        .recognise()));
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "BF16", "F16", "F8_E8M0", "U8"})
    void block_scales_may_be_of_any_type(DType type) {
        StoredWeight weight = only(new Specs()
                .add("a.weight", DType.F8_E4M3FN, 256, 256)
                .add("a.weight_scale_inv", type, 2, 2)
                .recognise(FP8_BLOCKS));

        assertEquals(
                type == DType.U8 ? DType.F8_E8M0 : type,
                requireNonNull(weight.scale()).number());
        assertEquals(type, requireNonNull(weight.scale()).spec().dtype());
    }

    @Test
    void a_scale_of_deepseek_v4_is_called_scale() {
        StoredWeight weight = only(new Specs()
                .add("layers.0.attn.wq.weight", DType.F8_E4M3FN, 256, 256)
                .add("layers.0.attn.wq.scale", DType.F8_E8M0, 2, 2)
                .recognise(FP8_BLOCKS));

        assertEquals(new PerBlock(128, 128), weight.granularity());
        assertEquals("layers.0.attn.wq.scale", requireNonNull(weight.scale()).name());
    }

    @Test
    void experts_of_deepseek_v4_are_four_bit_codes_in_bytes() {
        StoredWeight weight = only(new Specs()
                .add("layers.0.ffn.experts.0.w1.weight", DType.I8, 256, 64)
                .add("layers.0.ffn.experts.0.w1.scale", DType.F8_E8M0, 256, 4)
                .recognise(FP8_BLOCKS));

        assertEquals(QuantType.E2M1, weight.codes());
        assertEquals(Shape.of(256, 128), weight.shape());
        assertEquals(new Mx(32), weight.granularity());
    }

    @Test
    void per_tensor_scales_of_transformers_have_its_names() {
        StoredWeight weight = only(new Specs()
                .add("a.weight", DType.F8_E4M3FN, 256, 256)
                .add("a.weight_scale_inv", DType.F32)
                .add("a.activation_scale", DType.F32)
                .recognise("{'quant_method': 'fp8', 'activation_scheme': 'static', 'weight_block_size': null}"));

        assertEquals(new PerTensor(), weight.granularity());
        assertEquals("a.activation_scale", requireNonNull(weight.inputScale()).name());
    }

    @Test
    void an_embedding_with_one_scale_stands_among_blocks() {
        assertEquals(
                new PerTensor(),
                granularity(new Specs()
                        .add("embed.weight", DType.F8_E4M3FN, 1000, 256)
                        .add("embed.weight_scale", DType.F32, 1)
                        .recognise(FP8_BLOCKS)));
    }

    @ParameterizedTest
    @CsvSource({"'4,4,2', PerBlock[rows=128; cols=128]", "'4,1,1', PerTensor[]", "'4,512', PerChannel[axis=-2]"})
    void fused_experts_have_scales_for_each(String dims, String granularity) {
        long[] shape =
                List.of(dims.split(",")).stream().mapToLong(Long::parseLong).toArray();
        StoredWeight weight = only(new Specs()
                .add("mlp.experts.gate_up_proj", DType.F8_E4M3FN, 4, 512, 256)
                .add("mlp.experts.gate_up_proj_scale_inv", DType.F32, shape)
                .add("mlp.experts.gate_up_proj_activation_scale", DType.F32, 4)
                .recognise(FP8_BLOCKS));

        assertEquals("mlp.experts.gate_up_proj", weight.name());
        assertEquals(granularity.replace(';', ','), weight.granularity().toString());
        assertEquals(
                "mlp.experts.gate_up_proj_activation_scale",
                requireNonNull(weight.inputScale()).name());
    }

    @Test
    void halves_of_a_fused_expert_have_a_scale_each() {
        // FP8Experts of transformers without blocks: two rows of scales for gate and up.
        assertEquals(
                new PerBlock(512, 2048),
                granularity(new Specs()
                        .add("mlp.experts.gate_up_proj", DType.F8_E4M3FN, 4, 1024, 2048)
                        .add("mlp.experts.gate_up_proj_scale_inv", DType.F32, 4, 2, 1)
                        .recognise()));
    }

    // ModelOpt

    @Test
    void modelopt_is_known_by_either_of_its_files() {
        Specs specs = new Specs()
                .add("a.weight", DType.F8_E4M3FN, 256, 128)
                .add("a.weight_scale", DType.F32)
                .add("a.input_scale", DType.F32);
        StoredCheckpoint nested = Layouts.recognise(Headers.of(
                specs.tensors(), Map.of(), Specs.json("{}"), Specs.json("{'quantization': {'quant_algo': 'FP8'}}")));

        assertEquals("modelopt", nested.layout());
        assertEquals(nested, specs.recognise("{'quant_method': 'modelopt', 'quant_algo': 'FP8'}"));
    }

    @ParameterizedTest
    @CsvSource({
        "FP8, '', fp8",
        "FP8_PER_CHANNEL_PER_TOKEN, '512', fp8-dynamic",
        "fp8_pb_wo, '4,1,2,1', fp8-block",
        "FP8_PB_WO, '4,2', fp8-block",
    })
    void scales_of_modelopt_have_a_shape_for_each_algorithm(String algorithm, String dims, String recipe) {
        long[] shape = dims.isEmpty()
                ? new long[0]
                : List.of(dims.split(",")).stream().mapToLong(Long::parseLong).toArray();
        assertEquals(
                recipe,
                new Specs()
                        .add("a.weight", DType.F8_E4M3FN, 512, 256)
                        .add("a.weight_scale", DType.F32, shape)
                        .recognise("{'quant_method': 'modelopt', 'quant_algo': '" + algorithm + "'}")
                        .recipe());
    }

    @Test
    void modelopt_may_mix_algorithms() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.F8_E4M3FN, 128, 128)
                .add("a.weight_scale", DType.F32)
                .add("b.weight", DType.U8, 128, 64)
                .add("b.weight_scale", DType.F8_E4M3FN, 128, 8)
                .add("b.weight_scale_2", DType.F32)
                .add("b.input_scale", DType.F32)
                .add("c.weight", DType.F8_E4M3FN, 128, 128)
                .add("c.weight_scale", DType.U8, 128, 4)
                .recognise("{'quant_method': 'modelopt', 'quant_algo': 'MIXED_PRECISION', 'quantized_layers':"
                        + " {'a': {'quant_algo': 'FP8'}, 'b': {'quant_algo': 'NVFP4', 'group_size': 16}}}");

        assertEquals(
                List.of(new PerTensor(), new PerGroup(-1, 16), new Mx(32)),
                read.weights().values().stream().map(StoredWeight::granularity).toList());
        assertNull(read.recipe());
        ScaleTensor global =
                requireNonNull(requireNonNull(read.weights().get("b.weight")).globalScale());
        assertEquals(ScaleTensor.Direction.MULTIPLIER, global.direction());
    }

    @Test
    void experts_packed_along_another_axis_have_no_scale_here() {
        // ModelOpt's Llama 4: codes [experts, in / 2, out].
        StoredCheckpoint read = new Specs()
                .add("experts.gate_up_proj", DType.U8, 4, 64, 512)
                .add("experts.gate_up_proj_weight_scale", DType.F8_E4M3FN, 4, 8, 512)
                .add("experts.gate_up_proj_weight_scale_2", DType.F32)
                .recognise("{'quant_method': 'modelopt', 'quant_algo': 'NVFP4'}");

        assertNull(only(read).scale());
        assertTrue(read.notes().getFirst().contains("does not fit"));
    }

    @Test
    void experts_of_nvfp4_have_a_second_level_each() {
        StoredWeight weight = only(new Specs()
                .add("experts.down_proj", DType.U8, 4, 64, 128)
                .add("experts.down_proj_weight_scale", DType.F8_E4M3FN, 4, 64, 16)
                .add("experts.down_proj_weight_scale_2", DType.F32, 4)
                .recognise());

        assertEquals(Shape.of(4, 64, 256), weight.shape());
        assertEquals(new PerGroup(-1, 16), weight.granularity());
        assertEquals(
                "experts.down_proj_weight_scale_2",
                requireNonNull(weight.globalScale()).name());
    }

    @Test
    void a_second_level_of_many_numbers_fits_no_single_matrix() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.U8, 64, 128)
                .add("a.weight_scale", DType.F8_E4M3FN, 64, 16)
                .add("a.weight_scale_2", DType.F32, 3)
                .recognise();

        assertNull(only(read).scale());
        assertTrue(read.notes().getFirst().contains("not one number"));
    }

    @ParameterizedTest
    @CsvSource({"4, E4M3FN, 128", "8, E2M1, 256"})
    void bytes_under_powers_of_two_are_one_code_or_two(int scales, QuantType codes, int inputs) {
        StoredWeight weight = only(new Specs()
                .add("a.weight", DType.U8, 64, 128)
                .add("a.weight_scale", DType.U8, 64, scales)
                .recognise());

        assertEquals(codes, weight.codes());
        assertEquals(new Mx(32), weight.granularity());
        assertEquals(Shape.of(64, inputs), weight.shape());
    }

    // compressed-tensors

    private static String compressed(String strategy) {
        return "{'quant_method': 'compressed-tensors', 'config_groups': {'group_0': {'targets': ['Linear'],"
                + " 'weights': {'num_bits': 8, 'type': 'float', " + strategy + "}}}, 'ignore': ['lm_head']}";
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            value = {
                "'strategy': 'tensor'; 1; PerTensor[]",
                "'strategy': 'tensor'; 1,1; PerTensor[]",
                "'strategy': 'channel'; 512,1; PerChannel[axis=-2]",
                "'strategy': 'channel'; 512; PerChannel[axis=-2]",
                "'strategy': 'group', 'group_size': 100; 512,3; PerGroup[axis=-1, size=100]",
                "'group_size': 64; 512,4; PerGroup[axis=-1, size=64]",
                "'strategy': 'block', 'block_structure': [64, 32]; 8,8; PerBlock[rows=64, cols=32]",
                "'strategy': 'block', 'block_structure': '128x128'; 4,2; PerBlock[rows=128, cols=128]",
            })
    void strategies_of_compressed_tensors(String strategy, String dims, String granularity) {
        long[] shape =
                List.of(dims.split(",")).stream().mapToLong(Long::parseLong).toArray();
        assertEquals(
                granularity,
                granularity(new Specs()
                                .add("a.weight", DType.F8_E4M3FN, 512, 256)
                                .add("a.weight_scale", DType.BF16, shape)
                                .recognise(compressed(strategy)))
                        .toString());
    }

    @Test
    void groups_of_mixed_precision_are_told_apart_by_their_targets() {
        // Both shapes fit blocks of other sizes as well: only the configuration knows.
        StoredCheckpoint read = new Specs()
                .add("m.0.up.weight", DType.F8_E4M3FN, 96, 96)
                .add("m.0.up.weight_scale", DType.F32, 2, 2)
                .add("m.0.down.weight", DType.F8_E4M3FN, 96, 96)
                .add("m.0.down.weight_scale", DType.F32, 2, 2)
                .recognise("{'quant_method': 'compressed-tensors', 'format': 'mixed-precision', 'config_groups': {"
                        + "'group_0': {'targets': ['re:.*up$'], 'weights': {'type': 'float', 'strategy': 'block',"
                        + " 'block_structure': [48, 64]}},"
                        + "'group_1': {'targets': ['Linear'], 'weights': {'type': 'float', 'strategy': 'block',"
                        + " 'block_structure': [64, 48]}}}}");

        assertEquals(
                List.of(new PerBlock(48, 64), new PerBlock(64, 48)),
                read.weights().values().stream().map(StoredWeight::granularity).toList());
    }

    @Test
    void integers_have_a_zero_point_or_none() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.I8, 64, 32)
                .add("a.weight_scale", DType.BF16, 64, 1)
                .add("b.weight", DType.I8, 64, 32)
                .add("b.weight_scale", DType.BF16, 64, 1)
                .add("b.weight_zero_point", DType.I8, 64, 1)
                .recognise();

        assertEquals(
                List.of(QuantType.INT8, QuantType.INT8_ASYMMETRIC),
                read.weights().values().stream().map(StoredWeight::codes).toList());
        assertEquals(Map.of(), read.others());
    }

    @Test
    void columns_in_another_order_have_no_scale_here() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.I8, 64, 64)
                .add("a.weight_scale", DType.BF16, 64, 2)
                .add("a.weight_g_idx", DType.I32, 64)
                .recognise();

        assertNull(only(read).scale());
        assertTrue(read.notes().getFirst().contains("g_idx"));
    }

    @Test
    void packed_columns_in_another_order_say_why_they_are_not_read() {
        StoredCheckpoint read = new Specs()
                .add("a.weight_packed", DType.I32, 64, 8)
                .add("a.weight_scale", DType.BF16, 64, 2)
                .add("a.weight_g_idx", DType.I32, 64)
                .recognise(packed(4, "'strategy': 'group', 'group_size': 32, 'actorder': 'group'"));

        assertNull(only(read).scale());
        assertTrue(Objects.requireNonNull(only(read).unread()).contains("weight_g_idx"));
    }

    @Test
    void a_row_of_words_is_as_long_as_the_shape_beside_it_says() {
        Specs specs = new Specs()
                .add("a.weight_packed", DType.I32, 6, 2)
                .add("a.weight_scale", DType.BF16, 6, 1)
                .add("a.weight_shape", DType.I64, 2);
        ObjectNode config = Specs.json("{'quantization_config': " + packed(4, "'strategy': 'channel'") + "}");

        StoredWeight weight = only(Layouts.recognise(
                new Headers(specs.tensors(), Map.of(), config, null, Map.of("a.weight_shape", Shape.of(6, 13)))));
        assertEquals(Shape.of(6, 13), weight.shape());
        assertEquals(QuantType.INT4, weight.codes());

        StoredCheckpoint wrong = Layouts.recognise(
                new Headers(specs.tensors(), Map.of(), config, null, Map.of("a.weight_shape", Shape.of(6, 17))));
        assertEquals(Map.of(), wrong.weights());
        assertTrue(
                wrong.notes().getFirst().contains("weight_shape"), wrong.notes().toString());
    }

    @Test
    void integers_of_other_widths_are_left_alone_with_a_note() {
        StoredCheckpoint read = new Specs()
                .add("a.weight_packed", DType.I32, 64, 8)
                .add("a.weight_scale", DType.BF16, 64, 1)
                .recognise(packed(2, "'strategy': 'channel'"));

        assertEquals(Map.of(), read.weights());
        assertTrue(read.notes().getFirst().contains("4 or 8 bits"), read.notes().toString());
    }

    private static String packed(int bits, String arguments) {
        return "{'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {'group_0': {"
                + "'targets': ['Linear'], 'weights': {'type': 'int', 'num_bits': " + bits + ", " + arguments + "}}}}";
    }

    @Test
    void packed_integers_are_left_alone_with_a_note() {
        StoredCheckpoint read = new Specs()
                .add("a.weight_packed", DType.I32, 64, 8)
                .add("a.weight_scale", DType.BF16, 64, 1)
                .add("a.weight_shape", DType.I64, 2)
                .recognise(compressed("'strategy': 'channel'"));

        assertEquals(Map.of(), read.weights());
        assertTrue(read.notes().getFirst().contains("packed integers"));
    }

    @Test
    void mxfp4_is_four_bits_in_groups_of_32() {
        StoredWeight weight = only(new Specs()
                .add("a.weight_packed", DType.U8, 64, 32)
                .add("a.weight_scale", DType.U8, 64, 2)
                .recognise());

        assertEquals("a.weight", weight.name());
        assertEquals(new Mx(32), weight.granularity());
        assertEquals(QuantType.E2M1, weight.codes());
    }

    // any tool, no configuration

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            nullValues = "none",
            value = {
                "F32; none; PerTensor[]",
                "BF16; 1; PerTensor[]",
                "F32; 512; PerChannel[axis=-2]",
                "F16; 512,1; PerChannel[axis=-2]",
                "F32; 4,2; PerBlock[rows=128, cols=128]",
                "F32; 8,4; PerBlock[rows=64, cols=64]",
                "F32; 512,2; PerGroup[axis=-1, size=128]",
                "U8; 512,8; Mx[axis=-1, size=32]",
                "F8_E8M0; 512,8; Mx[axis=-1, size=32]",
                "F32; 512,8; PerGroup[axis=-1, size=32]",
            })
    void the_shape_of_a_scale_tells_its_blocks(DType type, @Nullable String dims, String granularity) {
        long[] shape = dims == null
                ? new long[0]
                : List.of(dims.split(",")).stream().mapToLong(Long::parseLong).toArray();
        assertEquals(
                granularity,
                granularity(new Specs()
                                .add("a.weight", DType.F8_E4M3FN, 512, 256)
                                .add("a.weight_scale", type, shape)
                                .recognise())
                        .toString());
    }

    @ParameterizedTest
    @CsvSource({"a.weight_scale", "a.weight_scale_inv", "a.scale", "a.scale_weight", "a.weights_scaling_factor"})
    void a_scale_has_many_names(String name) {
        assertEquals(
                name,
                requireNonNull(only(new Specs()
                                        .add("a.weight", DType.F8_E5M2, 32, 32)
                                        .add(name, DType.F32)
                                        .recognise())
                                .scale())
                        .name());
    }

    @ParameterizedTest
    @CsvSource({"F8_E4M3FNUZ, E4M3FNUZ", "F8_E5M2FNUZ, E5M2FNUZ", "F8_E5M2, E5M2", "F8_E4M3FN, E4M3FN"})
    void codes_are_those_of_the_element_type(DType type, QuantType codes) {
        assertEquals(
                codes,
                only(new Specs()
                                .add("a.weight", type, 8, 8)
                                .add("a.weight_scale", DType.F32)
                                .recognise())
                        .codes());
    }

    @Test
    void codes_without_a_scale_are_a_weight_without_a_scale() {
        StoredCheckpoint read =
                new Specs().add("a.weight", DType.F8_E4M3FN, 8, 8).recognise();

        assertNull(only(read).scale());
        assertEquals(Layouts.PLAIN, read.layout());
    }

    @Test
    void scales_of_fused_parts_of_unknown_size_fit_nothing() {
        StoredCheckpoint read = new Specs()
                .add("qkv_proj.weight", DType.F8_E4M3FN, 6144, 4096)
                .add("qkv_proj.weight_scale", DType.F32, 3)
                .recognise();

        assertNull(only(read).scale());
        assertTrue(read.notes().getFirst().contains("does not fit"));
    }

    @Test
    void one_scale_for_each_input_fits_nothing_that_layouts_know() {
        // [1, in] on a square weight: the channels of the transposed matrix, not [out, 1].
        StoredWeight weight = only(new Specs()
                .add("a.weight", DType.F8_E4M3FN, 4, 4)
                .add("a.weight_scale", DType.F32, 1, 4)
                .recognise(compressed("'strategy': 'channel'")));

        assertTrue(!weight.granularity().equals(new PerChannel(-2)));
    }

    @Test
    void scales_of_the_cache_belong_to_no_weight() {
        StoredCheckpoint read = new Specs()
                .add("l.attn.k_proj.weight", DType.F8_E4M3FN, 8, 8)
                .add("l.attn.k_proj.weight_scale", DType.F32)
                .add("l.attn.k_proj.k_scale", DType.F32)
                .add("l.attn.v_scale", DType.F32)
                .add("l.attn.v_proj.output_scale", DType.F32)
                .recognise();

        assertEquals(
                Set.of("l.attn.k_proj.k_scale", "l.attn.v_scale", "l.attn.v_proj.output_scale"),
                read.others().keySet());
        assertEquals(Map.of(), read.plain());
    }

    @Test
    void a_scale_whose_weight_is_not_quantised_is_noted() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.BF16, 8, 8)
                .add("a.weight_scale", DType.F32)
                .recognise();

        assertEquals(Set.of("a.weight_scale"), read.others().keySet());
        assertTrue(read.notes().getFirst().contains("a.weight_scale"));
    }

    @Test
    void extra_state_is_skipped_with_a_note() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.BF16, 8, 8)
                .add("a._extra_state", DType.U8, 1000)
                .recognise();

        assertEquals("transformer-engine", read.layout());
        assertEquals(Set.of("a.weight"), read.plain().keySet());
        assertEquals(1, read.notes().size());
    }

    @Test
    void a_method_that_octet_does_not_know_is_noted_and_tensors_speak() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.F8_E4M3FN, 64, 8)
                .add("a.weight_scale", DType.F32, 64, 1)
                .recognise("{'quant_method': 'fbgemm_fp8'}");

        assertEquals("fp8-dynamic", read.recipe());
        assertTrue(read.notes().getFirst().contains("fbgemm_fp8"));
    }

    @Test
    void a_model_with_nothing_quantised_is_plain() {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.BF16, 8, 8)
                .add("a.bias", DType.F32, 8)
                .add("ids", DType.I64, 3)
                .recognise();

        assertEquals(Layouts.PLAIN, read.layout());
        assertEquals(3, read.plain().size());
        assertEquals(List.of(), read.notes());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            value = {
                "{'quant_method': 'compressed-tensors'}",
                "{'quant_method': 'compressed-tensors', 'config_groups': [1, 2]}",
                "{'quant_method': 'compressed-tensors', 'config_groups': {'group_0': null}}",
                "{'quant_method': 'compressed-tensors', 'config_groups': {'g': {'targets': 7, 'weights':"
                        + " {'block_structure': '1x', 'group_size': -5}}}, 'ignore': {'a': 1}}",
                "{'quant_method': 'compressed-tensors', 'config_groups': {'g': {'targets': ['re:(', 're:'], 'weights':"
                        + " {'strategy': 'block', 'block_structure': [0, -1]}}}}",
                "{'quant_method': 'compressed-tensors', 'config_groups': {'FP9': ['Linear'], 'FP8_BLOCK': ['Linear']}}",
                "{'quant_method': 'fp8', 'weight_block_size': 128}",
                "{'quant_method': 'fp8', 'weight_block_size': [0, 'x']}",
                "{'quant_method': 'fp8', 'weight_block_size': [99999999999, 1]}",
                "{'quant_method': 'modelopt', 'quant_algo': [], 'quantized_layers': 'x'}",
                "{'quant_method': {}}",
                "{}",
            })
    void no_configuration_makes_recognising_fail(String config) {
        StoredCheckpoint read = new Specs()
                .add("a.weight", DType.F8_E4M3FN, 256, 256)
                .add("a.weight_scale", DType.F32, 2, 2)
                .add("empty.weight", DType.F8_E4M3FN, 0, 4)
                .add("empty.weight_scale", DType.F32, 0, 1)
                .add("scalar.weight", DType.F8_E4M3FN)
                .add("scalar.weight_scale", DType.F32)
                .add("odd.weight", DType.F8_E4M3FN, 3, 5, 7, 2)
                .add("odd.weight_scale", DType.F32, 2, 2, 2)
                .recognise(config);

        assertEquals(4, read.weights().size());
        assertEquals(
                new PerBlock(128, 128),
                requireNonNull(read.weights().get("a.weight")).granularity());
    }

    @Test
    void codes_of_a_weight_that_has_codes_already_stay_among_the_tensors() {
        StoredCheckpoint stored = new Specs()
                .add("m.weight", DType.F8_E4M3FN, 8, 4)
                .add("m.weight_packed", DType.F8_E4M3FN, 3)
                .add("m.weight_scale_inv", DType.F32, 1, 1)
                .recognise();
        assertEquals(
                "m.weight",
                requireNonNull(stored.weights().get("m.weight")).data().name());
        assertEquals(Set.of("m.weight_packed"), stored.plain().keySet());
        assertTrue(
                stored.notes().toString().contains("both codes of one weight"),
                stored.notes().toString());
    }
}
