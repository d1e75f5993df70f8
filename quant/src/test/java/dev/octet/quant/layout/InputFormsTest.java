package dev.octet.quant.layout;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What configurations say of activations. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class InputFormsTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, TensorSpec> tensors = new LinkedHashMap<>();

    private InputFormsTest with(String name, DType type, long... dims) {
        tensors.put(name, new TensorSpec(name, type, Shape.of(dims)));
        return this;
    }

    private InputForms forms(String quantization) throws IOException {
        ObjectNode config = (ObjectNode) JSON.readTree("{\"quantization_config\": " + quantization + "}");
        return InputForms.of(Layouts.recognise(Headers.of(tensors, Map.of(), config, null)), config, null);
    }

    private static String text(InputForms forms) {
        OperandSpec form = forms.byWeight().get("m.weight");
        if (form == null) {
            return "none";
        }
        String granularity = switch (form.granularity()) {
            case Granularity.PerTensor _ -> "tensor";
            case Granularity.PerToken _ -> "token";
            case Granularity.PerGroup(int _, int size) -> "group of " + size;
            case Granularity.PerChannel _, Granularity.PerBlock _, Granularity.Mx _ -> "nonsense";
        };
        return granularity + (form.isDynamic() ? " dynamic" : " static");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{'quant_method':'modelopt','quant_algo':'FP8'} | tensor static",
                "{'quant_method':'modelopt','quant_algo':'FP8_PER_CHANNEL_PER_TOKEN'} | token dynamic",
                "{'quant_method':'modelopt','quant_algo':'fp8_pb_wo'} | group of 128 dynamic",
                "{'quant_method':'fp8','activation_scheme':'static','weight_block_size':null} | tensor static",
                "{'quant_method':'fp8','activation_scheme':'dynamic','weight_block_size':null} | token dynamic",
                "{'quant_method':'compressed-tensors','config_groups':{'group_0':{'targets':['Linear'],"
                        + "'weights':{'num_bits':8,'type':'float','strategy':'tensor'},"
                        + "'input_activations':{'num_bits':8,'type':'float','strategy':'tensor'}}}} | tensor static",
                "{'quant_method':'compressed-tensors','config_groups':{'group_0':{'targets':['Linear'],"
                        + "'weights':{'num_bits':8,'type':'float','strategy':'tensor'},'input_activations':"
                        + "{'num_bits':8,'type':'float','strategy':'tensor','dynamic':true}}}} | tensor dynamic",
                "{'quant_method':'compressed-tensors','config_groups':{'group_0':{'targets':['Linear'],"
                        + "'weights':{'num_bits':8,'type':'float','strategy':'tensor'},'input_activations':"
                        + "{'num_bits':8,'type':'float','strategy':'group','group_size':64,'dynamic':true}}}}"
                        + " | group of 64 dynamic",
                "{'quant_method':'compressed-tensors','config_groups':{'group_0':{'targets':['Linear'],"
                        + "'weights':{'num_bits':8,'type':'float','strategy':'tensor'},"
                        + "'input_activations':null}}} | none"
            })
    void the_configuration_says_how_inputs_are_quantised(String quantization, String expected) throws IOException {
        with("m.weight", DType.F8_E4M3FN, 256, 256)
                .with("m.weight_scale", DType.F32)
                .with("m.input_scale", DType.F32);
        InputForms forms = forms(quantization.replace('\'', '"'));
        assertEquals(expected, text(forms));
        assertEquals(List.of(), forms.notes());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "'strategy':'token','dynamic':true | token dynamic",
                "'strategy':'tensor' | tensor static",
                "'strategy':'token','dynamic':true,'symmetric':false | token dynamic, zero points",
                "'strategy':'tensor','dynamic':true,'symmetric':false | none",
                "'strategy':'tensor','symmetric':false | none"
            })
    void integers_are_of_each_token_or_symmetric_and_static(String inputs, String expected) throws IOException {
        with("m.weight", DType.I8, 256, 256)
                .with("m.weight_scale", DType.F32, 256, 1)
                .with("m.input_scale", DType.F32, 1);
        InputForms forms =
                forms(("{'quant_method':'compressed-tensors','config_groups':{'group_0':{'targets':['Linear'],"
                                + "'weights':{'num_bits':8,'type':'int','strategy':'channel'},"
                                + "'input_activations':{'num_bits':8,'type':'int'," + inputs + "}}}}")
                        .replace('\'', '"'));
        boolean moved = expected.endsWith("zero points");
        assertEquals(expected.replace(", zero points", ""), text(forms));
        OperandSpec form = forms.byWeight().get("m.weight");
        assertEquals(expected.equals("none"), form == null);
        assertTrue(form == null || form.type() == (moved ? QuantType.INT8_ASYMMETRIC : QuantType.INT8));
    }

    @Test
    void the_upper_scale_of_nvfp4_decides_whether_its_inputs_are_rounded() throws IOException {
        String config = "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}";
        with("m.weight", DType.U8, 256, 128)
                .with("m.weight_scale", DType.F8_E4M3FN, 256, 16)
                .with("m.weight_scale_2", DType.F32);
        assertEquals("none", text(forms(config)));
        InputForms forms = with("m.input_scale", DType.F32).forms(config);
        assertEquals("group of 16 dynamic", text(forms));
        assertEquals(
                QuantType.E2M1, requireNonNull(forms.byWeight().get("m.weight")).type());
    }

    @Test
    void a_block_of_the_weight_is_as_wide_as_a_group_of_the_input() throws IOException {
        with("m.weight", DType.F8_E4M3FN, 256, 256).with("m.weight_scale_inv", DType.F32, 4, 4);
        assertEquals(
                "group of 64 dynamic",
                text(forms(
                        "{\"quant_method\":\"fp8\",\"activation_scheme\":\"dynamic\",\"weight_block_size\":[64,64]}")));
    }

    @Test
    void integers_have_a_scale_for_each_token() throws IOException {
        with("m.weight", DType.I8, 256, 256).with("m.weight_scale", DType.F32, 256, 1);
        InputForms forms =
                forms("{'quant_method':'compressed-tensors','config_groups':{'group_0':{'targets':['Linear'],"
                                .replace('\'', '"')
                        + "'weights':{'num_bits':8,'type':'int','strategy':'channel'},'input_activations':"
                                .replace('\'', '"')
                        + "{'num_bits':8,'type':'int','strategy':'token','dynamic':true}}}}".replace('\'', '"'));
        assertEquals(
                QuantType.INT8, requireNonNull(forms.byWeight().get("m.weight")).type());
        assertEquals("token dynamic", text(forms));
        assertEquals(List.of(), forms.notes());
    }

    @Test
    void a_static_scale_that_is_missing_is_noted() throws IOException {
        with("m.weight", DType.F8_E4M3FN, 256, 256).with("m.weight_scale", DType.F32);
        InputForms forms = forms("{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"}");
        assertEquals("none", text(forms));
        assertTrue(forms.notes().getFirst().contains("missing"), forms.notes().toString());
    }
}
