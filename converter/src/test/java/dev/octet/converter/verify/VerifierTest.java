package dev.octet.converter.verify;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.verify.GoodCheckpoint.Kind;
import dev.octet.quant.layout.ModulePattern;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class VerifierTest {
    @TempDir
    Path folder;

    @TempDir
    Path originalFolder;

    @ParameterizedTest
    @EnumSource(Kind.class)
    void the_weights_of_a_good_checkpoint_have_no_finding_either(Kind kind) throws IOException {
        GoodCheckpoint.of(kind).write(folder);
        GoodCheckpoint.of(Kind.PLAIN).write(originalFolder);
        Verification result = Verifier.verify(
                folder,
                VerifyOptions.defaults()
                        .withConsumers(kind.consumers())
                        .withOriginal(originalFolder)
                        .withDeep(true)
                        .withThreads(3));
        assertEquals(List.of(), result.findings());
        assertEquals(List.of(), result.notes());
        assertEquals(
                List.of(),
                result.rulesSkipped().stream()
                        .filter(s -> !s.reason().contains("consumers"))
                        .toList());
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void a_good_checkpoint_has_no_finding(Kind kind) throws IOException {
        GoodCheckpoint.of(kind).write(folder);
        Verification result = Verifier.verify(folder, VerifyOptions.defaults().withConsumers(kind.consumers()));
        assertEquals(List.of(), result.findings());
        assertEquals(List.of(), result.notes());
    }

    @Test
    void a_fault_in_every_weight_is_one_finding_with_a_count_and_the_first_few_places() throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(Kind.FP8_BLOCK);
        List.copyOf(model.tensors.keySet()).stream()
                .filter(n -> n.endsWith("_scale_inv"))
                .forEach(model::remove);
        model.write(folder);
        Verification result = Verifier.verify(folder, VerifyOptions.defaults());
        assertEquals(1, result.findings().size(), result.findings().toString());
        assertEquals(17, result.findings().getFirst().count());
        assertEquals(Finding.MAX_PLACES, result.findings().getFirst().places().size());
    }

    @Test
    void any_number_of_threads_finds_the_same_in_the_same_order() throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(Kind.FP8_BLOCK);
        List.copyOf(model.tensors.keySet()).stream()
                .filter(n -> n.endsWith("_scale_inv"))
                .forEach(model::remove);
        model.config().remove("architectures");
        model.config().put("tie_word_embeddings", true);
        model.metadata.clear();
        model.write(folder);
        List<Finding> alone =
                Verifier.verify(folder, VerifyOptions.defaults().withThreads(1)).findings();
        assertTrue(alone.size() > 2, alone.toString());
        for (int threads = 2; threads <= 4; threads++) {
            assertEquals(
                    alone,
                    Verifier.verify(folder, VerifyOptions.defaults().withThreads(threads))
                            .findings());
        }
    }

    @Test
    void a_hostile_target_is_given_up_once_and_not_for_every_module() throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(Kind.CT_CHANNEL);
        model.group().putArray("targets").add("re:(.*a){20}$");
        QuantSettings settings = QuantSettings.of(model.config(), null);
        assertFalse(settings.targets("a".repeat(64)));
        assertTrue(((ModulePattern.Regex) settings.groups().getFirst().targets().getFirst()).isSpent());
    }

    @Test
    void what_matters_to_nobody_asked_for_is_not_told() throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(Kind.PLAIN);
        model.metadata.clear();
        model.write(folder);
        Verification result = Verifier.verify(folder, VerifyOptions.defaults().withConsumers(Set.of(Consumer.VLLM)));
        assertEquals(List.of(), result.findings());
        assertTrue(result.rulesSkipped().stream().anyMatch(s -> s.rule().equals("format-metadata")));
    }

    @Test
    void the_possible_numbers_of_devices_are_told() throws IOException {
        GoodCheckpoint.of(Kind.FP8_BLOCK).write(folder);
        // keys have one block of 128 rows for two heads
        assertEquals(
                List.of(1), Verifier.verify(folder, VerifyOptions.defaults()).devices());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": [1, 2]}}",
                "{\"quantization_config\": {\"quant_method\": 7, \"ignore\": {\"a\": 1}}}",
                "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [-1, 0]}}",
                "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": \"128x\"}}",
                "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"ignore\": [\"re:(a+)+$\","
                        + " \"re:(\"]}}",
                "{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": [], \"exclude_modules\":"
                        + " [\"*a*b*c*d*\"]}}",
                "{\"num_attention_heads\": -4, \"quantization_config\": {\"quant_method\": \"compressed-tensors\","
                    + " \"config_groups\": {\"g\": {\"targets\": [\"Linear\"], \"weights\": {\"strategy\": \"block\","
                    + " \"num_bits\": 1e99, \"group_size\": -9, \"block_structure\": [9999999999999, 1]}}}}}",
                "{\"text_config\": [], \"quantization_config\": []}",
                "[]"
            })
    void a_hostile_configuration_is_judged_and_not_thrown_up_on(String config) throws IOException {
        GoodCheckpoint.of(Kind.CT_CHANNEL).write(folder);
        Files.writeString(folder.resolve("config.json"), config);
        Verification result =
                Verifier.verify(folder, VerifyOptions.defaults().withDeep(true).withTensorParallel(List.of(1, 3, 8)));
        assertFalse(result.findings().isEmpty());
    }
}
